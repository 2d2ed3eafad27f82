"""A small map in a large one: the places of the large map, one after the other.

Only the longest lines of a large map are matched. A building is a small part of its street, and hardly any of its lines
are among the longest of all. So places about as large as the small map are cut out of the large one. The longest lines
of the small map are matched with those of each place, and it is registered to the places whose matches are most
probable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.masks import quantile
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry.lines import LineSet

_EXTENT_QUANTILE = 0.95  # of the distances from the centre, that the extent of a map is
_MIN_EXTENT_RATIO = 3.0  # of the maps, from which on the smaller is looked for in places of the larger
_SPACING = 1.2  # of the places, in extents of the small map
_RADIUS = 2.1  # of a place: contains the small map wherever its centre is between those of the places
_MIN_LINES = 12  # of a place
_MAX_PLACES = 200
_RANKED_MATCHES = 60  # whose probability tells how probable a place is
RANKING_LINES = 128  # longest lines of a place and of the small map that are matched to rank the places
PLACE_LINES = 400  # the same for the registration to a place
BEST_PLACES = 16  # that the small map is registered to


def probable_places(
    maps: MapPair, normalize: Callable[[LineSet, LineSet], MapPair], match: Callable[[MapPair], Matches]
) -> list[tuple[LineSet, LineSet]]:
    """The smaller map with places of the larger one, the most probable first, in their original frames."""
    pairs = list(place_pairs(maps))
    probability = [float(match(normalize(*pair)).first(_RANKED_MATCHES).probability.sum()) for pair in pairs]
    order = sorted(range(len(pairs)), key=lambda row: -probability[row])
    return [pairs[row] for row in order[:BEST_PLACES]]


def place_pairs(maps: MapPair) -> Iterator[tuple[LineSet, LineSet]]:
    """The smaller map with each place of the larger one; none if the maps are about equally large."""
    if not has_places(maps):
        return
    sides = maps.all_source, maps.all_target
    extents = [_extent(side) for side in sides]
    large = int(extents[1] > extents[0])
    source, target = maps.all_original_lines
    for rows in _places(sides[large].anchor, extents[1 - large]):
        yield (source, target[rows]) if large else (source[rows], target)


def has_places(maps: MapPair) -> bool:
    """Whether one map is so much larger than the other that its places must be searched one by one."""
    small, large = sorted(_extent(side) for side in (maps.all_source, maps.all_target))
    return maps.has_lines_outside_core and large >= _MIN_EXTENT_RATIO * small


def smaller_is_source(maps: MapPair) -> bool:
    """Whether the source has the smaller extent."""
    return _extent(maps.all_source) < _extent(maps.all_target)


def _extent(lines: AnchoredLines) -> float:
    centre = lines.anchor.median(0).values
    return quantile((lines.anchor - centre).norm(dim=-1), _EXTENT_QUANTILE)


def _places(anchor: Float[Tensor, "n 3"], extent: float) -> Iterator[Int[Tensor, " k"]]:
    """Rows of the lines around each occupied cell of a grid, those with most lines first."""
    cells = (anchor / (_SPACING * extent)).floor().long()
    occupied, count = cells.unique(dim=0, return_counts=True)
    for cell in occupied[count.argsort(descending=True, stable=True)[:_MAX_PLACES]]:
        centre = (cell.to(anchor.dtype) + 0.5) * _SPACING * extent
        rows = ((anchor - centre).norm(dim=-1) < _RADIUS * extent).nonzero()[:, 0]
        if len(rows) >= _MIN_LINES:
            yield rows

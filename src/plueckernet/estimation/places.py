"""A small map in a large one: the places of the large map, one after the other.

Only the longest lines of a large map are matched. A building is a small part of its street, and hardly any of its lines
are among the longest of all. So places about as large as the small map are cut out of the large one, and the small map
is registered to each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.scoring import AnchoredLines

_EXTENT_QUANTILE = 0.95  # of the distances from the centre, that the extent of a map is
_MIN_EXTENT_RATIO = 3.0  # of the maps, from which on the smaller is looked for in places of the larger
_SPACING = 1.2  # of the places, in extents of the small map
_RADIUS = 2.1  # of a place: contains the small map wherever its centre is between those of the places
_MIN_LINES = 12  # of a place
PLACE_LINES = 400  # longest lines of a place and of the small map that are matched
MAX_PLACES = 200


def place_pairs(maps: MapPair, normalize: Callable[[AnchoredLines, AnchoredLines], MapPair]) -> Iterator[MapPair]:
    """The smaller map with each place of the larger one; none if the maps are about equally large."""
    sides = maps.all_source, maps.all_target
    centres = [side.anchor.median(0).values for side in sides]
    extents = [_extent(side, centre) for side, centre in zip(sides, centres, strict=True)]
    large = int(extents[1] > extents[0])
    small_extent = extents[1 - large]
    if not maps.has_lines_outside_core or extents[large] < _MIN_EXTENT_RATIO * small_extent:
        return
    for rows in _places(sides[large].anchor, small_extent):
        place = sides[large][rows]
        yield normalize(sides[0], place) if large else normalize(place, sides[1])


def _extent(lines: AnchoredLines, centre: Float[Tensor, "3"]) -> float:
    return float((lines.anchor - centre).norm(dim=-1).quantile(_EXTENT_QUANTILE))


def _places(anchor: Float[Tensor, "n 3"], extent: float) -> Iterator[Int[Tensor, " k"]]:
    """Rows of the lines around each occupied cell of a grid, those with most lines first."""
    cells = (anchor / (_SPACING * extent)).floor().long()
    occupied, count = cells.unique(dim=0, return_counts=True)
    for cell in occupied[count.argsort(descending=True, stable=True)[:MAX_PLACES]]:
        centre = (cell.to(anchor.dtype) + 0.5) * _SPACING * extent
        rows = ((anchor - centre).norm(dim=-1) < _RADIUS * extent).nonzero()[:, 0]
        if len(rows) >= _MIN_LINES:
            yield rows

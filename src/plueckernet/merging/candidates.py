"""Which of many maps may overlap: pairs of maps that have similar neighbourhoods of lines.

Some lines of each map are described by what surrounds them (:func:`plueckernet.estimation.matching.describe`), in a
length that is common to all maps, so that a neighbourhood looks the same in every map that has it. All descriptors of
all maps are whitened together, which makes common structure count little. Each line votes for the maps of the lines
most similar to it. No pair of maps is matched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.estimation.matching import DescriptorSettings, describe
from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.settings import check_at_least, check_positive

_MIN_MAPS_FOR_CHANCE = 8  # in a larger heap most pairs do not overlap, so the median similarity is that of chance
_BLOCK = 1 << 24  # similarities computed at a time


@dataclass(frozen=True)
class RetrievalSettings:
    """How pairs of maps that may overlap are chosen."""

    candidates: int = 3  # maps that each map is registered to at least, the most similar
    further: int = 3  # pairs with other groups that each group is then registered by
    contested: int = 2  # pairs that each map is then registered by if a confident edge of it was rejected
    min_similarity: float = 2.5  # of these pairs, in medians of all pairs: below it they are similar by chance
    rounds: int = 5  # of further pairs, at most; they end when no more groups are joined
    lines: int = 128  # of each map, the longest, that vote
    surrounding_lines: int = 600  # of each map, the longest, that they are described by
    neighbourhood: float = 0.5  # sigma of a neighbourhood, in median radii of the maps
    votes: int = 30  # most similar lines of other maps that a line votes for
    temperature: float = 0.1  # of the cosine similarity

    def __post_init__(self) -> None:
        check_at_least(self, 1, "candidates", "lines", "surrounding_lines", "votes")
        check_at_least(self, 0, "further", "rounds", "contested")
        check_positive(self, "neighbourhood", "temperature", "min_similarity")


def candidate_pairs(similarity: Float[Tensor, "m m"], count: int) -> list[tuple[int, int]]:
    """Pairs ``(i, j)``, ``i < j``, the most similar first: each map with the ``count`` most similar to it."""
    rank = similarity.argsort(dim=1, descending=True, stable=True).argsort(dim=1, stable=True)
    chosen = (rank < count) & (similarity >= 0)
    rows = (chosen | chosen.mT).triu(1).nonzero()
    order = similarity[rows[:, 0], rows[:, 1]].argsort(descending=True, stable=True)
    return [(int(first), int(second)) for first, second in rows[order].tolist()]


def further_pairs(
    similarity: Float[Tensor, "m m"],
    groups: Sequence[Sequence[int]],
    tried: set[tuple[int, int]],
    settings: RetrievalSettings,
    contested: Iterable[int] = (),
) -> list[tuple[int, int]]:
    """For each group, the most similar pairs with other groups that have not been tried.

    Contested maps, on which confident edges were rejected, are also paired with those most similar to them, of any
    group: more cycles decide which edges are right.
    """
    chosen: set[tuple[int, int]] = set()
    count = len(similarity)
    least = 0.0
    if count > _MIN_MAPS_FOR_CHANCE:
        rows = torch.triu_indices(count, count, 1)
        least = settings.min_similarity * float(similarity[rows[0], rows[1]].median())
    for group in groups:
        others = sorted(set(range(len(similarity))) - set(group))
        pairs = [(min(inside, outside), max(inside, outside)) for inside in group for outside in others]
        pairs = [pair for pair in pairs if pair not in tried and float(similarity[pair]) >= least]
        pairs.sort(key=lambda pair: -float(similarity[pair]))
        chosen |= set(pairs[: settings.further])
    for name in contested:
        pairs = [(min(name, other), max(name, other)) for other in range(count) if other != name]
        pairs.sort(key=lambda pair: -float(similarity[pair]))
        chosen |= set([pair for pair in pairs if pair not in tried][: settings.contested])
    return sorted(chosen, key=lambda pair: (-float(similarity[pair]), pair))


def map_similarity(maps: Sequence[LineSet], settings: RetrievalSettings) -> Float[Tensor, "m m"]:
    """Votes between maps of one unit, symmetric; the diagonal is -1."""
    unit = float(torch.stack([map_radius(lines) for lines in maps]).median())
    described = [_described(lines, unit, settings) for lines in maps]
    owner = torch.arange(len(maps)).repeat_interleave(torch.tensor([len(rows) for rows in described]))
    votes = _votes(_whitened(torch.cat(described)), owner, settings, len(maps))
    return (votes + votes.mT).fill_diagonal_(-1.0)


def map_radius(lines: LineSet) -> Float[Tensor, ""]:
    """Median distance of the lines from their centre: half of the lines are within it."""
    anchor = lines.anchors(lines.centre())
    return (anchor - anchor.median(0).values).norm(dim=-1).median().clamp_min(1e-9)


def _described(lines: LineSet, unit: float, settings: RetrievalSettings) -> Float[Tensor, "k d"]:
    """Descriptors of the longest lines."""
    if lines.endpoints is not None:
        kept = lines.lengths().topk(min(settings.surrounding_lines, len(lines))).indices
    else:
        kept = torch.arange(min(settings.surrounding_lines, len(lines)))
    lines = lines.replaced(ids=None)[kept].replaced(ids=None)
    centred = Similarity.from_pose(Pose.identity(), 1 / unit) @ lines.shifted(lines.centre())
    anchored = AnchoredLines.of(centred, torch.zeros(3, dtype=torch.float64))
    chosen = DescriptorSettings(neighbourhood=settings.neighbourhood, max_distance=2 * settings.neighbourhood)
    return describe(anchored, chosen)[: settings.lines]


def _whitened(described: Float[Tensor, "n d"], dimensions: int = 64) -> Float[Tensor, "n k"]:
    centred = described - described.mean(0)
    values, axes = torch.linalg.eigh((centred.mT @ centred).double())
    kept = values[-dimensions:] > 1e-9 * values[-1].clamp_min(1e-30)
    basis = axes[:, -dimensions:][:, kept] / values[-dimensions:][kept].sqrt()
    return normalize(centred @ basis.float(), dim=-1)


def _votes(
    described: Float[Tensor, "n k"], owner: Int[Tensor, " n"], settings: RetrievalSettings, count: int
) -> Float[Tensor, "m m"]:
    votes = torch.zeros(count, count)
    for rows in _blocks(len(described)):
        similarity = described[rows] @ described.mT
        similarity.masked_fill_(owner[rows, None] == owner, -2.0)
        best, which = similarity.topk(min(settings.votes, len(described) - 1), dim=1)
        weight = (best / settings.temperature).softmax(-1)
        place = owner[rows, None] * count + owner[which]
        votes.view(-1).index_add_(0, place.flatten(), weight.flatten())
    return votes


def _blocks(count: int) -> Iterator[slice]:
    step = max(1, _BLOCK // max(1, count))
    return (slice(first, first + step) for first in range(0, count, step))

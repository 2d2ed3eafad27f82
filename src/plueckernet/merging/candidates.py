"""Which pairs of maps are registered: first those that resemble each other, then those that decide what is open."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from plueckernet.settings import check_at_least, check_positive


@dataclass(frozen=True)
class RetrievalSettings:
    """How pairs of maps that may overlap are chosen."""

    candidates: int = 3  # maps that each map is registered to at least, those that resemble it most
    further: int = 3  # pairs with other groups that each group is then registered by
    contested: int = 2  # pairs that each map is then registered by if a confident edge of it was rejected
    min_score: float = 3.0  # of these pairs, see `plueckernet.retrieval.overlap_scores`: below it maps agree by chance
    rounds: int = 5  # of further pairs, at most; a group gets no more once a round did not change it

    def __post_init__(self) -> None:
        check_at_least(self, 1, "candidates")
        check_at_least(self, 0, "further", "rounds", "contested")
        check_positive(self, "min_score")


def further_pairs(
    scores: Float[Tensor, "m m"],
    groups: Iterable[Collection[int]],
    tried: set[tuple[int, int]],
    settings: RetrievalSettings,
    contested: Iterable[int] = (),
) -> list[tuple[int, int]]:
    """For each group, the most similar pairs with other groups that have not been tried.

    Contested maps, on which confident edges were rejected, are also paired with those most similar to them, of any
    group: more cycles decide which edges are right.
    """
    chosen: set[tuple[int, int]] = set()
    for group in groups:
        others = sorted(set(range(len(scores))) - set(group))
        pairs = [(min(inside, outside), max(inside, outside)) for inside in group for outside in others]
        pairs = [pair for pair in pairs if pair not in tried and float(scores[pair]) >= settings.min_score]
        pairs.sort(key=lambda pair: -float(scores[pair]))
        chosen |= set(pairs[: settings.further])
    for name in contested:
        pairs = [(min(name, other), max(name, other)) for other in range(len(scores)) if other != name]
        pairs = [pair for pair in pairs if pair not in tried and float(scores[pair]) >= settings.min_score]
        pairs.sort(key=lambda pair: -float(scores[pair]))
        chosen |= set(pairs[: settings.contested])
    return sorted(chosen, key=lambda pair: (-float(scores[pair]), pair))

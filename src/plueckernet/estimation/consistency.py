"""Which matches can be true together: a rigid motion preserves the invariants of two lines."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.estimation.scoring import BLOCK_ENTRIES, AnchoredLines, InlierThreshold, RowScorer
from plueckernet.geometry.invariants import pairwise_invariants
from plueckernet.geometry.lines import LineSet
from plueckernet.kernels.drawing import draw_weights as compiled_weights
from plueckernet.kernels.hypotheses import match_support as compiled_support
from plueckernet.kernels.library import compiled

_ITERATIONS = 4  # towards the leading eigenvector


def compatibility(source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold) -> Float[Tensor, "k k"]:
    """1 for pairs of row matches that one rigid motion can satisfy, 0 otherwise.

    The angle between the two lines and their distance must agree. For segments the distance of the midpoints must
    agree as well, except for the difference that cut ends explain. Two matches of the same line are incompatible.
    """
    count = len(source)
    sides = _Sides.of(source, target)
    compatible = torch.zeros(count, count, device=source.anchor.device)
    size = max(1, 2 * BLOCK_ENTRIES // max(1, count))
    for start in range(0, count, size):  # pairs (i, j) with i < j, and the rest of each block
        compatible[start : start + size, start:] = _margin(sides, threshold, start, size).gt_(0)
    compatible.triu_(1)
    return compatible + compatible.mT


def second_order(compatible: Float[Tensor, "k k"]) -> Float[Tensor, "k k"]:
    """For each compatible pair, the number of matches compatible with both (SC², Chen et al. 2022).

    Two wrong matches may be compatible by chance. They rarely have many compatible matches in common.
    """
    if compatible.device.type != "cpu":
        return (compatible @ compatible).mul_(compatible)
    whole = compatible.to(torch.int8)  # four times faster, and as exact
    return torch._int_mm(whole, whole).to(compatible.dtype).mul_(compatible)


@dataclass(frozen=True, eq=False)
class MatchGraph:
    """Matches, how probable they are and how much each pair of them supports one another."""

    support: Float[Tensor, "k k"]
    probability: Float[Tensor, " k"]

    @classmethod
    def of(cls, scorer: RowScorer, probability: Float[Tensor, " k"]) -> MatchGraph:
        """The graph of the row matches of a scorer."""
        if len(probability) != len(scorer.source):
            raise InputError(f"{len(scorer.source)} matches need as many probabilities, got {len(probability)}")
        if compiled(probability):
            support = _compiled_support(scorer)
        else:
            support = second_order(compatibility(scorer.source, scorer.target, scorer.threshold))
        return MatchGraph(support, probability.to(support.dtype))

    def draw_weights(self) -> Float[Tensor, "k k"]:
        """The weight of each pair in a random draw: large in the largest consistent group."""
        if self.support.dtype == torch.float32 and compiled(self.support, self.probability):
            return compiled_weights(self.support, self.probability, _ITERATIONS)
        strength = match_support(self.support) * self.probability
        return (self.support * strength[:, None]).mul_(strength)


def match_support(support: Float[Tensor, "k k"], iterations: int = _ITERATIONS) -> Float[Tensor, " k"]:
    """How strongly each match belongs to the largest consistent group: roughly the leading eigenvector, of length 1."""
    scale = 1 / max(1, len(support)) ** 2  # keeps the weights below one
    weight = support.sum(-1).mul_(scale)
    for _ in range(iterations):
        weight = (support @ weight).mul_(scale)
    return weight / weight.norm().clamp_min(1e-30)


def _compiled_support(scorer: RowScorer) -> Float[Tensor, "k k"]:
    """The :func:`second_order` of the :func:`compatibility` of the matches of a scorer."""
    source, target, cut = scorer.source.half_length, scorer.target.half_length, None
    if source is not None and target is not None:
        cut = (source - target).abs()
    limits = math.cos(scorer.threshold.angle), scorer.threshold.distance
    return compiled_support(*scorer.compiled_lines, cut, *limits)


@dataclass(frozen=True, eq=False)
class _Sides:
    """The matched lines of both maps, source first.

    In double precision: which matches are compatible decides which are drawn, and must not depend on rounding.
    """

    lines: LineSet  # (2, k)
    anchor: Tensor  # (2, k, 3)
    cut: Tensor | None  # (k,), by how much cut ends can have moved the midpoints of segments
    ids: list[Tensor]

    @classmethod
    def of(cls, source: AnchoredLines, target: AnchoredLines) -> _Sides:
        direction = torch.stack([source.lines.direction, target.lines.direction]).double()
        moment = torch.stack([source.lines.moment, target.lines.moment]).double()
        cut = None
        if source.half_length is not None and target.half_length is not None:
            cut = (source.half_length - target.half_length).abs().double()
        return _Sides(
            LineSet(direction, moment),
            torch.stack([source.anchor, target.anchor]).double(),
            cut,
            [side.lines.ids for side in (source, target) if side.lines.ids is not None],
        )


def _margin(sides: _Sides, threshold: InlierThreshold, start: int, size: int) -> Float[Tensor, "r n"]:
    """Positive where all invariants agree. Minima of numbers are several times faster on a CPU than logical masks."""
    lines = LineSet(sides.lines.direction[:, start:], sides.lines.moment[:, start:])
    pairs = pairwise_invariants(lines, sides.anchor[:, start:], slice(size))
    # cos(x - y) = cos x cos y + sin x sin y compares angles without computing them.
    margin = (pairs.cosine[0] * pairs.cosine[1]).addcmul_(*pairs.sine).sub_(math.cos(threshold.angle))
    apart = (pairs.distance[0] - pairs.distance[1]).abs_()
    margin = torch.minimum(margin, threshold.distance - apart)
    if sides.cut is not None:
        cut = sides.cut[start:]
        apart = (pairs.span[0] - pairs.span[1]).abs_().sub_(cut[:size, None])
        margin = torch.minimum(margin, (cut + threshold.distance) - apart)
    for ids in sides.ids:  # zero for the same line
        margin = torch.minimum(margin, (ids[start : start + size, None] - ids[start:]).abs_().to(margin.dtype))
    return margin

r"""What cycles of three maps say about hypotheses.

Let ``p_h`` be the probability of hypothesis ``h`` by its registration. The two other edges of a triangle give poses
between the same two maps; the chain of hypotheses ``f, g`` is right with probability ``p_f p_g``. If ``h`` is right, a
right chain agrees with it; if the edge of ``h`` is wrong, a chain agrees with ``h`` by chance, with probability ``u``.
So each triangle multiplies the odds of ``h`` against "this edge has no right hypothesis" by

    1 - sum_{f,g} p_f p_g + sum_{f,g that agree} p_f p_g / u,

which is below one if a probable chain contradicts ``h``, and far above one if a chain agrees. This is repeated as
belief propagation does: the probabilities in the products are those that follow from all other triangles, so that three
weak edges do not confirm each other in circles. Where cycles contradict many confident edges, all are taken for less
reliable.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.merging import sim3
from plueckernet.merging.edges import MapEdge
from plueckernet.merging.hypothesis_table import HypothesisTable

ROUNDS = 6
_MIN_RELIABILITY = 0.3
_MAX_PRIOR = 0.98  # of a hypothesis by its registration: of those that are certain of themselves, some are wrong
_MAX_PROBABILITY = 0.9999  # of a hypothesis; cycles are not independent, as they share edges
_MAX_LOG_ODDS = 40.0


@dataclass(frozen=True, eq=False)
class Triangles:
    """Combinations of three hypotheses, one of each edge of a triangle, and whether they close."""

    triangle: Int[Tensor, " c"]  # number of the triangle
    rows: Int[Tensor, "c 3"]  # hypotheses of the edges (i, j), (j, k), (i, k)
    opposite: Int[Tensor, "c 3"]  # the map that is not on the edge: k, i, j
    closes: Bool[Tensor, " c"]
    chance: Float[Tensor, " c"]


@dataclass(frozen=True, eq=False)
class CycleEvidence:
    """The log-odds of each hypothesis against its edge having none that is right, and the message of each triangle."""

    edge: Int[Tensor, " h"]
    log_odds: Float[Tensor, " h"]
    messages: dict[int, list[tuple[int, float]]]  # by hypothesis: third map of a triangle, what it adds to the log-odds

    @property
    def probability(self) -> Float[Tensor, " h"]:
        """Of each hypothesis, given all triangles."""
        return _probability(self.log_odds, self.edge)

    def without(self, rows: Sequence[int], maps: Container[int]) -> Float[Tensor, " k"]:
        """The probability of hypotheses without the triangles to these maps; ``rows`` has all those of each edge."""
        chosen = torch.tensor(rows)
        known = [sum(value for third, value in self.messages.get(row, ()) if third in maps) for row in rows]
        return _probability(self.log_odds[chosen] - torch.tensor(known, dtype=torch.float64), self.edge[chosen])


def triangles_of(table: HypothesisTable, edges: Sequence[MapEdge]) -> Triangles:
    """All triangles of edges that have hypotheses."""
    number = {frozenset((edge.source, edge.target)): row for row, edge in enumerate(edges) if edge.hypotheses}
    rows_of = defaultdict(list)
    for row, edge in enumerate(table.edge.tolist()):
        rows_of[edge].append(row)
    corners, triangle, combinations = [], [], []
    for count, (i, j, k) in enumerate(_triples(number)):
        sides = (number[frozenset((i, j))], number[frozenset((j, k))], number[frozenset((i, k))])
        for combination in product(*(rows_of[side] for side in sides)):
            corners.append((i, j, k))
            triangle.append(count)
            combinations.append(combination)
    rows = torch.tensor(combinations, dtype=torch.long).reshape(-1, 3)
    corner = torch.tensor(corners, dtype=torch.long).reshape(-1, 3)
    square, chance = _closure(table, rows, corner)
    closes = square < table.max_square
    return Triangles(torch.tensor(triangle, dtype=torch.long), rows, corner[:, [2, 0, 1]], closes, chance)


def cycle_evidence(table: HypothesisTable, triangles: Triangles) -> CycleEvidence:
    """What all triangles say about all hypotheses; formula in the module docstring."""
    prior = _exclusive(table.confidence.clamp(1e-6, _MAX_PRIOR), table.edge)
    passing = _Passing.of(table, triangles)
    message, reliability = torch.zeros(len(passing.row), dtype=torch.float64), 1.0
    log_odds = _log_odds(prior, table.edge)
    for _ in range(ROUNDS):
        message = passing.messages(log_odds, message)
        total = torch.zeros(len(table), dtype=torch.float64).index_add_(0, passing.row, message)
        log_odds = _log_odds(reliability * prior, table.edge) + total
        reliability = _reliability(prior, _probability(log_odds, table.edge))
    messages: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for row, third, value in zip(passing.row.tolist(), passing.third.tolist(), message.tolist(), strict=True):
        messages[row].append((third, value))
    return CycleEvidence(table.edge, log_odds, messages)


@dataclass(frozen=True, eq=False)
class _Passing:
    """Messages from triangles to hypotheses: one entry for each hypothesis of each triangle."""

    row: Int[Tensor, " u"]  # hypothesis of the entry
    third: Int[Tensor, " u"]  # map opposite to its edge
    side: Int[Tensor, " u"]  # entries of one edge in one triangle have one number
    entry: Int[Tensor, "c 3"]  # entries of each combination
    gain: Float[Tensor, " c"]  # what the probability of the chain is multiplied by

    @classmethod
    def of(cls, table: HypothesisTable, triangles: Triangles) -> _Passing:
        count = max(1, len(table))
        key = triangles.triangle[:, None] * count + triangles.rows
        unique, entry = key.unique(return_inverse=True)
        row = unique % count
        third = torch.zeros_like(row)
        third[entry.flatten()] = triangles.opposite.flatten()
        side = (unique // count * count + table.edge[row]).unique(return_inverse=True)[1]
        gain = triangles.closes / triangles.chance.clamp_min(1e-9) - 1
        return _Passing(row, third, side, entry, gain)

    def messages(self, log_odds: Float[Tensor, " h"], before: Float[Tensor, " u"]) -> Float[Tensor, " u"]:
        """The logarithms of the factors, from what the rest of the graph says about the other edges."""
        elsewhere = _probability(log_odds[self.row] - before, self.side)
        factor = torch.ones(len(self.row), dtype=torch.float64)
        for side in range(3):
            others = [other for other in range(3) if other != side]
            chain = elsewhere[self.entry[:, others]].prod(-1)
            factor.index_add_(0, self.entry[:, side], self.gain * chain)
        return factor.clamp_min(1e-3).log()


def _log_odds(probability: Float[Tensor, " h"], edge: Int[Tensor, " h"]) -> Float[Tensor, " h"]:
    """Against no hypothesis of the edge being right."""
    return (probability / (1 - _summed(probability, edge)).clamp_min(1e-4)).log()


def _probability(log_odds: Float[Tensor, " h"], edge: Int[Tensor, " h"]) -> Float[Tensor, " h"]:
    """Of hypotheses that exclude one another on each edge."""
    weight = log_odds.clamp(-_MAX_LOG_ODDS, _MAX_LOG_ODDS).exp()
    return (weight / (1 + _summed(weight, edge))).clamp_max(_MAX_PROBABILITY)


def _reliability(prior: Float[Tensor, " h"], probability: Float[Tensor, " h"]) -> float:
    """Of the hypotheses that are probable by registration, the fraction that the cycles leave probable."""
    probable = prior > 0.5
    if not bool(probable.any()):
        return 1.0
    return min(1.0, max(_MIN_RELIABILITY, float(probability[probable].sum() / prior[probable].sum())))


def _summed(values: Float[Tensor, " h"], edge: Int[Tensor, " h"]) -> Float[Tensor, " h"]:
    """For each value, the sum over its edge."""
    count = int(edge.max()) + 1 if len(edge) else 0
    return torch.zeros(count, dtype=torch.float64).index_add_(0, edge, values)[edge]


def _exclusive(probability: Float[Tensor, " h"], edge: Int[Tensor, " h"]) -> Float[Tensor, " h"]:
    """Hypotheses of one edge exclude one another, so their probabilities sum to at most one."""
    return probability / _summed(probability, edge).clamp_min(1.0)


def _closure(
    table: HypothesisTable, rows: Int[Tensor, "c 3"], corner: Int[Tensor, "c 3"]
) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"]]:
    """Squared distance of ``k_T_j j_T_i`` from ``k_T_i``, and the chance that wrong ones agree."""
    if len(rows) == 0:
        return torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
    j_T_i, first = table.directed(rows[:, 0], corner[:, 0])
    k_T_j, second = table.directed(rows[:, 1], corner[:, 1])
    k_T_i, third = table.directed(rows[:, 2], corner[:, 0])
    residual = sim3.log(k_T_j @ j_T_i @ sim3.inverse(k_T_i))
    covariance = second + sim3.moved_covariance(k_T_j, first) + third
    return table.square_distance(residual, covariance), table.chance(covariance)


def _triples(number: Mapping[frozenset[int], int]) -> Iterator[tuple[int, int, int]]:
    neighbours: dict[int, set[int]] = defaultdict(set)
    for pair in number:
        first, second = sorted(pair)
        neighbours[first].add(second)
    for i in sorted(neighbours):
        for j in sorted(neighbours[i]):
            for k in sorted(neighbours[i] & neighbours.get(j, set())):
                yield i, j, k


@dataclass(frozen=True)
class CycleResidual:
    """How far a cycle of accepted edges is from closing."""

    maps: tuple[int, ...]  # around the cycle
    angle: float  # degrees
    distance: float  # at the centre of the first map, in its unit
    scale: float  # factor
    sigmas: float  # Mahalanobis distance


def shortest_cycles(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """For each edge of a graph the shortest cycle through it, each once; edges that are bridges have none."""
    neighbours: dict[int, set[int]] = defaultdict(set)
    for first, second in pairs:
        neighbours[first].add(second)
        neighbours[second].add(first)
    cycles: dict[frozenset[int], tuple[int, ...]] = {}
    for first, second in pairs:
        path = _path(neighbours, first, second)
        if path is not None:
            cycles.setdefault(frozenset(path), tuple(path))
    return list(cycles.values())


def _path(neighbours: Mapping[int, set[int]], first: int, last: int) -> list[int] | None:
    """The shortest way that is not the edge itself."""
    before: dict[int, int] = {first: first}
    queue = deque([first])
    while queue:
        place = queue.popleft()
        for step in sorted(neighbours[place]):
            if step in before or (place == first and step == last):
                continue
            before[step] = place
            if step == last:
                path = [last]
                while path[-1] != first:
                    path.append(before[path[-1]])
                return path[::-1]
            queue.append(step)
    return None


def cycle_residual(table: HypothesisTable, rows: Mapping[frozenset[int], int], cycle: Sequence[int]) -> CycleResidual:
    """The residual of a cycle of maps; ``rows`` has the accepted hypothesis of each pair."""
    total = torch.eye(4, dtype=torch.float64)
    covariance = torch.zeros(7, 7, dtype=torch.float64)
    for here, there in pairwise([*cycle, cycle[0]]):
        row = torch.tensor([rows[frozenset((here, there))]])
        pose, spread = table.directed(row, torch.tensor([here]))
        covariance = sim3.moved_covariance(pose[0], covariance) + spread[0]
        total = pose[0] @ total
    residual = sim3.log(total)
    square = table.square_distance(residual[None], covariance[None])
    return CycleResidual(
        tuple(cycle),
        float(residual[:3].norm().rad2deg()),
        float(total[:3, 3].norm()),
        float(sim3.scales(total)),
        float(square.clamp_min(0).sqrt()),
    )

r"""What cycles of three maps say about hypotheses.

Let ``p_h`` be the probability of hypothesis ``h`` by its registration. The two other edges of a triangle give poses
between the same two maps; the chain of hypotheses ``f, g`` is right with probability ``p_f p_g``. If ``h`` is right, a
right chain agrees with it; if the edge of ``h`` is wrong, a chain agrees with ``h`` by chance, with probability ``u``.
So each triangle multiplies the odds of ``h`` against "this edge has no right hypothesis" by

    1 - sum_{f,g} p_f p_g + sum_{f,g that agree} p_f p_g / u,

which is below one if a probable chain contradicts ``h``, and far above one if a chain agrees. The products use the
probabilities of the previous round, as belief propagation does.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.merging import sim3
from plueckernet.merging.edges import MapEdge
from plueckernet.merging.hypothesis_table import HypothesisTable

ROUNDS = 6
_MIN_RELIABILITY = 0.3
_MAX_PROBABILITY = 0.9999  # of a hypothesis; cycles are not independent, as they share edges


@dataclass(frozen=True, eq=False)
class Triangles:
    """Combinations of three hypotheses, one of each edge of a triangle, and whether they close."""

    triangle: Int[Tensor, " c"]  # number of the triangle
    rows: Int[Tensor, "c 3"]  # hypotheses of the edges (i, j), (j, k), (i, k)
    closes: Bool[Tensor, " c"]
    chance: Float[Tensor, " c"]


def triangles_of(table: HypothesisTable, edges: Sequence[MapEdge]) -> Triangles:
    """All triangles of edges that have hypotheses."""
    number = {frozenset((edge.source, edge.target)): row for row, edge in enumerate(edges) if edge.hypotheses}
    rows_of = defaultdict(list)
    for row, edge in enumerate(table.edge.tolist()):
        rows_of[edge].append(row)
    corners, triangle, combinations = [], [], []
    for count, (i, j, k) in enumerate(_triples(number)):
        sides = (number[frozenset((i, j))], number[frozenset((j, k))], number[frozenset((i, k))])
        for combination in _products([rows_of[side] for side in sides]):
            corners.append((i, j))
            triangle.append(count)
            combinations.append(combination)
    rows = torch.tensor(combinations, dtype=torch.long).reshape(-1, 3)
    corner = torch.tensor(corners, dtype=torch.long).reshape(-1, 2)
    square, chance = _closure(table, rows, corner)
    return Triangles(torch.tensor(triangle, dtype=torch.long), rows, square < table.max_square, chance)


def cycle_probabilities(table: HypothesisTable, triangles: Triangles) -> Float[Tensor, " h"]:
    """The probability of each hypothesis, given all triangles; formula in the module docstring."""
    edges = int(table.edge.max()) + 1 if len(table) else 0
    prior = _exclusive(table.confidence.clamp(1e-6, _MAX_PROBABILITY), table.edge, edges)
    probability, reliability = prior, 1.0
    for _ in range(ROUNDS):
        supposed = reliability * prior
        none = (1 - _by_edge(supposed, table.edge, edges)).clamp_min(1e-4)
        log_odds = supposed.log() - none[table.edge].log() + _messages(probability, triangles, len(table))
        weight = log_odds.clamp(-40, 40).exp()
        probability = (weight / (1 + _by_edge(weight, table.edge, edges))[table.edge]).clamp_max(_MAX_PROBABILITY)
        reliability = _reliability(prior, probability)
    return probability


def _reliability(prior: Float[Tensor, " h"], probability: Float[Tensor, " h"]) -> float:
    """Of the hypotheses that are probable by registration, the fraction that the cycles leave probable."""
    probable = prior > 0.5
    if not bool(probable.any()):
        return 1.0
    return min(1.0, max(_MIN_RELIABILITY, float(probability[probable].sum() / prior[probable].sum())))


def _by_edge(values: Float[Tensor, " h"], edge: Int[Tensor, " h"], edges: int) -> Float[Tensor, " e"]:
    return torch.zeros(edges, dtype=torch.float64).index_add_(0, edge, values)


def _exclusive(
    probability: Float[Tensor, " h"], edge: Int[Tensor, " h"], edges: int
) -> Float[Tensor, " h"]:
    """Hypotheses of one edge exclude one another, so their probabilities sum to at most one."""
    return probability / _by_edge(probability, edge, edges).clamp_min(1.0)[edge]


def _messages(probability: Float[Tensor, " h"], triangles: Triangles, count: int) -> Float[Tensor, " h"]:
    """Sum over triangles of the logarithm of the factor for each hypothesis."""
    messages = torch.zeros(count, dtype=torch.float64)
    for side in range(3):
        others = [other for other in range(3) if other != side]
        chain = probability[triangles.rows[:, others]].prod(-1)
        gain = torch.where(triangles.closes, chain / triangles.chance, torch.zeros_like(chain)) - chain
        key = triangles.triangle * count + triangles.rows[:, side]
        unique, place = key.unique(return_inverse=True)
        factor = 1 + torch.zeros(len(unique), dtype=torch.float64).index_add_(0, place, gain)
        messages.index_add_(0, unique % count, factor.clamp_min(1e-3).log())
    return messages


def _closure(
    table: HypothesisTable, rows: Int[Tensor, "c 3"], corner: Int[Tensor, "c 2"]
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


def _products(choices: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    if not choices:
        yield ()
        return
    for first in choices[0]:
        for rest in _products(choices[1:]):
            yield (first, *rest)


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
    cycles = {}
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

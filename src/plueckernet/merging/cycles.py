r"""What short cycles of maps say about hypotheses.

Let ``p_h`` be the probability of hypothesis ``h`` by its registration. The other edges of a triangle give poses
between the same two maps; the chain of hypotheses ``f, g`` is right with probability ``p_f p_g``. If ``h`` is right, a
right chain agrees with it; if the edge of ``h`` is wrong, a chain agrees with ``h`` by chance, with probability ``u``.
So each triangle multiplies the odds of ``h`` against "this edge has no right hypothesis" by

    1 - sum_{f,g} p_f p_g + sum_{f,g that agree} p_f p_g / u,

which is below one if a probable chain contradicts ``h``, and far above one if a chain agrees. Cycles of four edges that
no other edge divides count likewise, with chains of three. This is repeated as
belief propagation does: the probabilities in the products are those that follow from all other cycles, so that three
weak edges do not confirm each other in circles. Where cycles contradict many confident edges, all are taken for less
reliable.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, pairwise, product

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.merging import sim3
from plueckernet.merging.edges import MapEdge
from plueckernet.merging.hypothesis_table import HypothesisTable

ROUNDS = 6
_MAX_SQUARES = 20_000  # cycles of four edges that are looked at
_SQUARE_HYPOTHESES = 2  # of each of their edges
_MIN_RELIABILITY = 0.3
_MAX_PRIOR = 0.98  # of a hypothesis by its registration: of those that are certain of themselves, some are wrong
_MAX_PROBABILITY = 0.9999  # of a hypothesis; cycles are not independent, as they share edges
_MAX_LOG_ODDS = 40.0


@dataclass(frozen=True, eq=False)
class CycleCombinations:
    """Cycles of one length: combinations of hypotheses, one of each edge, and whether they close."""

    cycle: Int[Tensor, " c"]  # number of the cycle
    corners: Int[Tensor, "c length"]  # maps around it; side k leads from corner k to the next
    rows: Int[Tensor, "c length"]  # hypothesis of each side
    closes: Bool[Tensor, " c"]
    chance: Float[Tensor, " c"]


@dataclass(frozen=True, eq=False)
class CycleEvidence:
    """The log-odds of each hypothesis against its edge having none that is right, and the message of each cycle."""

    edge: Int[Tensor, " h"]
    log_odds: Float[Tensor, " h"]
    messages: dict[int, list[tuple[tuple[int, ...], float]]]  # by hypothesis: other maps of a cycle, what it adds

    @property
    def probability(self) -> Float[Tensor, " h"]:
        """Of each hypothesis, given all cycles."""
        return _probability(self.log_odds, self.edge)

    def without(self, rows: Sequence[int], maps: set[int]) -> Float[Tensor, " k"]:
        """The probability of hypotheses without the cycles inside these maps; ``rows`` has all those of each edge."""
        chosen = torch.tensor(rows)
        known = [sum(value for others, value in self.messages.get(row, ()) if maps.issuperset(others)) for row in rows]
        return _probability(self.log_odds[chosen] - torch.tensor(known, dtype=torch.float64), self.edge[chosen])


def short_cycles(table: HypothesisTable, edges: Sequence[MapEdge]) -> list[CycleCombinations]:
    """All triangles, and all cycles of four edges that no other edge divides, of edges that have hypotheses."""
    number = {frozenset((edge.source, edge.target)): row for row, edge in enumerate(edges) if edge.hypotheses}
    neighbours: dict[int, set[int]] = defaultdict(set)
    for pair in number:
        first, second = pair
        neighbours[first].add(second)
        neighbours[second].add(first)
    rows_of = defaultdict(list)
    for row in table.confidence.argsort(descending=True, stable=True).tolist():
        rows_of[int(table.edge[row])].append(row)
    choices = {pair: rows_of[row] for pair, row in number.items()}
    fewer = {pair: rows[:_SQUARE_HYPOTHESES] for pair, rows in choices.items()}
    squares = list(islice(_squares(neighbours), _MAX_SQUARES))
    return [_combined(table, list(_triangles(neighbours)), 3, choices), _combined(table, squares, 4, fewer)]


def _combined(
    table: HypothesisTable,
    cycles: Sequence[tuple[int, ...]],
    length: int,
    choices: Mapping[frozenset[int], Sequence[int]],
) -> CycleCombinations:
    numbers, chosen = [], []
    for count, corners in enumerate(cycles):
        sides = [frozenset(pair) for pair in zip(corners, (*corners[1:], corners[0]), strict=True)]
        for combination in product(*(choices[side] for side in sides)):
            numbers.append(count)
            chosen.append(combination)
    cycle = torch.tensor(numbers, dtype=torch.long)
    rows = torch.tensor(chosen, dtype=torch.long).reshape(-1, length)
    corner = torch.tensor(cycles, dtype=torch.long).reshape(-1, length)[cycle]
    square, chance = _closure(table, rows, corner)
    return CycleCombinations(cycle, corner, rows, square < table.max_square, chance)


def cycle_evidence(table: HypothesisTable, cycles: Sequence[CycleCombinations]) -> CycleEvidence:
    """What all cycles say about all hypotheses; formula in the module docstring."""
    prior = _exclusive(table.confidence.clamp(1e-6, _MAX_PRIOR), table.edge)
    passings = [_Passing.of(table, combinations) for combinations in cycles]
    messages = [torch.zeros(len(passing.row), dtype=torch.float64) for passing in passings]
    reliability, log_odds = 1.0, _log_odds(prior, table.edge)
    for _ in range(ROUNDS):
        messages = [passing.messages(log_odds, before) for passing, before in zip(passings, messages, strict=True)]
        log_odds = _log_odds(reliability * prior, table.edge)
        for passing, message in zip(passings, messages, strict=True):
            log_odds = log_odds.index_add(0, passing.row, message)
        reliability = _reliability(prior, _probability(log_odds, table.edge))
    kept: dict[int, list[tuple[tuple[int, ...], float]]] = defaultdict(list)
    for passing, message in zip(passings, messages, strict=True):
        for row, others, value in zip(passing.row.tolist(), passing.others.tolist(), message.tolist(), strict=True):
            kept[row].append((tuple(others), value))
    return CycleEvidence(table.edge, log_odds, kept)


@dataclass(frozen=True, eq=False)
class _Passing:
    """Messages from cycles to hypotheses: one entry for each hypothesis of each cycle."""

    row: Int[Tensor, " u"]  # hypothesis of the entry
    others: Int[Tensor, "u k"]  # maps of the cycle that are not on its edge
    side: Int[Tensor, " u"]  # entries of one edge in one cycle have one number
    entry: Int[Tensor, "c length"]  # entries of each combination
    gain: Float[Tensor, " c"]  # what the probability of the chain is multiplied by

    @classmethod
    def of(cls, table: HypothesisTable, cycles: CycleCombinations) -> _Passing:
        count, length = max(1, len(table)), cycles.rows.shape[1]
        unique, entry = (cycles.cycle[:, None] * count + cycles.rows).unique(return_inverse=True)
        row = unique % count
        others = torch.zeros(len(row), length - 2, dtype=torch.long)
        for side in range(length):
            rest = [(side + step) % length for step in range(2, length)]
            others[entry[:, side]] = cycles.corners[:, rest]
        side_of = (unique // count * count + table.edge[row]).unique(return_inverse=True)[1]
        gain = cycles.closes / cycles.chance.clamp_min(1e-9) - 1
        return _Passing(row, others, side_of, entry, gain)

    def messages(self, log_odds: Float[Tensor, " h"], before: Float[Tensor, " u"]) -> Float[Tensor, " u"]:
        """The logarithms of the factors, from what the rest of the graph says about the other edges."""
        elsewhere = _probability(log_odds[self.row] - before, self.side)
        factor = torch.ones(len(self.row), dtype=torch.float64)
        length = self.entry.shape[1]
        for side in range(length):
            others = [other for other in range(length) if other != side]
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
    table: HypothesisTable, rows: Int[Tensor, "c length"], corners: Int[Tensor, "c length"]
) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"]]:
    """Squared distance of the way around each cycle from the identity, and the chance that wrong ones close."""
    count, length = rows.shape
    total = torch.eye(4, dtype=torch.float64).expand(count, 4, 4)
    covariance = torch.zeros(count, 7, 7, dtype=torch.float64)
    if count == 0:
        return torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
    for side in range(length):
        pose, spread = table.directed(rows[:, side], corners[:, side])
        covariance = sim3.moved_covariance(pose, covariance) + spread
        total = pose @ total
    return table.square_distance(sim3.log(total), covariance), table.chance(covariance)


def _triangles(neighbours: Mapping[int, set[int]]) -> Iterator[tuple[int, int, int]]:
    for i in sorted(neighbours):
        for j in sorted(neighbours[i]):
            for k in sorted(neighbours[i] & neighbours[j]):
                if i < j < k:
                    yield i, j, k


def _squares(neighbours: Mapping[int, set[int]]) -> Iterator[tuple[int, int, int, int]]:
    """Cycles of four maps whose opposite maps are not neighbours; the first is the smallest, once each."""
    for a in sorted(neighbours):
        opposite = {c for b in neighbours[a] for c in neighbours[b]} - neighbours[a]
        for c in sorted(place for place in opposite if place > a):
            for b, d in combinations(sorted(neighbours[a] & neighbours[c]), 2):
                if b > a and d not in neighbours[b]:
                    yield a, b, c, d


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

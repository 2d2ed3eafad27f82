r"""Which maps belong together, and which hypotheses hold them together.

Groups are joined one by one, the surest first. All hypotheses between two groups propose a relative pose of the
groups; those that agree support each other, those that do not exclude each other. With the probability ``p_h`` of the
proposing hypothesis, and for every other edge ``e`` between the groups its total probability ``P_e``, the probability
``m_e`` of its hypotheses that agree, and the chance ``u`` that wrong ones do, a pose has the weight

    w_h = p_h prod_e (1 - P_e + m_e / u),

and that no edge is right has the weight ``w_0 = prod_e (1 - P_e)``, now of all edges. The odds of a join are ``w_h``
over the sum of ``w_0`` and the weights of all poses that do not agree with it. So a confident edge that nothing
confirms joins two groups, two weak edges that agree do so too, also against several edges that agree with nothing, and
an edge that is contradicted by confident ones does not.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.merging import sim3
from plueckernet.merging.cycles import CycleEvidence, shortest_cycles
from plueckernet.merging.hypothesis_table import HypothesisTable
from plueckernet.merging.pose_graph import SolvedGraph, chained_poses, solve_graph

_HOP_VARIANCE = 0.5  # growth of the variance of an agreement with each edge between the compared ones
_MAX_SOLVED_OFTEN = 40  # maps; larger groups are solved after every tenth join only
_ROUNDS = 8  # of accepting and rejecting with the poses of the whole group
_KEPT_SQUARE = 1.5  # accepted in the end: squared distance from the solved poses, in that at which poses agree


@dataclass(frozen=True, eq=False)
class MapGroup:
    """Maps with their poses and the hypotheses that hold them together."""

    poses: dict[int, Float[Tensor, "4 4"]]  # group_T_map of the centred maps; the first is the identity
    rows: tuple[int, ...]  # accepted hypotheses
    covariance: dict[int, Float[Tensor, "7 7"]]  # see SolvedGraph


@dataclass(frozen=True, eq=False)
class _Join:
    """A way to join two groups."""

    log_odds: float
    rows: tuple[int, ...]  # hypotheses that agree
    first_T_second: Float[Tensor, "4 4"]


def map_groups(
    table: HypothesisTable, evidence: CycleEvidence, weights: Sequence[int], min_confidence: float
) -> list[MapGroup]:
    """Groups of the maps, the largest first; the map of the largest weight in each group keeps its frame."""
    builder = _GroupBuilder(table, evidence, len(weights), math.log(min_confidence / (1 - min_confidence)))
    builder.join_all()
    groups = []
    for maps, rows in builder.groups():
        groups += _settled(builder, maps, rows)
    finished = [_finished(table, maps, rows, weights) for maps, rows in groups]
    return sorted(finished, key=lambda group: (-len(group.poses), min(group.poses)))


class _GroupBuilder:
    """The state of joining: which group each map is in, the poses in it and the accepted hypotheses."""

    def __init__(self, table: HypothesisTable, evidence: CycleEvidence, count: int, min_log_odds: float) -> None:
        self.table, self.evidence, self.min_log_odds = table, evidence, min_log_odds
        self.group_of = list(range(count))
        eye = torch.eye(4, dtype=torch.float64)
        self.poses = {number: {number: eye} for number in range(count)}
        self.rows: dict[int, list[int]] = {number: [] for number in range(count)}

    def groups(self) -> list[tuple[list[int], list[int]]]:
        """Maps and accepted hypotheses of each group."""
        return [(list(poses), self.rows[group]) for group, poses in self.poses.items()]

    def join_all(self) -> None:
        """Join the surest pair of groups until none is sure enough."""
        joins = {pair: self.best_join(*pair, rows) for pair, rows in self._between().items()}
        while joins:
            pair = max(joins, key=lambda key: (joins[key].log_odds, -key[0], -key[1]))
            if joins[pair].log_odds < self.min_log_odds:
                return
            self._join(*pair, joins[pair])
            joins = {key: join for key, join in joins.items() if not set(key) & set(pair)}
            for key, rows in self._between().items():
                if pair[0] in key:
                    joins[key] = self.best_join(*key, rows)

    def best_join(self, first: int, second: int, rows: Sequence[int]) -> _Join:
        """The pose between two groups with the largest odds, by the formula in the module docstring."""
        poses, covariance = self._proposals(first, second, rows)
        agree, chance = self._agreements(first, second, rows, poses, covariance)
        inside = set(self.poses[first]) | set(self.poses[second])
        probability = self.evidence.without(rows, inside)  # the cycles inside these maps are counted here
        edge = self.table.edge[torch.tensor(rows)]
        wrong = {other: _probability_of_none(probability[edge == other]) for other in edge.unique().tolist()}
        weights, members = [], []
        for seed in range(len(rows)):
            log_weight = float(probability[seed].log())
            agreeing = [rows[seed]]
            for other, none in wrong.items():
                if other == int(edge[seed]):
                    continue
                support = (agree[seed] & (edge == other)).nonzero()[:, 0]
                log_weight += math.log(none + float((probability[support] / chance[seed, support]).sum()))
                if len(support):
                    agreeing.append(rows[int(support[probability[support].argmax()])])
            weights.append(log_weight)
            members.append(tuple(agreeing))
        log_odds = _log_odds(torch.tensor(weights, dtype=torch.float64), agree, sum(map(math.log, wrong.values())))
        best = int(log_odds.argmax())
        return _Join(float(log_odds[best]), members[best], poses[best])

    def _between(self) -> dict[tuple[int, int], list[int]]:
        """Hypotheses between different groups, by pair of groups."""
        rows = defaultdict(list)
        for row, (source, target) in enumerate(self.table.ends):
            first, second = sorted((self.group_of[source], self.group_of[target]))
            if first != second:
                rows[first, second].append(row)
        return rows

    def _proposals(
        self, first: int, second: int, rows: Sequence[int]
    ) -> tuple[Float[Tensor, "k 4 4"], Float[Tensor, "k 7 7"]]:
        """``first_T_second`` by each hypothesis, with its covariance in the frame of the first group."""
        chosen = torch.tensor(rows)
        ends = [self._ends(row, second) for row in rows]
        starts = torch.tensor([source for source, _ in ends])
        poses, covariance = self.table.directed(chosen, starts)
        left = torch.stack([self.poses[first][target] for _, target in ends])
        right = torch.stack([self.poses[second][source] for source, _ in ends])
        return left @ poses @ sim3.inverse(right), sim3.moved_covariance(left, covariance)

    def _ends(self, row: int, second: int) -> tuple[int, int]:
        """The map in the second group and the map in the first."""
        source, target = self.table.ends[row]
        return (source, target) if source in self.poses[second] else (target, source)

    def _agreements(
        self,
        first: int,
        second: int,
        rows: Sequence[int],
        poses: Float[Tensor, "k 4 4"],
        covariance: Float[Tensor, "k 7 7"],
    ) -> tuple[Bool[Tensor, "k k"], Float[Tensor, "k k"]]:
        """Whether the proposals agree pairwise, and the chance that wrong ones would."""
        count = len(rows)
        place = torch.arange(count)
        left, right = place.repeat_interleave(count), place.repeat(count)
        residual = sim3.log(poses[left] @ sim3.inverse(poses[right]))
        spread = (covariance[left] + covariance[right]) * self._growth(first, second, rows).flatten()[:, None, None]
        agree = self.table.square_distance(residual, spread) < self.table.max_square
        return agree.unflatten(0, (count, count)), self.table.chance(spread).unflatten(0, (count, count))

    def _growth(self, first: int, second: int, rows: Sequence[int]) -> Float[Tensor, "k k"]:
        """The variance grows with the number of edges between the compared ones, inside of either group."""
        ends = [self._ends(row, second) for row in rows]
        hops = [self._hops(second, {source for source, _ in ends}), self._hops(first, {target for _, target in ends})]
        growth = [
            [1 + _HOP_VARIANCE * (hops[0][a][c] + hops[1][b][d]) for c, d in ends] for a, b in ends
        ]  # fmt: skip
        return torch.tensor(growth, dtype=torch.float64)

    def _hops(self, group: int, starts: Iterable[int]) -> dict[int, dict[int, int]]:
        neighbours = _neighbours(self.table, self.rows[group])
        return {start: _distances(neighbours, start) for start in starts}

    def _join(self, first: int, second: int, join: _Join) -> None:
        moved = {name: join.first_T_second @ pose for name, pose in self.poses.pop(second).items()}
        self.poses[first] |= moved
        self.rows[first] += [*self.rows.pop(second), *join.rows]
        for name in moved:
            self.group_of[name] = first
        size = len(self.poses[first])
        if len(join.rows) > 1 and (size <= _MAX_SOLVED_OFTEN or size % 10 == 0):
            rows = torch.tensor(self.rows[first])
            self.poses[first] = solve_graph(self.table, rows, self.poses[first]).poses


def _probability_of_none(probability: Float[Tensor, " k"]) -> float:
    """That no hypothesis of an edge is right."""
    return max(1 - float(probability.sum()), 1e-4)


def _log_odds(log_weight: Float[Tensor, " k"], agree: Bool[Tensor, "k k"], log_none: float) -> Float[Tensor, " k"]:
    """Of each pose against all that do not agree with it, and against none; a pose that several propose counts once."""
    once = log_weight - agree.sum(1).clamp_min(1).log()
    others = once.expand(len(once), -1).masked_fill(agree, -math.inf)
    against = torch.cat([others, torch.full((len(once), 1), log_none, dtype=torch.float64)], 1)
    return log_weight - against.logsumexp(1)


def _settled(builder: _GroupBuilder, maps: list[int], rows: list[int]) -> list[tuple[list[int], list[int]]]:
    """A group after every edge inside has been held against the poses of all; it may fall apart."""
    table = builder.table
    for _ in range(_ROUNDS):
        pieces = _components(table, maps, rows)
        if len(pieces) > 1:
            return [piece for names, inside in pieces for piece in _settled(builder, names, inside)]
        accepted = _accepted(table, builder.evidence.probability, maps, rows)
        weak = _weak_bridges(builder, maps, accepted)
        accepted = [row for row in accepted if row not in weak]
        if sorted(accepted) == sorted(rows):
            return [(maps, rows)]
        rows = accepted
    return _components(table, maps, rows)


def _accepted(
    table: HypothesisTable, probability: Float[Tensor, " h"], maps: Sequence[int], rows: Sequence[int]
) -> list[int]:
    """Of each edge inside the group, the hypothesis that fits the poses of all best, if it does not fit by chance."""
    if not rows:
        return []
    chosen = torch.tensor(rows)
    solved = solve_graph(table, chosen, chained_poses(table, chosen, maps[0]))
    inside = set(maps)
    candidates = torch.tensor(
        [row for row, (source, target) in enumerate(table.ends) if source in inside and target in inside]
    )
    candidates = candidates[probability[candidates] > table.chance(table.covariance[candidates])]
    square = edge_squares(table, candidates, solved.poses)
    best: dict[int, tuple[float, int]] = {}
    for row, value in zip(candidates.tolist(), square.tolist(), strict=True):
        edge = int(table.edge[row])
        if value < best.get(edge, (math.inf, -1))[0]:
            best[edge] = value, row
    return [row for value, row in best.values() if value < _KEPT_SQUARE * table.max_square]


def edge_squares(
    table: HypothesisTable, rows: Int[Tensor, " k"], poses: Mapping[int, Float[Tensor, "4 4"]]
) -> Float[Tensor, " k"]:
    """Squared Mahalanobis distance of hypotheses from the relative poses that the group gives."""
    sources = torch.stack([poses[table.ends[row][0]] for row in rows.tolist()])
    targets = torch.stack([poses[table.ends[row][1]] for row in rows.tolist()])
    residual = sim3.log(sim3.inverse(targets) @ sources @ sim3.inverse(table.target_T_source[rows]))
    return table.square_distance(residual, table.covariance[rows])


def _weak_bridges(builder: _GroupBuilder, maps: Sequence[int], rows: Sequence[int]) -> set[int]:
    """Accepted hypotheses on whose own a group hangs, and which are not sure enough given all edges across."""
    table = builder.table
    pairs = {row: table.ends[row] for row in rows}
    in_cycles = {
        frozenset(pair)
        for cycle in shortest_cycles(list(pairs.values()))
        for pair in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    }
    weak = set()
    for row, pair in pairs.items():
        if frozenset(pair) in in_cycles:
            continue
        rest = [other for other in rows if other != row]
        sides = [piece for piece in _components(table, maps, rest) if set(piece[0]) & set(pair)]
        if len(sides) == 2 and row not in _rejoined(builder, sides):
            weak.add(row)
    return weak


def _rejoined(builder: _GroupBuilder, sides: Sequence[tuple[list[int], list[int]]]) -> tuple[int, ...]:
    """The hypotheses by which two parts of a group would be joined again; none if that is not sure enough."""
    table = builder.table
    again = _GroupBuilder(table, builder.evidence, 0, builder.min_log_odds)
    where: dict[int, int] = {}
    for number, (maps, rows) in enumerate(sides):
        again.poses[number] = chained_poses(table, torch.tensor(rows, dtype=torch.long), maps[0])
        again.rows[number] = rows
        where |= dict.fromkeys(maps, number)
    across = [
        row for row, (source, target) in enumerate(table.ends) if {where.get(source), where.get(target)} == {0, 1}
    ]
    join = again.best_join(0, 1, across)
    return join.rows if join.log_odds >= builder.min_log_odds else ()


def _finished(table: HypothesisTable, maps: Sequence[int], rows: Sequence[int], weights: Sequence[int]) -> MapGroup:
    first = max(maps, key=lambda number: (weights[number], -number))
    chosen = torch.tensor(sorted(rows), dtype=torch.long)
    solved: SolvedGraph = solve_graph(table, chosen, chained_poses(table, chosen, first))
    return MapGroup(solved.poses, tuple(chosen.tolist()), solved.covariance)


def _components(table: HypothesisTable, maps: Sequence[int], rows: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The connected parts of a group."""
    neighbours = _neighbours(table, rows)
    rest, pieces = list(maps), []
    while rest:
        connected = _distances(neighbours, rest[0])
        inside = [row for row in rows if table.ends[row][0] in connected]
        pieces.append(([name for name in rest if name in connected], inside))
        rest = [name for name in rest if name not in connected]
    return pieces


def _neighbours(table: HypothesisTable, rows: Sequence[int]) -> dict[int, set[int]]:
    neighbours: dict[int, set[int]] = defaultdict(set)
    for row in rows:
        source, target = table.ends[row]
        neighbours[source].add(target)
        neighbours[target].add(source)
    return neighbours


def _distances(neighbours: Mapping[int, set[int]], start: int) -> dict[int, int]:
    """Number of edges from ``start`` to every connected map."""
    distance, queue = {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        for there in neighbours.get(here, ()):
            if there not in distance:
                distance[there] = distance[here] + 1
                queue.append(there)
    return distance

r"""Poses of many maps from relative poses: Gauss-Newton on SE(3) or Sim(3).

With ``X_i = group_T_i`` and an edge ``Z = target_T_source`` of covariance ``S`` (of ``xi`` in ``exp(xi) Z``), the
residual is ``r = log(X_t^-1 X_s Z^-1)``. Under ``X_i exp(delta_i)`` it changes by ``J (Ad(X_t^-1 X_s) delta_s -
delta_t)``, where ``J`` is the inverse left Jacobian at ``r``. The first map of the graph stays where it is. Edges are
weighted by Cauchy's function of their Mahalanobis distance, so that a wrong edge bends the graph little and shows by
its residual.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.errors import MissingDependencyError
from plueckernet.merging import sim3
from plueckernet.merging.hypothesis_table import HypothesisTable

_ITERATIONS = 30
_CONVERGED = 1e-7  # largest component of a step, in radians and in radii of the maps
_MAX_DENSE = 1500  # unknowns; more are solved sparsely


@dataclass(frozen=True, eq=False)
class SolvedGraph:
    """The poses of one connected graph."""

    poses: dict[int, Float[Tensor, "4 4"]]  # group_T_map, by map
    square: Float[Tensor, " k"]  # squared Mahalanobis distance of each edge
    covariance: dict[int, Float[Tensor, "7 7"]]  # of delta in group_T_map exp(delta); empty for a large graph


def solve_graph(
    table: HypothesisTable,
    rows: Int[Tensor, " k"],
    start: Mapping[int, Float[Tensor, "4 4"]],
    robust: bool = True,
) -> SolvedGraph:
    """The poses that fit the hypotheses ``rows`` best, from ``start``, which has every map; its first map stays."""
    names = list(start)
    place = {name: number for number, name in enumerate(names)}
    poses = torch.stack([start[name] for name in names])
    ends = torch.tensor([[place[end] for end in table.ends[row]] for row in rows.tolist()], dtype=torch.long).reshape(
        -1, 2
    )
    problem = _Problem(table, rows, ends, len(names))
    unit = poses.new_tensor([1.0] * 3 + [table.radius] * 3 + [1.0])
    for _ in range(_ITERATIONS if len(rows) and len(names) > 1 else 0):
        residual, blocks = problem.linearized(poses)
        step = problem.step(residual, blocks, robust)
        poses = poses @ sim3.exp(step)
        if float((step / unit).abs().max()) < _CONVERGED:
            break
    residual, blocks = problem.linearized(poses)
    covariance = problem.covariances(residual, blocks, robust)
    return SolvedGraph(
        {name: poses[number] for name, number in place.items()},
        problem.squares(residual),
        {names[number]: block for number, block in covariance.items()},
    )


@dataclass(frozen=True, eq=False)
class _Problem:
    table: HypothesisTable
    rows: Int[Tensor, " k"]
    ends: Int[Tensor, "k 2"]  # places of source and target
    count: int

    @property
    def free(self) -> int:
        return self.table.degrees_of_freedom

    def linearized(self, poses: Float[Tensor, "n 4 4"]) -> tuple[Float[Tensor, "k 7"], Float[Tensor, "k 2 7 7"]]:
        """Residuals and their derivatives by the steps of source and target."""
        between = sim3.inverse(poses[self.ends[:, 1]]) @ poses[self.ends[:, 0]]
        residual = sim3.log(between @ sim3.inverse(self.table.target_T_source[self.rows]))
        jacobian = sim3.inverse_left_jacobian(residual)
        return residual, torch.stack([jacobian @ sim3.adjoint(between), -jacobian], 1)

    def squares(self, residual: Float[Tensor, "k 7"]) -> Float[Tensor, " k"]:
        return self.table.square_distance(residual, self.table.covariance[self.rows])

    def step(
        self, residual: Float[Tensor, "k 7"], blocks: Float[Tensor, "k 2 7 7"], robust: bool
    ) -> Float[Tensor, "n 7"]:
        matrix, right = self._normal_equations(residual, blocks, robust)
        solution = _solved(matrix, right, self.free * self.count)
        step = torch.zeros(self.count, 7, dtype=torch.float64)
        step[:, : self.free] = solution.unflatten(0, (self.count, self.free))
        return step

    def covariances(
        self, residual: Float[Tensor, "k 7"], blocks: Float[Tensor, "k 2 7 7"], robust: bool
    ) -> dict[int, Float[Tensor, "7 7"]]:
        """The marginal covariance of each map relative to the first, which has none."""
        size = self.free * self.count
        if size > _MAX_DENSE:
            return {}
        matrix, _ = self._normal_equations(residual, blocks, robust)
        dense = torch.linalg.inv(matrix.to_dense())
        result = {}
        for number in range(self.count):
            block = torch.zeros(7, 7, dtype=torch.float64)
            entries = slice(self.free * number, self.free * (number + 1))
            block[: self.free, : self.free] = dense[entries, entries] if number else 0.0
            result[number] = block
        return result

    def _normal_equations(
        self, residual: Float[Tensor, "k 7"], blocks: Float[Tensor, "k 2 7 7"], robust: bool
    ) -> tuple[Tensor, Float[Tensor, " u"]]:
        """Sparse information matrix and right side; the first map is fixed by a unit block."""
        free = self.free
        information = torch.linalg.inv(self.table.covariance[self.rows][:, :free, :free])
        if robust:
            weight = 1 / (1 + self.squares(residual) / self.table.max_square)
            information = information * weight[:, None, None]
        jacobian = blocks[:, :, :free, :free] * (self.ends != 0)[..., None, None]
        weighted = jacobian.mT @ information[:, None]
        hessian = weighted[:, :, None] @ jacobian[:, None]  # (k, 2, 2, f, f)
        gradient = (weighted @ residual[:, None, :free, None])[..., 0]
        index = free * self.ends[..., None] + torch.arange(free)  # (k, 2, f)
        rows = index[:, :, None, :, None].expand(-1, -1, 2, -1, free)
        columns = index[:, None, :, None, :].expand(-1, 2, -1, free, -1)
        fixed, size = torch.arange(free), free * self.count
        places = torch.stack([torch.cat([rows.flatten(), fixed]), torch.cat([columns.flatten(), fixed])])
        values = torch.cat([hessian.flatten(), torch.ones(free, dtype=torch.float64)])
        right = torch.zeros(size, dtype=torch.float64).index_add_(0, index.flatten(), -gradient.flatten())
        return torch.sparse_coo_tensor(places, values, (size, size), check_invariants=True).coalesce(), right


def _solved(matrix: Tensor, right: Float[Tensor, " u"], size: int) -> Float[Tensor, " u"]:
    if size <= _MAX_DENSE:
        return torch.linalg.solve(matrix.to_dense(), right)
    try:
        from scipy.sparse import csc_array
        from scipy.sparse.linalg import splu
    except ImportError as error:
        raise MissingDependencyError("scipy", "merge") from error
    rows, columns = matrix.indices().numpy()
    sparse = csc_array((matrix.values().numpy(), (rows, columns)), shape=(size, size))
    return torch.from_numpy(splu(sparse).solve(right.numpy()))


def chained_poses(table: HypothesisTable, rows: Int[Tensor, " k"], first: int) -> dict[int, Float[Tensor, "4 4"]]:
    """``first_T_map`` of all maps that the hypotheses connect to ``first``, along shortest chains."""
    neighbours: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in rows.tolist():
        source, target = table.ends[row]
        neighbours[source].append((target, row))
        neighbours[target].append((source, row))
    poses = {first: torch.eye(4, dtype=torch.float64)}
    queue = deque([first])
    while queue:
        here = queue.popleft()
        for there, row in neighbours[here]:
            if there not in poses:
                here_T_there, _ = table.directed(torch.tensor([row]), torch.tensor([there]))
                poses[there] = poses[here] @ here_T_there[0]
                queue.append(there)
    return poses

"""Iterative closest line (the paper's appendix): ICP with lines, a baseline and a local refinement.

Each iteration matches every source line with its nearest target line, solves for the pose in closed form and moves
the source. The paper's distance is ``|l' - T l|`` on six Plücker coordinates and needs directed lines. For undirected
lines, ``sign_aware`` takes the nearer of ``l'`` and ``-l'``. It also measures moments about the centre of the target
and scales directions by its size, because a moment depends on the origin.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.alignment import align_directed
from plueckernet.settings import check_at_least


@dataclass(frozen=True)
class IclSettings:
    """When ICL stops, and its metric; the defaults are the paper's."""

    max_iterations: int = 100
    min_relative_change: float = 1e-6  # of the mean distance; a smaller change ends the iteration
    sign_aware: bool = False  # whether lines are undirected

    def __post_init__(self) -> None:
        check_at_least(self, 0, "max_iterations", "min_relative_change")


@dataclass(frozen=True, eq=False)
class IclResult:
    """The pose at which ICL stopped. A converged result is a local minimum, not necessarily the right one."""

    target_T_source: Pose
    matches: Int[Tensor, "n 2"]  # each source line and the nearest target line
    converged: bool
    iterations: int
    cost: float  # mean distance of the matches in the metric used


def icl(
    source: LineSet,
    target: LineSet,
    *,
    settings: IclSettings = IclSettings(),
    initial: Pose | None = None,
) -> IclResult:
    """Register two unbatched line sets from an initial pose (default: the identity).

    Lines that do not determine a pose, such as parallel ones, raise :class:`DegenerateError`.
    """
    if min(len(source), len(target)) < 2:
        raise InputError("ICL needs at least two lines on each side")
    pose = Pose.identity(dtype=source.direction.dtype) if initial is None else initial
    metric = _Metric.of(target, settings.sign_aware)
    nearest, flip, cost = metric.nearest(pose @ source)
    iterations, converged = 0, False
    while not converged and iterations < settings.max_iterations:
        # The paper moves the source by increments; solving for the whole pose is the same motion
        # without the accumulated rounding.
        pose = align_directed(source, target[nearest].flipped(flip))
        nearest, flip, new_cost = metric.nearest(pose @ source)
        iterations += 1
        converged = abs(cost - new_cost) <= settings.min_relative_change * cost
        cost = new_cost
    matches = torch.stack([torch.arange(len(source), device=nearest.device), nearest], -1)
    return IclResult(pose, matches, converged, iterations, cost)


@dataclass(frozen=True, eq=False)
class _Metric:
    """Lines as points of R^6; the distance of two lines is that of their points, up to sign if `sign_aware`."""

    points: Float[Tensor, "n 6"]  # of the target
    centre: Float[Tensor, "3"]
    scale: Float[Tensor, ""]  # length that corresponds to one radian
    sign_aware: bool

    @classmethod
    def of(cls, target: LineSet, sign_aware: bool) -> "_Metric":
        centre = target.centre() if sign_aware else torch.zeros_like(target.direction[0])
        scale = target.direction.new_ones(())
        if sign_aware:
            scale = target.shifted(centre).moment.square().sum(-1).mean().sqrt().clamp_min(1e-12)
        return cls(_coordinates(target, centre, scale), centre, scale, sign_aware)

    def nearest(self, lines: LineSet) -> tuple[Tensor, Tensor, float]:
        """The nearest target line of each line, whether it must be flipped, and the mean distance."""
        points = _coordinates(lines, self.centre, self.scale)
        product = points @ self.points.mT
        closeness = product.abs() if self.sign_aware else product
        # |a - b|^2 = |a|^2 + |b|^2 - 2 a.b, and a flip changes the sign of a.b alone.
        rank = closeness - self.points.square().sum(-1) / 2
        nearest = rank.argmax(-1)
        flip = (product.gather(1, nearest[:, None])[:, 0] < 0) & self.sign_aware
        sign = torch.where(flip, -1.0, 1.0)[:, None]
        return nearest, flip, float((points - sign * self.points[nearest]).norm(dim=-1).mean())


def _coordinates(lines: LineSet, centre: Tensor, scale: Tensor) -> Tensor:
    lines = lines.infinite().shifted(centre)
    return torch.cat([lines.moment, scale * lines.direction], -1)

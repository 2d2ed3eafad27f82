r"""Which motions of a pose its inliers determine, and how firmly.

A twist ``xi = (omega, tau)`` displaces the point ``x`` by ``tau + omega x x``. A line resists only the displacement
across itself. For a segment with anchor ``a``, direction ``d`` and half length ``l``, its mean square over the line is

    |P (tau + omega x a)|^2 + l^2 / 3 |omega x d|^2     with  P = I - d d^T.

Short segments count as a little longer, because their directions are observed as well. The sum over the inliers is
``xi^T A xi``. With ``xi^T B xi`` the mean squared displacement of all their points in any direction, the eigenvalues of
``A xi = firmness B xi`` are numbers of lines: how many inliers resist each of six independent motions. They depend
neither on the frame nor on the unit. For a translation the firmness is the lateral support of
:mod:`plueckernet.estimation.evidence`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry.pose import skew
from plueckernet.kernels.library import compiled
from plueckernet.kernels.observability import all_motions_firm
from plueckernet.settings import check_at_least, check_positive

_MIN_SPREAD = 0.1  # of points across an axis, in their largest spread; a motion that moves no point has no firmness
_MIN_EXTENT = 0.25  # of a line, in radii of the inliers: short lines have a direction, too
_ALONG = 0.95  # cosine of the angle between axes that count as the same
_PURE = 0.2  # displacement by rotation over that by translation, and the reverse, up to which a motion has one name


class MotionKind(enum.StrEnum):
    """What a motion is called."""

    TRANSLATION = "translation"
    ROTATION = "rotation"
    SCREW = "screw"


@dataclass(frozen=True)
class UnobservableMotion:
    """A motion of the pose that too few inliers resist."""

    kind: MotionKind
    axis: tuple[float, float, float]  # unit vector in the target frame
    point: tuple[float, float, float] | None  # of the axis of a rotation or a screw, in the target frame
    firmness: float  # inliers that resist the motion
    sigma: float  # one standard deviation of the pose: in the unit of the map for a translation, otherwise degrees

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> UnobservableMotion:
        """Read the fields from JSON."""
        x, y, z = document["axis"]
        point = document["point"] and tuple(document["point"])
        kind, firm, sigma = MotionKind(document["kind"]), document["firmness"], document["sigma"]
        return UnobservableMotion(kind, (x, y, z), point, firm, sigma)

    def is_along(self, direction: tuple[float, float, float]) -> bool:
        """Whether the motion is a translation along a direction."""
        return self.kind is MotionKind.TRANSLATION and self._cosine(direction) > _ALONG

    def tilts(self, up: tuple[float, float, float]) -> bool:
        """Whether the motion rotates about another axis than the vertical."""
        return self.kind is not MotionKind.TRANSLATION and self._cosine(up) < _ALONG

    def _cosine(self, direction: tuple[float, float, float]) -> float:
        return abs(sum(a * b for a, b in zip(self.axis, direction, strict=True))) / math.hypot(*direction)

    def describe(self) -> str:
        """The motion in words."""
        axis = _in_words(self.axis)
        if self.point is None:
            return f"translation along {axis} of the target frame"
        name = "rotation" if self.kind is MotionKind.ROTATION else "screw motion"
        return f"{name} about the axis along {axis} through {_in_words(self.point)} of the target frame"


@dataclass(frozen=True)
class ObservabilitySettings:
    """When a motion is unobservable."""

    min_firmness: float = 1.5  # inliers that resist a translation or a screw
    min_rotation_firmness: float = 0.5  # the same of a rotation, against which a line counts by its length
    min_slope_firmness: float = 0.3  # of a translation that several slightly sloping lines determine well
    max_sigma: float = 0.5  # of such a translation, in inlier distances
    end_distance: float = 0.5  # within which ends coincide, in inlier distances
    max_end_shift: float = 20.0  # with which the ends are compared, in inlier distances
    min_end_excess: float = 5.0  # lines with a common end over those by chance and if shifted, in standard deviations
    min_end_places: int = 6  # along the axis, at which such ends are

    def __post_init__(self) -> None:
        check_positive(self, "min_firmness", "min_rotation_firmness", "min_slope_firmness", "max_sigma")
        check_positive(self, "end_distance", "max_end_shift", "min_end_excess")
        check_at_least(self, 1, "min_end_places")

    def is_unobservable(self, motion: UnobservableMotion, slope_firmness: float, inlier_distance: float) -> bool:
        """Whether too few inliers resist the motion.

        ``slope_firmness`` is that of a translation without the line that resists it most, which may be a wrong match.
        The directions of parallel lines scatter by their noise, so a small one means nothing, however many lines there
        are.
        """
        if motion.kind is MotionKind.ROTATION:
            return motion.firmness < self.min_rotation_firmness
        precise = motion.kind is MotionKind.TRANSLATION and motion.sigma <= self.max_sigma * inlier_distance
        if precise and slope_firmness >= self.min_slope_firmness:
            return False
        return motion.firmness < self.min_firmness


@dataclass(frozen=True, eq=False)
class _Motions:
    """Six independent motions in the frame whose origin is the centre of the inliers, least firm first."""

    firmness: Float[Tensor, "6"]  # inliers
    twists: Float[Tensor, "6 6"]  # one a column; each moves the points by a mean square of one
    across: Float[Tensor, "6 6"]  # the A of the module docstring
    displacement: Float[Tensor, "6 6"]  # the B
    centre: Float[Tensor, "3"]
    radius: float  # of the points, root mean square

    def firmness_of(self, twist: Float[Tensor, "6"]) -> float:
        """How many inliers resist a motion."""
        return float(twist @ self.across @ twist) / float(twist @ self.displacement @ twist)


def firmness(inliers: AnchoredLines) -> Float[Tensor, "6"]:
    """How many inliers resist each of six independent motions, fewest first; zeros if there are no inliers."""
    return _motions(inliers).firmness if len(inliers) else inliers.anchor.new_zeros(6)


def are_all_firm(lines: AnchoredLines, rows: Int[Tensor, " k"], settings: ObservabilitySettings) -> bool:
    """Whether no motion of the given inliers is unobservable; where this is not found out, the answer is no.

    It is the same in any frame and unit.
    """
    tensors = lines.anchor, lines.lines.direction
    if not compiled(*tensors, rows) or any(tensor.dtype != torch.float64 for tensor in tensors):
        return False
    least = max(settings.min_firmness, settings.min_rotation_firmness)
    return all_motions_firm(*tensors, lines.half_length, rows, least)


def unobservable_motions(
    inliers: AnchoredLines,
    covariance: Float[Tensor, "6 6"],
    inlier_distance: float,
    settings: ObservabilitySettings = ObservabilitySettings(),
) -> tuple[UnobservableMotion, ...]:
    """The motions that too few inliers resist, least firm first.

    ``inliers`` are the matched lines of the target, and ``covariance`` is that of the pose, all in the frame and unit
    in which the motions are wanted.
    """
    if not len(inliers):
        return ()
    motions, limit = _motions(inliers), max(settings.min_firmness, settings.min_rotation_firmness)
    if bool(motions.firmness[0] >= limit):
        return ()
    free = _simple_basis(motions.twists[:, motions.firmness < limit], motions.radius)
    covariance = _centred(covariance, motions.centre)
    named = sorted((_named(twist, motions, covariance) for twist in free.mT), key=lambda motion: motion.firmness)
    return tuple(
        motion
        for motion in named
        if settings.is_unobservable(motion, _slope_firmness(motion, inliers.lines.direction), inlier_distance)
    )


def _slope_firmness(motion: UnobservableMotion, direction: Float[Tensor, "k 3"]) -> float:
    """How many inliers resist a translation, without the one that resists it most."""
    resistance = 1 - (direction @ direction.new_tensor(motion.axis)).square()
    return float(resistance.sum() - resistance.max())


def _motions(inliers: AnchoredLines) -> _Motions:
    """The motions by the generalized eigenvectors of ``A`` and ``B``; in NumPy, because all is small."""
    anchor, direction = (tensor.detach().cpu().numpy() for tensor in (inliers.anchor, inliers.lines.direction))
    centre, eye = anchor.mean(0), np.eye(3, dtype=anchor.dtype)
    offset = anchor - centre
    extent = _extents(inliers, offset)
    points = np.concatenate([offset, direction * extent[:, None]])
    spread = points.T @ points / len(inliers)
    spread = spread + _MIN_SPREAD**2 * np.linalg.eigvalsh(spread)[-1] * eye
    inertia = np.trace(spread) * eye - spread
    values, vectors = np.linalg.eigh(inertia)
    whitening, displacement = (np.eye(6, dtype=anchor.dtype) for _ in range(2))
    whitening[:3, :3], displacement[:3, :3] = vectors / np.sqrt(values), inertia
    across = _across(offset, direction, extent)
    eigenvalues, motions = np.linalg.eigh(whitening.T @ across @ whitening)

    def tensor(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(inliers.anchor)

    return _Motions(
        firmness=tensor(eigenvalues.clip(0)),
        twists=tensor(whitening @ motions),
        across=tensor(across),
        displacement=tensor(displacement),
        centre=tensor(centre),
        radius=math.sqrt(np.trace(spread)),
    )


def _extents(inliers: AnchoredLines, offset: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, " n"]:
    """Root mean square of the coordinate along each line; an infinite line counts as long as the map."""
    size = max(math.sqrt(np.square(offset).sum() / len(offset)), 1e-12)
    if inliers.half_length is None:
        return np.full_like(offset[:, 0], size / math.sqrt(3))
    return np.maximum(inliers.half_length.detach().cpu().numpy() / math.sqrt(3), _MIN_EXTENT * size)


def _across(
    offset: Float[np.ndarray, "n 3"], direction: Float[np.ndarray, "n 3"], extent: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "6 6"]:
    """``A``, the sum of the squared displacements across the lines."""
    project = np.eye(3, dtype=offset.dtype) - direction[:, :, None] * direction[:, None, :]
    rows = np.zeros((2, *project.shape[:2], 6), offset.dtype)
    rows[0, ..., :3], rows[0, ..., 3:] = -project @ _cross_matrices(offset), project
    rows[1, ..., :3] = -_cross_matrices(direction * extent[:, None])
    rows = rows.reshape(-1, 6)
    return rows.T @ rows


def _cross_matrices(vectors: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3 3"]:
    """``[v]x`` of each vector."""
    matrices = np.zeros((len(vectors), 9), vectors.dtype)
    matrices[:, [7, 2, 3]] = vectors
    matrices[:, [5, 6, 1]] = -vectors
    return matrices.reshape(-1, 3, 3)


def _simple_basis(twists: Float[Tensor, "6 k"], radius: float) -> Float[Tensor, "6 k"]:
    """The same space by translations, and by rotations that have no component along these.

    Where a bundle of parallel lines leaves two motions free, their eigenvectors are any two screws.
    """
    if twists.shape[1] < 2:
        return twists
    *_, right = torch.linalg.svd(twists[:3] * radius)
    basis = twists @ right.mT
    translates = basis[:3].norm(dim=0) * radius < _PURE * basis[3:].norm(dim=0)
    along = torch.linalg.qr(basis[3:, translates]).Q
    shift = basis[3:, ~translates]
    basis[3:, ~translates] = shift - along @ (along.mT @ shift)
    return basis


def _named(twist: Float[Tensor, "6"], motions: _Motions, covariance: Float[Tensor, "6 6"]) -> UnobservableMotion:
    """The motion by its kind and axis."""
    omega, tau = twist[:3], twist[3:]
    turn, shift, firm = float(omega.norm()), float(tau.norm()), motions.firmness_of(twist)
    if turn * motions.radius < _PURE * shift:
        sigma = _deviation(covariance[3:, 3:], tau / shift)
        return UnobservableMotion(MotionKind.TRANSLATION, _axis(tau), None, firm, sigma)
    slide = abs(float(omega @ tau)) / turn
    kind = MotionKind.ROTATION if slide < _PURE * turn * motions.radius else MotionKind.SCREW
    x, y, z = (motions.centre + torch.linalg.cross(omega, tau) / turn**2).tolist()
    sigma = math.degrees(_deviation(covariance[:3, :3], omega / turn))
    return UnobservableMotion(kind, _axis(omega), (x, y, z), firm, sigma)


def _deviation(covariance: Float[Tensor, "3 3"], axis: Float[Tensor, "3"]) -> float:
    return math.sqrt(max(0.0, float(axis @ covariance @ axis)))


def _centred(covariance: Float[Tensor, "6 6"], centre: Float[Tensor, "3"]) -> Float[Tensor, "6 6"]:
    """The covariance of ``(omega, tau + omega x centre)``: of the same motions in the frame with that origin."""
    change = torch.eye(6).to(covariance)
    change[3:, :3] = -skew(centre)
    return change @ covariance @ change.mT


def _axis(vector: Float[Tensor, "3"]) -> tuple[float, float, float]:
    """The unit vector whose largest component is positive."""
    unit = vector / vector.norm()
    x, y, z = (unit * unit[unit.abs().argmax()].sign()).tolist()
    return x, y, z


def _in_words(vector: tuple[float, float, float]) -> str:
    return "(" + ", ".join(f"{round(value, 2) + 0.0:.2f}" for value in vector) + ")"

"""Rigid motions and similarities as frozen, batched values.

Names carry frames: ``target_T_source`` maps coordinates in the source frame to the target frame, so
``a_T_b @ b_T_c == a_T_c``. Tangent vectors have the rotation first, ``xi = (omega, tau[, sigma])``, in radians
and in the unit of the map.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.geometry.arrays import ArrayLike, as_floats
from plueckernet.geometry.describing import point_text, table_html

_SMALL_ANGLE = 1e-4  # rad; below it the closed forms lose precision and their Taylor series are exact to 1e-16
_Moved = TypeVar("_Moved", covariant=True)


@runtime_checkable
class Movable(Protocol[_Moved]):
    """Anything a motion can act on by ``motion @ thing``, such as lines."""

    def moved_by(self, motion: Pose | Similarity) -> _Moved:
        """Return this thing after the motion."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Pose:
    """A rigid motion ``x -> R x + t`` (SE(3)), or a batch of them."""

    rotation: Float[Tensor, "*batch 3 3"]
    translation: Float[Tensor, "*batch 3"]

    @classmethod
    def identity(cls, *batch: int, dtype: torch.dtype = torch.float64, device: str = "cpu") -> Pose:
        """The identity motion."""
        eye = torch.eye(3, dtype=dtype, device=device).expand(*batch, 3, 3)
        return Pose(eye, torch.zeros(*batch, 3, dtype=dtype, device=device))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Pose:
        """Read ``[[R, t], [0, 1]]``, ``(*batch, 4, 4)``; what is not a rigid motion raises :class:`InputError`."""
        matrix = as_floats(matrix, "matrix", (4, 4))
        if not bool(torch.isfinite(matrix).all()):
            raise InputError("the matrix has numbers that are not finite")
        rotation = matrix[..., :3, :3]
        eye = torch.eye(3, dtype=matrix.dtype, device=matrix.device)
        orthogonal = torch.allclose(rotation @ rotation.mT, eye.expand_as(rotation), atol=1e-4)
        if not (orthogonal and bool((torch.linalg.det(rotation) > 0).all())):
            raise InputError("the upper left 3x3 block is not a rotation matrix")
        return Pose(rotation, matrix[..., :3, 3])

    @classmethod
    def from_quaternion(cls, quaternion: ArrayLike, translation: ArrayLike) -> Pose:
        """From ``(w, x, y, z)``, ``(*batch, 4)``, of any length but zero, and a translation ``(*batch, 3)``."""
        quaternion = as_floats(quaternion, "quaternion", (4,))
        if not bool((quaternion.norm(dim=-1) > 0).all()):
            raise InputError("quaternion: expected a length above zero")
        return Pose(rotation_from_quaternion(quaternion), as_floats(translation, "translation", (3,)).to(quaternion))

    @classmethod
    def random(
        cls,
        *batch: int,
        generator: torch.Generator,
        translation: float = 1.0,
        dtype: torch.dtype = torch.float64,
    ) -> Pose:
        """A uniformly random rotation, and a translation uniform in ``[-translation, translation]`` per axis."""
        quaternion = torch.randn(*batch, 4, generator=generator, dtype=dtype, device=generator.device)
        shift = torch.rand(*batch, 3, generator=generator, dtype=dtype, device=generator.device) * 2 - 1
        return Pose(rotation_from_quaternion(quaternion), shift * translation)

    @classmethod
    def exp(cls, xi: ArrayLike) -> Pose:
        """The motion reached by following the twist ``xi = (omega, tau)``, ``(*batch, 6)``, for unit time."""
        xi = as_floats(xi, "xi", (6,))
        omega, tau = xi[..., :3], xi[..., 3:]
        a, b, c = _rodrigues_coefficients(omega)
        cross = skew(omega)
        square = cross @ cross
        eye = torch.eye(3, dtype=xi.dtype, device=xi.device)
        return Pose(eye + a * cross + b * square, _matvec(eye + b * cross + c * square, tau))

    def log(self) -> Float[Tensor, "*batch 6"]:
        """The twist whose :meth:`exp` is this motion."""
        omega = rotation_log(self.rotation)
        tau = torch.linalg.solve(_left_jacobian(omega), self.translation[..., None])[..., 0]
        return torch.cat([omega, tau], -1)

    def inverse(self) -> Pose:
        """``a_T_b -> b_T_a``."""
        back = self.rotation.mT
        return Pose(back, -_matvec(back, self.translation))

    def matrix(self) -> Float[Tensor, "*batch 4 4"]:
        """``[[R, t], [0, 1]]``."""
        return _homogeneous(self.rotation, self.translation)

    def line_motion_matrix(self) -> Float[Tensor, "*batch 6 6"]:
        """The paper's Eq. (1), ``[[R, [t]x R], [0, R]]``, acting on ``(moment, direction)``."""
        return _line_motion(self.rotation, self.rotation, self.translation)

    def adjoint(self) -> Float[Tensor, "*batch 6 6"]:
        """``Ad`` with ``T exp(xi) = exp(Ad xi) T``, for twists ordered ``(omega, tau)``."""
        zero = torch.zeros_like(self.rotation)
        lower = torch.cat([skew(self.translation) @ self.rotation, self.rotation], -1)
        return torch.cat([torch.cat([self.rotation, zero], -1), lower], -2)

    def quaternion(self) -> Float[Tensor, "*batch 4"]:
        """The rotation as a unit quaternion ``(w, x, y, z)`` with ``w >= 0``."""
        return quaternion_from_rotation(self.rotation)

    def act(self, points: Float[Tensor, "*points 3"]) -> Float[Tensor, "*moved 3"]:
        """Move points; with a batch of poses ``(*batch,)`` the points are ``(*batch, n, 3)`` or ``(n, 3)``."""
        return points @ self.rotation.mT + self.translation[..., None, :]

    def angle_to(self, other: Pose | ArrayLike) -> Float[Tensor, "*batch"]:
        """Angle of the rotation between two poses, or to a matrix, in radians; exact for small angles too."""
        pose = other if isinstance(other, Pose) else Pose.from_matrix(other).to(self.rotation.dtype)
        difference = self.rotation.mT @ pose.rotation
        return rotation_log(difference).norm(dim=-1)

    def to(self, where: torch.device | torch.dtype | str) -> Pose:
        """Move to a device or a dtype."""
        return Pose(self.rotation.to(where), self.translation.to(where))

    def __getitem__(self, index: int | slice | Tensor | tuple[slice | Tensor, ...]) -> Pose:
        return Pose(self.rotation[index], self.translation[index])

    @overload
    def __matmul__(self, other: Pose) -> Pose: ...
    @overload
    def __matmul__(self, other: Movable[_Moved]) -> _Moved: ...
    @overload
    def __matmul__(self, other: ArrayLike) -> Any: ...
    def __matmul__(self, other):  # type: ignore[no-untyped-def]
        """Compose with a pose; or move lines or points, which may be a tensor, a NumPy array or a list."""
        if isinstance(other, Pose):
            return Pose(
                self.rotation @ other.rotation,
                _matvec(self.rotation, other.translation) + self.translation,
            )
        return _moved(self, other)

    def __repr__(self) -> str:
        if self.translation.ndim > 1:
            return f"Pose(batch of {' × '.join(map(str, self.translation.shape[:-1]))})"
        omega = rotation_log(self.rotation.detach())
        angle = float(omega.norm())
        axis = f" about {point_text(omega / angle)}" if angle > 0 else ""
        return f"Pose({math.degrees(angle):.3f}°{axis}, translation {point_text(self.translation)})"

    def _repr_html_(self) -> str:
        """The matrix, for notebooks."""
        rows = self.matrix().tolist() if self.translation.ndim == 1 else []
        return table_html(repr(self), [("", "   ".join(f"{value:.6g}" for value in row)) for row in rows])


@dataclass(frozen=True, eq=False, repr=False)
class Similarity:
    """A similarity ``x -> s R x + t`` (Sim(3)), or a batch of them."""

    scale: Float[Tensor, "*batch"]
    rotation: Float[Tensor, "*batch 3 3"]
    translation: Float[Tensor, "*batch 3"]

    @classmethod
    def from_pose(cls, pose: Pose | ArrayLike, scale: float = 1.0) -> Similarity:
        """A pose, or its matrix, seen as a similarity of the given scale."""
        pose = pose if isinstance(pose, Pose) else Pose.from_matrix(pose)
        return Similarity(torch.full_like(pose.translation[..., 0], scale), pose.rotation, pose.translation)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Similarity:
        """Read ``[[s R, t], [0, 1]]``, ``(*batch, 4, 4)``; what is no similarity raises :class:`InputError`."""
        matrix = as_floats(matrix, "matrix", (4, 4))
        determinant = torch.linalg.det(matrix[..., :3, :3])
        if not bool((torch.isfinite(determinant) & (determinant > 0)).all()):
            raise InputError("the upper left 3x3 block is not a rotation matrix times a positive scale")
        scale = determinant ** (1 / 3)
        unscaled = matrix.clone()
        unscaled[..., :3, :3] /= scale[..., None, None]
        pose = Pose.from_matrix(unscaled)
        return Similarity(scale, pose.rotation, pose.translation)

    @property
    def pose(self) -> Pose:
        """The rigid motion that is left when the source has been multiplied by the scale: ``x' -> R x' + t``."""
        return Pose(self.rotation, self.translation)

    @classmethod
    def exp(cls, xi: ArrayLike) -> Similarity:
        """The similarity reached by following ``xi = (omega, tau, log scale)``, ``(*batch, 7)``, for unit time."""
        xi = as_floats(xi, "xi", (7,))
        omega, tau, sigma = xi[..., :3], xi[..., 3:6], xi[..., 6]
        return Similarity(sigma.exp(), rotation_exp(omega), _matvec(_similarity_jacobian(omega, sigma), tau))

    def log(self) -> Float[Tensor, "*batch 7"]:
        """The tangent vector whose :meth:`exp` is this similarity."""
        omega, sigma = rotation_log(self.rotation), self.scale.log()
        jacobian = _similarity_jacobian(omega, sigma)
        tau = torch.linalg.solve(jacobian, self.translation[..., None])[..., 0]
        return torch.cat([omega, tau, sigma[..., None]], -1)

    def inverse(self) -> Similarity:
        """``a_T_b -> b_T_a``."""
        back = self.rotation.mT
        return Similarity(1 / self.scale, back, -_matvec(back, self.translation) / self.scale[..., None])

    def matrix(self) -> Float[Tensor, "*batch 4 4"]:
        """``[[s R, t], [0, 1]]``."""
        return _homogeneous(self.scale[..., None, None] * self.rotation, self.translation)

    def line_motion_matrix(self) -> Float[Tensor, "*batch 6 6"]:
        """``[[s R, [t]x R], [0, R]]``, acting on ``(moment, direction)``; directions stay unit vectors."""
        return _line_motion(self.scale[..., None, None] * self.rotation, self.rotation, self.translation)

    def to(self, where: torch.device | torch.dtype | str) -> Similarity:
        """Move to a device or a dtype."""
        return Similarity(self.scale.to(where), self.rotation.to(where), self.translation.to(where))

    def act(self, points: Float[Tensor, "*points 3"]) -> Float[Tensor, "*moved 3"]:
        """Move points, batched as in :meth:`Pose.act`."""
        return self.scale[..., None, None] * (points @ self.rotation.mT) + self.translation[..., None, :]

    @overload
    def __matmul__(self, other: Similarity) -> Similarity: ...
    @overload
    def __matmul__(self, other: Movable[_Moved]) -> _Moved: ...
    @overload
    def __matmul__(self, other: ArrayLike) -> Any: ...
    def __matmul__(self, other):  # type: ignore[no-untyped-def]
        if isinstance(other, Similarity):
            moved = self.scale[..., None] * _matvec(self.rotation, other.translation)
            return Similarity(self.scale * other.scale, self.rotation @ other.rotation, moved + self.translation)
        return _moved(self, other)

    def __repr__(self) -> str:
        if self.translation.ndim > 1:
            return f"Similarity(batch of {' × '.join(map(str, self.translation.shape[:-1]))})"
        return f"Similarity(scale {float(self.scale):.6g}, {Pose(self.rotation, self.translation)!r})"


def _moved(motion: Pose | Similarity, other: Any) -> Any:
    """``motion @ other`` for lines or points; NumPy arrays and lists give a NumPy array.

    Points of another floating-point type than the motion give the more precise type of the two. One point gives one.
    """
    if not isinstance(other, Tensor) and isinstance(other, Movable):
        return other.moved_by(motion)
    points = as_floats(other, "points", ("n", 3), (3,))
    kind = torch.promote_types(points.dtype, motion.rotation.dtype)
    exact = motion if motion.rotation.dtype == kind else motion.to(kind)
    moved = exact.act(points.to(kind))
    if points.ndim == 1 and motion.translation.ndim == 1:
        moved = moved[0]
    return moved if isinstance(other, Tensor) else moved.detach().cpu().numpy()


def skew(vector: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 3 3"]:
    """``[v]x``, the matrix with ``[v]x w = v x w``."""
    x, y, z = vector.unbind(-1)
    zero = torch.zeros_like(x)
    return torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).unflatten(-1, (3, 3))


def rotation_exp(omega: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 3 3"]:
    """Rodrigues' formula: the rotation by ``|omega|`` radians about ``omega``."""
    a, b, _ = _rodrigues_coefficients(omega)
    cross = skew(omega)
    return torch.eye(3, dtype=omega.dtype, device=omega.device) + a * cross + b * (cross @ cross)


def rotation_log(rotation: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 3"]:
    """The rotation vector of a rotation matrix, accurate near 0 and near pi."""
    quaternion = quaternion_from_rotation(rotation)
    imaginary = quaternion[..., 1:]
    sine = imaginary.norm(dim=-1, keepdim=True)
    angle = 2 * torch.atan2(sine, quaternion[..., :1])
    ratio = torch.where(sine > 1e-12, angle / sine.clamp_min(1e-12), torch.full_like(sine, 2.0))
    return ratio * imaginary


def rotation_from_quaternion(quaternion: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 3 3"]:
    """Rotation of a quaternion ``(w, x, y, z)`` of any length but zero."""
    w, x, y, z = torch.nn.functional.normalize(quaternion, dim=-1).unbind(-1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


def quaternion_from_rotation(rotation: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 4"]:
    """Unit quaternion ``(w, x, y, z)`` with ``w >= 0``."""
    m = rotation
    xx, yy, zz = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    a, b, c = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    d, e, f = m[..., 0, 1] + m[..., 1, 0], m[..., 0, 2] + m[..., 2, 0], m[..., 1, 2] + m[..., 2, 1]
    # The rows of 4 q q^T; the row with the largest diagonal is the best conditioned multiple of q.
    rows = torch.stack(
        [
            torch.stack([1 + xx + yy + zz, a, b, c], -1),
            torch.stack([a, 1 + xx - yy - zz, d, e], -1),
            torch.stack([b, d, 1 - xx + yy - zz, f], -1),
            torch.stack([c, e, f, 1 - xx - yy + zz], -1),
        ],
        -2,
    )
    best = rows.diagonal(dim1=-2, dim2=-1).argmax(-1)[..., None, None]
    row = rows.gather(-2, best.expand(*rows.shape[:-2], 1, 4))[..., 0, :]
    quaternion = torch.nn.functional.normalize(row, dim=-1)
    return torch.where(quaternion[..., :1] < 0, -quaternion, quaternion)


def _rodrigues_coefficients(omega: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``sin θ/θ``, ``(1 - cos θ)/θ²``, ``(θ - sin θ)/θ³``, each ``(*batch, 1, 1)``, finite at zero."""
    square = omega.square().sum(-1)[..., None, None]
    small = square < _SMALL_ANGLE**2
    safe = torch.where(small, torch.ones_like(square), square)
    angle = safe.sqrt()
    a = torch.where(small, 1 - square / 6, angle.sin() / angle)
    b = torch.where(small, 0.5 - square / 24, 2 * (angle / 2).sin().square() / safe)
    c = torch.where(small, 1 / 6 - square / 120, (angle - angle.sin()) / (safe * angle))
    return a, b, c


def _left_jacobian(omega: Tensor) -> Tensor:
    """``V`` with ``exp(omega, tau) = (R, V tau)``."""
    _, b, c = _rodrigues_coefficients(omega)
    cross = skew(omega)
    return torch.eye(3, dtype=omega.dtype, device=omega.device) + b * cross + c * (cross @ cross)


def _similarity_jacobian(omega: Tensor, sigma: Tensor) -> Tensor:
    """``V`` = integral over s in [0, 1] of ``exp(s ([omega]x + sigma I))``, as a block of one matrix exponential."""
    eye = torch.eye(3, dtype=omega.dtype, device=omega.device).expand(*omega.shape[:-1], 3, 3)
    generator = torch.cat([skew(omega) + sigma[..., None, None] * eye, eye], -1)
    block = torch.cat([generator, torch.zeros_like(generator)], -2)
    return torch.linalg.matrix_exp(block)[..., :3, 3:]


def _matvec(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector[..., None])[..., 0]


def _homogeneous(block: Tensor, translation: Tensor) -> Tensor:
    top = torch.cat([block, translation[..., None]], -1)
    bottom = torch.tensor([0, 0, 0, 1], dtype=block.dtype, device=block.device)
    return torch.cat([top, bottom.expand(*top.shape[:-2], 1, 4)], -2)


def _line_motion(scaled: Tensor, rotation: Tensor, translation: Tensor) -> Tensor:
    top = torch.cat([scaled, skew(translation) @ rotation], -1)
    bottom = torch.cat([torch.zeros_like(rotation), rotation], -1)
    return torch.cat([top, bottom], -2)


def stacked(poses: Sequence[Pose]) -> Pose:
    """Single poses, at least one, as a batch."""
    return Pose(torch.stack([pose.rotation for pose in poses]), torch.stack([pose.translation for pose in poses]))


def joined(*batches: Pose) -> Pose:
    """Several batches of poses as one."""
    return Pose(torch.cat([batch.rotation for batch in batches]), torch.cat([batch.translation for batch in batches]))

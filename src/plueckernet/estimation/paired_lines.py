r"""Lines matched row by row as NumPy arrays: one row a coordinate, one column a pair.

Refinement takes some twenty steps on a few hundred pairs, one after the other. PyTorch needs longer to start an
operation on so few numbers than the operation takes, on a GPU a hundred times longer. So they run in NumPy, wherever
the maps are. The formulas are those of :mod:`plueckernet.geometry.residuals`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel
from plueckernet.kernels.refining import Pairs

_SMALL_ANGLE = 1e-4  # rad; below it the closed forms lose precision and their Taylor series are exact to 1e-16
_MIN_COSINE = 1e-6  # of the angle between two lines of a pair

Variances = tuple[Float[np.ndarray, " k"] | float, Float[np.ndarray, " k"] | float]
"""Of the position and of the direction of lines, on each axis across them."""


@dataclass(frozen=True, eq=False)
class PoseArrays:
    """A pose as NumPy arrays."""

    rotation: Float[np.ndarray, "3 3"]
    translation: Float[np.ndarray, "3"]

    @classmethod
    def of(cls, pose: Pose) -> PoseArrays:
        """The same pose."""
        return PoseArrays(_array(pose.rotation), _array(pose.translation))

    def pose(self, like: Pose) -> Pose:
        """The same pose on the device of another one."""
        return Pose(*(torch.from_numpy(value).to(like.rotation) for value in (self.rotation, self.translation)))

    def act(self, points: Float[np.ndarray, "3 n"]) -> Float[np.ndarray, "3 n"]:
        """Move points."""
        return self.rotation @ points + self.translation[:, None]

    def numbers(self) -> tuple[float, ...]:
        """The rotation row by row, then the translation."""
        return (*self.rotation.ravel().tolist(), *self.translation.tolist())

    def angle_to(self, other: PoseArrays) -> float:
        """Angle of the rotation between two poses, in radians; exact for small angles too."""
        (a, b, c), (d, e, f), (g, h, i) = (self.rotation.T @ other.rotation).tolist()
        return math.atan2(math.hypot(h - f, c - g, d - b), a + e + i - 1)

    def stepped(self, xi: Float[np.ndarray, "6"]) -> PoseArrays:
        """``exp(xi) @ pose`` for the twist ``xi = (omega, tau)``, as :meth:`~plueckernet.Pose.exp` has it."""
        x, y, z = xi[:3].tolist()
        square = x * x + y * y + z * z
        if square < _SMALL_ANGLE**2:
            a, b, c = 1 - square / 6, 0.5 - square / 24, 1 / 6 - square / 120
        else:
            angle = math.sqrt(square)
            a, b = math.sin(angle) / angle, 2 * math.sin(angle / 2) ** 2 / square
            c = (angle - math.sin(angle)) / (square * angle)
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        twice = cross @ cross
        turn, shift = _EYE + a * cross + b * twice, (_EYE + b * cross + c * twice) @ xi[3:]
        return PoseArrays(turn @ self.rotation, turn @ self.translation + shift)


@dataclass(frozen=True, eq=False)
class LineColumns:
    """Lines as columns of direction, anchor, squared noise factor and inverse squared length."""

    values: Float[np.ndarray, "8 n"]
    infinite: bool

    @classmethod
    def of(cls, lines: AnchoredLines) -> LineColumns:
        """The lines of a map."""
        values = np.empty((8, len(lines)))
        values[:3], values[3:6] = _array(lines.lines.direction).T, _array(lines.anchor).T
        values[6] = 1.0 if lines.noise_factor is None else np.square(_array(lines.noise_factor))
        values[7] = 0.0
        if lines.half_length is not None:
            values[7] = 1 / np.square(np.maximum(2 * _array(lines.half_length), 1e-12))
        return LineColumns(values, lines.half_length is None)

    def __len__(self) -> int:
        return self.values.shape[1]

    def taken(self, rows: Int[np.ndarray, " k"]) -> LineColumns:
        """Some of the lines."""
        return LineColumns(self.values.take(rows, 1), self.infinite)

    @property
    def direction(self) -> Float[np.ndarray, "3 n"]:
        """Unit vectors."""
        return self.values[:3]

    @property
    def anchor(self) -> Float[np.ndarray, "3 n"]:
        """The points at which positions are compared."""
        return self.values[3:6]

    @property
    def noise_square(self) -> Float[np.ndarray, " n"]:
        """The square of the factor by which the noise of each line differs from that of the maps."""
        return self.values[6]

    @property
    def inverse_length_square(self) -> Float[np.ndarray, " n"]:
        """One over the squared length of segments, zero for infinite lines."""
        return self.values[7]

    def variances(self, noise: NoiseModel) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Of the position and of the direction of each line, on each axis across it."""
        spread = noise.direction**2 + (2 * noise.endpoint**2) * self.inverse_length_square
        return noise.position**2 * self.noise_square, spread * self.noise_square


@dataclass(frozen=True, eq=False)
class ResidualValues:
    """Residuals of pairs under a pose, as of :func:`~plueckernet.geometry.residuals.line_residuals`."""

    position: Float[np.ndarray, "2 k"]
    direction: Float[np.ndarray, "2 k"]
    lever: Float[np.ndarray, " k"]


@dataclass(frozen=True, eq=False)
class PairResiduals(ResidualValues):
    """The same with what their derivatives are made of."""

    crossing: Float[np.ndarray, "3 k"]
    project: Float[np.ndarray, "3 2 k"]  # derivative of the position by a shift
    turn: Float[np.ndarray, "3 2 k"]  # derivative of the direction by a turn

    def design(
        self, source: Variances, target: Variances, scale: Float[np.ndarray, " k"] | float = 1.0
    ) -> tuple[Float[np.ndarray, "7 4 k"], Float[np.ndarray, " k"]]:
        """Derivatives by ``(omega, tau)`` and, last, the values of four residuals a pair with unit covariance.

        The variances of the direction are multiplied by ``scale``. Also returns the variance of the position given the
        direction.
        """
        (sp, sd), (tp, td) = source, target
        gain = self.lever * (sd / (sd + td))
        variance = sp + tp + gain * self.lever * td * scale
        shift_scale, turn_scale = 1 / np.sqrt(variance), 1 / np.sqrt(scale * (sd + td))
        design = np.zeros((7, 4, len(gain)))
        by_turn = _cross(self.crossing[:, None], self.project)
        np.multiply(by_turn - gain * self.turn, shift_scale, out=design[:3, :2])
        np.multiply(self.project, shift_scale, out=design[3:6, :2])
        np.multiply(self.turn, turn_scale, out=design[:3, 2:])
        np.multiply(self.position - gain * self.direction, shift_scale, out=design[6, :2])
        np.multiply(self.direction, turn_scale, out=design[6, 2:])
        return design, variance


@dataclass(frozen=True, eq=False)
class PairedLines:
    """Lines of two maps, matched column by column."""

    source: LineColumns
    target: LineColumns
    kernel: Pairs | None = None  # the same pairs for compiled steps

    @cached_property
    def _across(self) -> Float[np.ndarray, "3 2 k"]:
        """Two orthonormal vectors across each target line, as of :mod:`plueckernet.geometry.residuals`."""
        normal = self.target.direction.copy()
        size = 1 + np.abs(normal[2])
        normal[2] += np.where(normal[2] < 0, -1.0, 1.0)
        return _EYE[:, :2, None] - (normal / size)[:, None] * normal[:2]

    def residuals(self, pose: PoseArrays) -> PairResiduals:
        """Of all pairs under a pose, signs ignored."""
        other, across = self.target.direction, self._across
        point, turned = pose.act(self.source.anchor), pose.rotation @ self.source.direction
        cosine = dot(turned, other)
        turned *= np.where(cosine < 0, -1.0, 1.0)
        along = other / np.maximum(np.abs(cosine), _MIN_COSINE)
        lever = dot(self.target.anchor - point, along)
        crossing = point + lever * turned
        tilt = dot(across, turned[:, None])
        return PairResiduals(
            position=dot(across, (crossing - self.target.anchor)[:, None]),
            direction=tilt,
            lever=lever,
            crossing=crossing,
            project=across - along[:, None] * tilt,
            turn=_cross(turned[:, None], across),
        )


_EYE = np.eye(3)


def _array(tensor: Tensor) -> np.ndarray:
    """In double precision on the CPU."""
    return tensor.detach().to("cpu", torch.float64).numpy()


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products over the first axis, of three coordinates."""
    product = a * b
    return product[0] + product[1] + product[2]


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result = a[_NEXT] * b[_LAST]
    result -= a[_LAST] * b[_NEXT]
    return result


_NEXT, _LAST = [1, 2, 0], [2, 0, 1]

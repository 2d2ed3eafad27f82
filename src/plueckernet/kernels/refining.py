"""The kernels of :mod:`plueckernet.estimation.refinement`."""

from __future__ import annotations

import ctypes

import numpy as np
from jaxtyping import Float, Int

from plueckernet.kernels.library import DOUBLE, INTEGER, POINTER, function

_fit_pairs = function("fit_pairs", POINTER, POINTER, POINTER, result=INTEGER)
_count_competitors = function("count_competitors", INTEGER, POINTER, INTEGER, INTEGER, *[POINTER] * 3, result=INTEGER)
_noise_medians = function(
    "noise_medians", POINTER, POINTER, INTEGER, POINTER, DOUBLE, DOUBLE, DOUBLE, POINTER, result=INTEGER
)
_polish_poses = function("polish_poses", POINTER, POINTER, INTEGER, INTEGER, POINTER, POINTER, result=INTEGER)
_direction_sums = function("direction_sums", *[POINTER] * 5)
_position_sums = function("position_sums", *[POINTER] * 4, DOUBLE, POINTER)
_ROWS = 8  # of numbers that a fit writes for each pair
_SMALL = 42 + 36 + 7 + 12  # numbers of products, information, step and pose

_Noise = tuple[float, float, float]
"""Sigmas of the position, the direction and the ends."""


class _Pairs(ctypes.Structure):
    _fields_ = [
        ("count", INTEGER),
        ("source", POINTER),
        ("target", POINTER),
        ("rows", POINTER * 2),
        ("lines", INTEGER * 2),
        ("competitors", POINTER),
        ("max_matches", INTEGER),
    ]


class Model(ctypes.Structure):
    """A pose, the noise and the settings of a fit."""

    _fields_ = [
        ("pose", DOUBLE * 12),
        ("noise", DOUBLE * 3),
        ("degrees_of_freedom", DOUBLE),
        ("distance", DOUBLE),
        ("angle", DOUBLE),
        ("unseen_competitors", DOUBLE),
        ("iterations", INTEGER),
        ("is_upright", INTEGER),
        ("up", DOUBLE * 3),
    ]


class _Results(ctypes.Structure):
    _fields_ = [
        (name, POINTER)
        for name in (
            "weight", "exclusive", "scale", "lever", "position", "direction", "products", "information", "xi",
            "pose",
        )
    ]  # fmt: skip


class Pairs:
    """Pairs of lines as columns, their rows in maps of so many lines, and how many pairs compete with each."""

    def __init__(
        self,
        source: Float[np.ndarray, "8 k"],
        target: Float[np.ndarray, "8 k"],
        rows: Int[np.ndarray, "k 2"],
        counts: tuple[int, int],
    ) -> None:
        self._arrays = source, target, np.empty((3, len(rows)), dtype=np.int64)
        start, step = self._arrays[2].ctypes.data, 8 * len(rows)
        first, second, competitors = start, start + step, start + 2 * step
        max_matches = _count_competitors()(len(rows), rows.ctypes.data, *counts, first, second, competitors)
        if max_matches < 0:
            raise MemoryError
        sides = source.ctypes.data, target.ctypes.data
        places, lines = (POINTER * 2)(first, second), (INTEGER * 2)(*counts)
        self._numbers = _Pairs(len(rows), *sides, places, lines, competitors, max_matches)
        self.pointer = ctypes.byref(self._numbers)

    def __len__(self) -> int:
        return int(self._numbers.count)


def polished_poses(
    poses: tuple[Float[np.ndarray, "h 3 3"], Float[np.ndarray, "h 3"]],
    source: Float[np.ndarray, "8 k"],
    target: Float[np.ndarray, "8 k"],
    model: Model,
    directed: bool,
) -> tuple[Float[np.ndarray, "h 3 3"], Float[np.ndarray, "h 3"]]:
    """Each pose after a step on the matched lines that are its inliers."""
    rotation, translation = (np.array(value, dtype=np.float64, order="C") for value in poses)
    pairs = _Pairs(source.shape[1], source.ctypes.data, target.ctypes.data)
    results = len(rotation), rotation.ctypes.data, translation.ctypes.data
    if _polish_poses()(ctypes.byref(pairs), ctypes.byref(model), directed, *results):
        raise MemoryError
    return rotation, translation


class FittedPairs:
    """A Gauss-Newton step on pairs weighted by their probability, and sums over the residuals from which it began.

    ``outcome`` is 0 for fewer than three matches, 1 for a step, 2 if a motion is undetermined and there is no step.
    """

    def __init__(self, pairs: Pairs, model: Model) -> None:
        self._pairs, count = pairs, len(pairs)
        numbers = np.empty(_ROWS * count + _SMALL)
        rows = numbers[: _ROWS * count].reshape(_ROWS, count)
        self.weight, self.exclusive, self.variance_scale, self.lever = rows[:4]
        self.position, self.direction = rows[4:6], rows[6:8]
        self._small = numbers[_ROWS * count :]
        start, row, last = numbers.ctypes.data, 8 * count, numbers.ctypes.data + 8 * _ROWS * count
        self._results = _Results(
            *(start + row * place for place in (0, 1, 2, 3, 4, 6)), *(last + 8 * place for place in (0, 42, 78, 85))
        )
        self.outcome: int = _fit_pairs()(pairs.pointer, ctypes.byref(model), ctypes.byref(self._results))
        if self.outcome < 0:
            raise MemoryError

    @property
    def products(self) -> Float[np.ndarray, "6 7"]:
        """Information and gradient of the step."""
        return self._small[:42].reshape(6, 7)

    @property
    def information(self) -> Float[np.ndarray, "6 6"]:
        """That of the covariance, which competing pairs reduce."""
        return self._small[42:78].reshape(6, 6)

    @property
    def step(self) -> tuple[Float[np.ndarray, "6"], float]:
        """The step and its length in standard deviations."""
        return self._small[78:84], float(self._small[84])

    @property
    def pose(self) -> tuple[Float[np.ndarray, "3 3"], Float[np.ndarray, "3"]]:
        """Rotation and translation after the step."""
        return self._small[85:94].reshape(3, 3), self._small[94:]

    def medians(self, rows: Int[np.ndarray, " r"], position: float, unit: float, floor: float) -> list[float]:
        """Direction, at least ``floor``, and ratio of the position to what the noise predicts, both in units."""
        medians = (DOUBLE * 2)()
        arguments = self._pairs.pointer, ctypes.byref(self._results), len(rows), rows.ctypes.data
        if _noise_medians()(*arguments, position, unit, floor, medians):
            raise MemoryError
        return list(medians)

    def direction_sums(self, trust: Float[np.ndarray, " k"], noise: _Noise) -> Float[np.ndarray, "2 3"]:
        """Normal equations of the squared noise of directions and ends."""
        sums = np.empty((2, 3))
        arguments = self._pairs.pointer, ctypes.byref(self._results), trust.ctypes.data
        _direction_sums()(*arguments, (DOUBLE * 3)(*noise), sums.ctypes.data)
        return sums

    def position_sums(self, trust: Float[np.ndarray, " k"], noise: _Noise, ratio: float) -> list[float]:
        """Of the squared positions beyond what directions carry to them, and of the noise factors."""
        sums = (DOUBLE * 2)()
        arguments = self._pairs.pointer, ctypes.byref(self._results), trust.ctypes.data
        _position_sums()(*arguments, (DOUBLE * 3)(*noise), ratio, sums)
        return list(sums)

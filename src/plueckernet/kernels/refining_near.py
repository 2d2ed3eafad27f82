"""The kernel of :func:`plueckernet.estimation.refinement.refine_near`."""

from __future__ import annotations

import ctypes

import numpy as np
from jaxtyping import Float, Int

from plueckernet.kernels.close_pairs import Limits
from plueckernet.kernels.library import DOUBLE, INTEGER, POINTER, function
from plueckernet.kernels.refining import Model

_refine_near = function("refine_near", *[POINTER] * 4, result=INTEGER)
TOO_FEW, DONE, ELSEWHERE, AWKWARD = range(4)
"""Outcomes: fewer than three matches, a refined pose, other pairs are needed, and a case for Python."""

_Sigmas = DOUBLE * 2  # of position and direction


class Course(ctypes.Structure):
    """Of the iterations, the search for pairs and the noise."""

    _fields_ = [
        *((name, INTEGER) for name in ("iterations", "final_iterations", "estimates_noise", "is_infinite")),
        ("converged_step", DOUBLE),
        ("min_match_probability", DOUBLE),
        ("min_noise_probability", DOUBLE),
        ("max_decrease", DOUBLE),
        ("approach", _Sigmas),
        ("final", _Sigmas),
        ("slope_sigmas", DOUBLE),
        ("max_growth", DOUBLE),
        ("shortest", DOUBLE),
        ("limit", Limits),
        ("known", _Sigmas),
    ]


class State(ctypes.Structure):
    """What a refinement has reached: pose, noise, search and, when it is done, what the covariance is made of."""

    _fields_ = [
        ("model", Model),
        ("accepted", DOUBLE * 3),
        ("search", Limits),
        *((name, INTEGER) for name in ("iteration", "is_final", "has_accepted", "stable", "converged", "inliers")),
        ("information", DOUBLE * 36),
        ("matched", DOUBLE),
    ]


class _Nearby(ctypes.Structure):
    _fields_ = [
        ("count", INTEGER),
        *((name, POINTER) for name in ("source", "target", "half_lengths", "rows")),
        ("lines", INTEGER * 2),
        ("anchors", POINTER),
        ("max_half_length", DOUBLE),
        ("pose", DOUBLE * 12),
        ("wide", Limits),
    ]


class Nearby:
    """Pairs of lines as columns, and the pose and the limits within which they were compared."""

    def __init__(
        self,
        sides: tuple[Float[np.ndarray, "8 k"], Float[np.ndarray, "8 k"]],
        half_lengths: Float[np.ndarray, " k"] | None,
        rows: Int[np.ndarray, "k 2"],
        maps: tuple[Float[np.ndarray, "3 m"], int, float],
        origin: tuple[tuple[float, ...], Limits],
    ) -> None:
        """``maps``: anchors of all source lines, the number of target lines, the largest half length of the source."""
        anchors, targets, longest = maps
        self._arrays = (*sides, half_lengths, rows, anchors)
        pointers = [None if x is None else x.ctypes.data for x in self._arrays]
        lines = (INTEGER * 2)(anchors.shape[1], targets)
        self._numbers = _Nearby(len(rows), *pointers[:4], lines, pointers[4], longest, *origin)
        self._pointer = ctypes.byref(self._numbers)

    def refine(self, settings: Course, state: State) -> tuple[int, Int[np.ndarray, "i 2"]]:
        """Go on with a refinement; the outcome and, if it is done, the rows of the inliers."""
        inliers = np.empty((self._numbers.count, 2), dtype=np.int64)
        arguments = ctypes.byref(settings), ctypes.byref(state), inliers.ctypes.data
        outcome: int = _refine_near()(self._pointer, *arguments)
        if outcome < 0:
            raise MemoryError
        return outcome, inliers[: state.inliers]

"""The kernels of :mod:`plueckernet.estimation.symmetry`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import DOUBLE, INTEGER, POINTER, function

_find_candidates = function("symmetry_candidates", *5 * [POINTER], result=INTEGER)
_check = function("symmetry_checked", *2 * [POINTER], INTEGER, *4 * [POINTER], INTEGER, POINTER, result=INTEGER)
_pair_mutually = function("symmetry_mutual_pairs", *7 * [POINTER], result=INTEGER)
_measure_length = function("symmetry_coinciding_length", POINTER, INTEGER, *4 * [POINTER], result=INTEGER)


class GivenLines(ctypes.Structure):
    """Lines of a map as the kernels take them."""

    _fields_ = [
        ("count", INTEGER),
        ("direction", POINTER),
        ("moment", POINTER),
        ("anchor", POINTER),
        ("half_length", POINTER),
    ]

    @classmethod
    def of(
        cls,
        direction: Float[Tensor, "n 3"],
        moment: Float[Tensor, "n 3"],
        anchor: Float[Tensor, "n 3"],
        half_length: Float[Tensor, " n"] | None,
    ) -> GivenLines:
        """The lines; ``half_length`` is None for infinite ones."""
        tensors = [tensor.double().contiguous() for tensor in (direction, moment, anchor)]
        if half_length is not None:
            tensors.append(half_length.double().contiguous())
        lines = cls(len(anchor), *(tensor.data_ptr() for tensor in tensors))
        lines.tensors = tensors  # whose memory the kernels read
        return lines


class Threshold(ctypes.Structure):
    """The inlier threshold."""

    _fields_ = [("distance", DOUBLE), ("angle", DOUBLE), ("slope", DOUBLE), ("directed", INTEGER)]


class CandidateLimits(ctypes.Structure):
    """What motions come from; see the settings and constants of the same names."""

    _fields_ = [
        ("threshold", Threshold),
        ("prominent_lines", INTEGER),
        ("reference_pairs", INTEGER),
        ("solved_pairs", INTEGER),
        ("max_counterparts", INTEGER),
        ("max_length_ratio", DOUBLE),
        ("separation", DOUBLE),
        ("max_rotations", INTEGER),
        ("directions", INTEGER),
        ("min_second_direction", DOUBLE),
        ("min_trace", DOUBLE),  # of the rotation of motions that count as the identity
        ("max_square", DOUBLE),  # of the translation of the same
    ]


class CheckLimits(ctypes.Structure):
    """Which motions pass a check; see the constants of the same names."""

    _fields_ = [
        ("threshold", Threshold),
        ("min_hits", DOUBLE),
        ("max_compared", INTEGER),
        ("min_trace", DOUBLE),  # of motions that are not distinct
        ("max_square", DOUBLE),
    ]


class Motions(NamedTuple):
    """Rigid motions in single precision."""

    rotation: Float[Tensor, "h 3 3"]
    translation: Float[Tensor, "h 3"]

    @classmethod
    def of(cls, rotation: Float[Tensor, "h 3 3"], translation: Float[Tensor, "h 3"]) -> Motions:
        """Copies where the kernels could not read the tensors themselves."""
        return cls(rotation.float().contiguous(), translation.float().contiguous())

    @property
    def pointers(self) -> tuple[int, int]:
        """Where the numbers are."""
        return self.rotation.data_ptr(), self.translation.data_ptr()


def candidate_motions(lines: GivenLines, limits: CandidateLimits) -> tuple[Motions, Int[Tensor, " n"]]:
    """Motions that take a pair of lines to a like one, and the rows of all lines, the most prominent first."""
    room = 4 * limits.solved_pairs * limits.max_counterparts
    motions, order = Motions(torch.empty(room, 3, 3), torch.empty(room, 3)), torch.empty(lines.count, dtype=torch.int64)
    pointers = ctypes.byref(lines), ctypes.byref(limits), order.data_ptr(), *motions.pointers
    count = _complete(_find_candidates()(*pointers))
    return Motions(motions.rotation[:count], motions.translation[:count]), order


def checked_rows(
    motions: Motions,
    lines: GivenLines,
    order: Int[Tensor, " n"],
    checks: Sequence[tuple[int, int]],
    limits: CheckLimits,
) -> Int[Tensor, " k"]:
    """Distinct motions under which most of the first lines of ``order`` coincide with lines."""
    rows = torch.empty(len(motions.rotation), dtype=torch.int64)
    steps = (ctypes.c_int64 * (2 * len(checks)))(*(number for check in checks for number in check))
    pointers = ctypes.byref(lines), order.data_ptr(), len(rows), *motions.pointers, ctypes.byref(limits)
    return rows[: _complete(_check()(*pointers, steps, len(checks), rows.data_ptr()))]


def mutual_pairs(
    motion: Motions, source: GivenLines, target: GivenLines, threshold: Threshold
) -> tuple[Int[Tensor, " k"], Int[Tensor, " k"]]:
    """Rows of source and target that are closest to each other under a single motion, and coincide."""
    rows, columns = (torch.empty(source.count, dtype=torch.int64) for _ in range(2))
    pointers = ctypes.byref(source), ctypes.byref(target), *motion.pointers, ctypes.byref(threshold)
    count = _complete(_pair_mutually()(*pointers, rows.data_ptr(), columns.data_ptr()))
    return rows[:count], columns[:count]


def coinciding_lengths(motions: Motions, segments: GivenLines, threshold: Threshold) -> Float[Tensor, " h"]:
    """The fraction of the total length of segments that coincides with segments after each motion."""
    fractions = torch.empty(len(motions.rotation))
    pointers = *motions.pointers, ctypes.byref(threshold), fractions.data_ptr()
    _complete(_measure_length()(ctypes.byref(segments), len(fractions), *pointers) - 1)
    return fractions


def _complete(count: int) -> int:
    """What a kernel returned, unless it had no memory."""
    if count < 0:
        raise MemoryError("no memory for the search of symmetries")
    return count

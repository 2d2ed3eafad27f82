"""The kernels of :mod:`plueckernet.estimation.consistency`, ``ransac`` and ``scoring``."""

from __future__ import annotations

import ctypes

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import DOUBLE, FLOAT, INTEGER, POINTER, function

_match_support = function(
    "match_support", INTEGER, POINTER, POINTER, POINTER, DOUBLE, DOUBLE, POINTER, result=INTEGER
)  # fmt: skip
_solve_pairs = function(
    "solve_pairs", POINTER, POINTER, INTEGER, POINTER, DOUBLE, DOUBLE, INTEGER, POINTER, POINTER, result=INTEGER
)
_row_scores = function(
    "row_scores", INTEGER, POINTER, POINTER, INTEGER, POINTER, POINTER, FLOAT, FLOAT, INTEGER, POINTER
)


class _Lines(ctypes.Structure):
    _fields_ = [("direction", POINTER), ("moment", POINTER), ("anchor", POINTER), ("ids", POINTER)]


class MatchedLines:
    """Lines of one map, one a match."""

    def __init__(
        self,
        direction: Float[Tensor, "k 3"],
        moment: Float[Tensor, "k 3"],
        anchor: Float[Tensor, "k 3"],
        ids: Int[Tensor, " k"] | None,
    ) -> None:
        numbers = [x.double().contiguous() for x in (direction, moment, anchor)]
        self._kept = [*numbers, *([] if ids is None else [ids.long().contiguous()])]
        pointers = [x.data_ptr() for x in self._kept]  # that of the ids is NULL where there are none
        self._lines = _Lines(*pointers)
        self.pointer = ctypes.byref(self._lines)

    def __len__(self) -> int:
        return len(self._kept[0])


def match_support(
    source: MatchedLines, target: MatchedLines, cut: Float[Tensor, " k"] | None, min_cosine: float, distance: float
) -> Float[Tensor, "k k"]:
    """For each pair of matches that one motion can satisfy, the number of matches compatible with both."""
    count = len(source)
    support = torch.zeros(count, count)
    cut = None if cut is None else cut.double().contiguous()
    cut_pointer = None if cut is None else cut.data_ptr()
    lines = source.pointer, target.pointer
    if _match_support()(count, *lines, cut_pointer, min_cosine, distance, support.data_ptr()):
        raise MemoryError
    return support


def solved_poses(
    source: MatchedLines, target: MatchedLines, pairs: Int[Tensor, "2 s"], limits: tuple[float, float], directed: bool
) -> tuple[Float[Tensor, "h 3 3"], Float[Tensor, "h 3"]]:
    """Poses of pairs of matches for all sign choices that agree; ``limits`` are an angle and a distance."""
    pairs = pairs.contiguous()
    count = pairs.shape[1]
    rotation, translation = torch.empty(4 * count, 3, 3), torch.empty(4 * count, 3)
    lines, results = (source.pointer, target.pointer), (rotation.data_ptr(), translation.data_ptr())
    written = _solve_pairs()(*lines, count, pairs.data_ptr(), *limits, directed, *results)
    return rotation[:written], translation[:written]


def row_scores(
    poses: tuple[Float[Tensor, "h 3 3"], Float[Tensor, "h 3"]],
    matches: Float[Tensor, "12 k"],
    weight: Float[Tensor, " k"],
    limits: tuple[float, float],
    directed: bool,
) -> Float[Tensor, " h"]:
    """Weighted number of matches that each pose explains; ``limits`` are a distance and an angle.

    ``matches`` has directions and feet of the source, anchors and directions of the target, one a column.
    """
    rotation, translation = (value.float().contiguous() for value in poses)
    matches, weight = matches.float().contiguous(), weight.float().contiguous()
    scores = torch.empty(len(rotation))
    pointers = rotation.data_ptr(), translation.data_ptr()
    columns = weight.shape[0], matches.data_ptr(), weight.data_ptr()
    _row_scores()(len(rotation), *pointers, *columns, *limits, directed, scores.data_ptr())
    return scores

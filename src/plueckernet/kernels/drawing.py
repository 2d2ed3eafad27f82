"""The kernels of :mod:`plueckernet.estimation.hypotheses`, ``ransac`` and ``parallel_hypotheses``."""

from __future__ import annotations

import ctypes

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import DOUBLE, FLOAT, INTEGER, POINTER, function

_draw_weights = function("draw_weights", INTEGER, POINTER, POINTER, INTEGER, POINTER, result=ctypes.c_int)
_positive_places = function("positive_places", INTEGER, POINTER, POINTER, POINTER, result=INTEGER)
_largest_pairs = function(
    "largest_pairs", INTEGER, POINTER, POINTER, INTEGER, INTEGER, POINTER, result=INTEGER
)  # fmt: skip
_seed_pairs = function("seed_pairs", INTEGER, *[POINTER] * 4, FLOAT, INTEGER, POINTER, result=INTEGER)
_poses_in_double = function("poses_in_double", INTEGER, *[POINTER] * 5)
_largest_parallel_length = function("largest_parallel_length", INTEGER, POINTER, POINTER, DOUBLE, result=DOUBLE)


def draw_weights(
    support: Float[Tensor, "k k"], probability: Float[Tensor, " k"], iterations: int
) -> Float[Tensor, "k k"]:
    """The weight of each pair of matches in a random draw, in single precision."""
    support, probability = support.contiguous(), probability.contiguous()
    weights = torch.empty_like(support)
    if _draw_weights()(len(support), support.data_ptr(), probability.data_ptr(), iterations, weights.data_ptr()):
        raise MemoryError
    return weights


def positive_places(matrix: Float[Tensor, "k k"]) -> tuple[Int[Tensor, " p"], Float[Tensor, " p"]]:
    """Flat indices of the positive numbers above the diagonal, and these numbers."""
    matrix, count = matrix.float().contiguous(), len(matrix)
    room = count * (count - 1) // 2 + 1  # one more than there are, where a number that does not count is written
    places, values = torch.empty(room, dtype=torch.int64), torch.empty(room)
    total = _positive_places()(count, matrix.data_ptr(), places.data_ptr(), values.data_ptr())
    return places[:total], values[:total]


def largest_pairs(
    values: Float[Tensor, " p"], places: Int[Tensor, " p"], count: int, wanted: int
) -> Int[Tensor, "2 s"]:  # fmt: skip
    """Row and column, in a matrix of ``count`` columns, of the places of the largest values, the largest first."""
    wanted = min(wanted, len(values))
    pairs = torch.empty(2, wanted, dtype=torch.int64)
    arguments = len(values), values.data_ptr(), places.data_ptr(), count, wanted, pairs.data_ptr()
    if _largest_pairs()(*arguments):
        raise MemoryError
    return pairs


def seed_pairs(
    support: Float[Tensor, "k k"],
    strength: Float[Tensor, " k"],
    directions: tuple[Float[Tensor, "k 3"], Float[Tensor, "k 3"]],
    limit: float,
    partners: int,
) -> Int[Tensor, "2 s"]:
    """Every match with the partners of the largest support times strength, without lines of a larger cosine."""
    support, strength, count = support.float().contiguous(), strength.float().contiguous(), len(support)
    source, target = (direction.double().contiguous() for direction in directions)
    pairs = torch.empty(2 * count * partners, dtype=torch.int64)
    weights, lines = (support.data_ptr(), strength.data_ptr()), (source.data_ptr(), target.data_ptr())
    total = _seed_pairs()(count, *weights, *lines, limit, partners, pairs.data_ptr())
    if total < 0:
        raise MemoryError
    return pairs[: 2 * total].view(2, total)


def poses_in_double(
    order: Int[Tensor, " n"], rotation: Float[Tensor, "h 3 3"], translation: Float[Tensor, "h 3"]
) -> tuple[Float[Tensor, "n 3 3"], Float[Tensor, "n 3"]]:
    """Poses of single precision in an order, with rotations made orthonormal in double precision."""
    order, rotation, translation = order.contiguous(), rotation.contiguous(), translation.contiguous()
    count = len(order)
    results = torch.empty(count, 3, 3, dtype=torch.float64), torch.empty(count, 3, dtype=torch.float64)
    given = order.data_ptr(), rotation.data_ptr(), translation.data_ptr()
    _poses_in_double()(count, *given, results[0].data_ptr(), results[1].data_ptr())
    return results


def largest_parallel_length(
    direction: Float[Tensor, "n 3"], length: Float[Tensor, " n"] | None, min_cosine: float
) -> float:
    """The largest total length of lines that are parallel to one of them."""
    direction = direction.double().contiguous()
    length = None if length is None else length.double().contiguous()
    largest: float = _largest_parallel_length()(
        len(direction), direction.data_ptr(), None if length is None else length.data_ptr(), min_cosine
    )
    if largest < 0:
        raise MemoryError
    return largest

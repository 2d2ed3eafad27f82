"""Numbers as users have them: tensors, NumPy arrays and nested lists, as one kind of tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from plueckernet.errors import InputError, ShapeError

ArrayLike = Any
"""A tensor, a NumPy array, a nested list of numbers, or anything that NumPy makes an array of."""

Shape = tuple[int | str, ...]


def as_floats(values: ArrayLike, name: str, *shapes: Shape) -> Tensor:
    """Values as a floating-point tensor; the last dimensions have to be those of one of the shapes.

    Floating-point tensors and arrays keep their type, everything else becomes float64. A tensor is not copied. A name
    in a shape stands for any size; more dimensions may precede it.

    Raises:
        ShapeError: The shape is another one.
        InputError: The values are no numbers.
    """
    tensor = values if isinstance(values, Tensor) else _from_array(values, name)
    if tensor.dtype.is_complex or tensor.dtype is torch.bool:
        raise InputError(f"{name}: expected real numbers, got {tensor.dtype}")
    if shapes and not any(_fits(tensor.shape, shape) for shape in shapes):
        raise ShapeError(name, shapes[0], tensor.shape, shapes[1:])
    return tensor if tensor.is_floating_point() else tensor.double()


def as_integers(values: ArrayLike, name: str, shape: Shape) -> Tensor:
    """Values as a tensor of 64-bit integers, checked as in :func:`as_floats`."""
    tensor = values if isinstance(values, Tensor) else _from_array(values, name)
    if tensor.dtype.is_complex or (tensor.is_floating_point() and tensor.numel()) or tensor.dtype is torch.bool:
        raise InputError(f"{name}: expected whole numbers, got {tensor.dtype}")
    if not _fits(tensor.shape, shape):
        raise ShapeError(name, shape, tensor.shape)
    return tensor.long()


def _from_array(values: ArrayLike, name: str) -> Tensor:
    """A copy, because a tensor cannot share the memory of a read-only or reversed array."""
    try:
        array = np.array(values)
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected numbers in rows of one length, got a {type(values).__name__}") from None
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name}: expected numbers, got {type(values).__name__} of {array.dtype}")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    wanted = np.int64 if array.dtype.kind in "iu" else array.dtype.newbyteorder("=")
    return torch.from_numpy(np.ascontiguousarray(array, dtype=wanted).reshape(array.shape))


def _fits(actual: tuple[int, ...], shape: Shape) -> bool:
    if len(actual) < len(shape):
        return False
    last = actual[len(actual) - len(shape) :]
    return all(isinstance(wanted, str) or wanted == size for wanted, size in zip(shape, last, strict=True))

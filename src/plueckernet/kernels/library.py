"""The compiled functions, if there is a library of the present sources."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from plueckernet.kernels.building import library_path, variants

SWITCH = "PLUECKERNET_KERNELS"  # environment variable; "off": NumPy and PyTorch compute everything
POINTER, INTEGER, DOUBLE, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_float


@cache
def _library() -> ctypes.CDLL | None:
    """The fastest library that this CPU can run."""
    if os.environ.get(SWITCH, "").lower() == "off":
        return None
    has_avx2 = torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "NO AVX")
    for variant in reversed(variants()):
        path = library_path(variant)
        if path.exists() and (has_avx2 or not variant):
            return ctypes.CDLL(str(path))
    return None


def compiled(*tensors: torch.Tensor) -> bool:
    """Whether kernels can be used on these tensors: there are kernels, and the tensors are on the CPU."""
    return _library() is not None and all(tensor.device.type == "cpu" for tensor in tensors)


def function(name: str, *arguments: Any, result: Any = None) -> Callable[[], Callable[..., Any]]:
    """What gives the function of that name, when it is first called; only where :func:`compiled` says so."""

    @cache
    def loaded() -> Callable[..., Any]:
        pointer = getattr(_library(), name)
        pointer.argtypes, pointer.restype = arguments, result
        return pointer

    return loaded

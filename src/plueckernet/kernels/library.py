"""The compiled functions, if there is a library of the present sources."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from plueckernet.kernels.building import library_path, variants

if TYPE_CHECKING:
    from torch import Tensor

SWITCH = (
    "PLUECKERNET_KERNELS"  # environment variable; "off": NumPy and PyTorch compute everything; or the file of a library
)
POINTER, INTEGER, DOUBLE, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_float


@cache
def _library() -> ctypes.CDLL | None:
    """The fastest library that this CPU can run."""
    chosen = os.environ.get(SWITCH, "")
    general, *faster = (library_path(variant) for variant in variants())
    if chosen.lower() == "off" or not (chosen or general.exists()):
        return None
    if chosen:
        return ctypes.CDLL(chosen)
    library = ctypes.CDLL(str(general))
    runs = library.has_avx2(), library.has_avx512()
    runnable = [path for path, can_run in zip(faster, runs, strict=False) if can_run and path.exists()]
    return ctypes.CDLL(str(runnable[-1])) if runnable else library


def kind() -> str:
    """Of the kernels: "avx512", "avx2", "generic" or "none"."""
    loaded = _library()
    return "none" if loaded is None else next((k for k in ("avx512", "avx2") if f"-{k}" in loaded._name), "generic")


def compiled(*tensors: Tensor) -> bool:
    """Whether kernels can be used on these tensors: there are kernels, and the tensors are on the CPU."""
    return _library() is not None and all(tensor.is_cpu for tensor in tensors)


def function(name: str, *arguments: Any, result: Any = None) -> Callable[[], Callable[..., Any]]:
    """What gives the function of that name, when it is first called; only where :func:`compiled` says so."""

    @cache
    def loaded() -> Callable[..., Any]:
        pointer = getattr(_library(), name)
        pointer.argtypes, pointer.restype = arguments, result
        return pointer

    return loaded

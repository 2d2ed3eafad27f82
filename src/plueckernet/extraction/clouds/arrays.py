"""Clouds as plain arrays: NPY, and the `.bin` of KITTI."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

from plueckernet.extraction.clouds.chunks import Chunks
from plueckernet.io.source import Source

_MAGIC = b"\x93NUMPY"
_MAX_REFLECTANCE = 255.0


def recognises_npy(source: Source) -> bool:
    """Whether the file starts as NPY does."""
    return source.head.startswith(_MAGIC)


def read_npy(source: Source, size: int) -> Chunks:
    """An array of three or more columns; the first three are coordinates."""
    values = mapped(source)
    if values.ndim != 2 or values.shape[1] < 3:
        raise source.error(f"expected numbers of shape (n, 3) or wider, found {values.dtype} {values.shape}")
    yield from _chunks(values, size)


def mapped(source: Source) -> Shaped[np.ndarray, "..."]:
    """The array of numbers of a file, which is read where it is used."""
    try:
        values = np.load(source.path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # Python's own parser reads the header and raises many kinds of errors if it is damaged
        raise source.error(f"not an array of numbers: {error}") from error
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu":
        raise source.error("expected an array of numbers")
    return values


def read_bin(source: Source, size: int) -> Chunks:
    """Little endian float32 rows: x, y, z and reflectance as in KITTI, or only x, y, z."""
    length = source.path.stat().st_size
    width = next((width for width in (4, 3) if length % (4 * width) == 0), None)
    if width is None or length == 0:
        raise source.error(f"{length} bytes are not rows of 3 or 4 float32 numbers")
    values = np.memmap(source.path, "<f4", "r")
    if width == 4 and length % 12 == 0:
        last = values[3::4]
        width = 4 if (last >= 0).all() and (last <= _MAX_REFLECTANCE).all() else 3
    yield from _chunks(values.reshape(-1, width), size)


def _chunks(values: Shaped[np.ndarray, "n k"], size: int) -> Chunks:
    for start in range(0, len(values), size):
        yield np.array(values[start : start + size, :3], np.float64)

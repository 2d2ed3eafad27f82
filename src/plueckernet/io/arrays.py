"""NumPy files: `.npy` with segments, `.npz` with segments or infinite lines.

Segments are an array `(n, 6)` or `(n, 2, 3)`. In an archive its name is `endpoints`, `segments` or `lines`; any name is
accepted if no other array has such a shape. Infinite lines are the arrays `direction` and `moment`, `(n, 3)` each.
The arrays `ids`, `sigma` and `views` have a number for each line.
Pickled objects are never loaded.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Shaped
from torch import Tensor

from plueckernet.geometry.lines import LineSet
from plueckernet.io.atomic import atomic_write_bytes
from plueckernet.io.source import RawLines, Source

NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK\x03\x04"
_SEGMENT_NAMES = ("endpoints", "segments", "lines")
# What is stored for each line beside its coordinates: kinds of numbers that are read, the kind kept, and its words.
_PER_LINE: dict[str, tuple[str, type[np.generic], str]] = {
    "ids": ("iu", np.int64, "integers"),
    "sigma": ("fiu", np.float64, "numbers"),
    "views": ("iu", np.int64, "integers"),
}


def recognises_npy(source: Source) -> bool:
    """Whether the file starts with the magic bytes of `.npy`."""
    return source.head.startswith(NPY_MAGIC)


def recognises_npz(source: Source) -> bool:
    """Whether the file starts with the magic bytes of a zip archive."""
    return source.head.startswith(ZIP_MAGIC)


def read_npy(source: Source) -> RawLines:
    """Read one array of segments."""
    if not recognises_npy(source):
        raise source.error("not a NumPy array: the first bytes are not those of .npy")
    try:
        # Memory-mapped, so a header that declares more than the file contains costs no memory.
        values = np.load(source.path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # Python's own parser reads the header and raises many kinds of errors if it is damaged
        raise source.error(f"damaged or unsupported .npy: {error}") from error
    return _segments(values, "the array", source)


def read_npz(source: Source) -> RawLines:
    """Read an archive of named arrays."""
    try:
        with source.path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files if not name.endswith("/")}
    except Exception as error:
        raise source.error(f"damaged or unsupported .npz: {error}") from error
    raw = _infinite(arrays, source) or _named_segments(arrays, source)
    count = len(raw.endpoints if raw.endpoints is not None else raw.pluecker)  # type: ignore[arg-type]
    for name, (kinds, kind, words) in _PER_LINE.items():
        values = arrays.get(name)
        if values is None:
            continue
        if values.shape != (count,) or values.dtype.kind not in kinds:
            raise source.error(f"{name}: expected {count} {words}, found {values.dtype} of shape {values.shape}")
        raw = replace(raw, **{name: values.astype(kind)})  # type: ignore[arg-type]
    if raw.sigma is not None and not (np.isfinite(raw.sigma) & (raw.sigma > 0)).all():
        raise source.error("sigma: expected positive numbers")
    return raw


def write_npy(path: Path, endpoints: Float64[np.ndarray, "n 2 3"]) -> None:
    """Write the segments as an `(n, 2, 3)` array, which LIMAP also reads."""
    with atomic_write_bytes(path) as handle:
        np.save(handle, endpoints, allow_pickle=False)


def write_npz(path: Path, lines: LineSet) -> None:
    """Write all that the lines have, as named arrays."""
    names = ("direction", "moment") if lines.endpoints is None else ("endpoints",)
    arrays = {name: _array(getattr(lines, name), np.float64) for name in names}
    for name, (_, kind, _words) in _PER_LINE.items():
        if getattr(lines, name) is not None:
            arrays[name] = _array(getattr(lines, name), kind)
    with atomic_write_bytes(path) as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def _array(tensor: Tensor, kind: type[np.generic]) -> Shaped[np.ndarray, "*shape"]:
    return tensor.detach().cpu().numpy().astype(kind)


def _infinite(arrays: dict[str, Shaped[np.ndarray, "*shape"]], source: Source) -> RawLines | None:
    if "direction" not in arrays or "moment" not in arrays or "endpoints" in arrays:
        return None
    columns = [_floats(arrays[name], name, source) for name in ("moment", "direction")]
    if any(column.shape != (len(columns[0]), 3) for column in columns):
        shapes = " and ".join(str(column.shape) for column in columns)
        raise source.error(f"moment and direction: expected shape (n, 3) each, found {shapes}")
    return RawLines(pluecker=np.concatenate(columns, axis=1))


def _named_segments(arrays: dict[str, Shaped[np.ndarray, "*shape"]], source: Source) -> RawLines:
    for name in _SEGMENT_NAMES:
        if name in arrays:
            return _segments(arrays[name], name, source)
    candidates = [name for name, values in arrays.items() if _is_segments(values)]
    if len(candidates) == 1:
        return _segments(arrays[candidates[0]], candidates[0], source)
    listing = ", ".join(f"{name} {values.shape}" for name, values in arrays.items()) or "nothing"
    raise source.error(f"expected an array `endpoints`, or `direction` and `moment`; found {listing}")


def _is_segments(values: Shaped[np.ndarray, "*shape"]) -> bool:
    return values.shape[1:] in ((6,), (2, 3))


def _segments(values: Shaped[np.ndarray, "*shape"], name: str, source: Source) -> RawLines:
    if not _is_segments(values):
        raise source.error(f"{name}: expected shape (n, 6) or (n, 2, 3), found {values.shape}")
    endpoints = _floats(values, name, source).reshape(-1, 2, 3)
    notes = () if values.dtype.itemsize >= 8 else (f"stored as {values.dtype}",)
    return RawLines(endpoints, notes=notes)


def _floats(values: Shaped[np.ndarray, "*shape"], name: str, source: Source) -> Float64[np.ndarray, "*shape"]:
    if values.dtype.kind not in "fiu":
        raise source.error(f"{name}: expected numbers, found {values.dtype}")
    return np.array(values, dtype=np.float64, order="C")

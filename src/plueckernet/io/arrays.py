"""NumPy files: `.npy` with segments, `.npz` with segments or infinite lines.

Segments are an array `(n, 6)` or `(n, 2, 3)`. In an archive its name is `endpoints`, `segments` or `lines`; any name is
accepted if no other array has such a shape. Infinite lines are the arrays `direction` and `moment`, `(n, 3)` each.
The arrays `ids`, `sigma` and `views` have a number for each line.
Pickled objects are never loaded.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Shaped
from torch import Tensor

from plueckernet.errors import FormatError
from plueckernet.geometry.lines import LineSet
from plueckernet.io.atomic import atomic_write_bytes
from plueckernet.io.source import POINT_CLOUD, POINT_COLUMNS, RawLines, Source

NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK\x03\x04"
_SEGMENT_NAMES = ("endpoints", "segments", "lines")
_SEGMENT_SHAPES = ((6,), (2, 3))
_BYTES_PER_LINE = 48  # of six float64
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
    """Read an archive of named arrays; only those that are needed are decompressed."""
    try:
        with source.path.open("rb") as handle, zipfile.ZipFile(handle) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
            members = {entry.filename.removesuffix(".npy"): _Member.of(archive, entry, source) for entry in entries}
            raw = _infinite(members, source) or _named_segments(members, source)
            arrays = {name: members[name].load() for name in _PER_LINE if name in members}
    except FormatError:
        raise
    except Exception as error:
        raise source.error(f"damaged or unsupported .npz: {error}") from error
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


@dataclass(frozen=True, eq=False)
class _Member:
    """An array of an archive, of which only the header has been read."""

    archive: zipfile.ZipFile
    entry: zipfile.ZipInfo
    shape: tuple[int, ...]
    itemsize: int
    source: Source

    @staticmethod
    def of(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, source: Source) -> _Member:
        with archive.open(entry) as stream:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, kind = read(stream)
        return _Member(archive, entry, shape, kind.itemsize, source)

    def load(self) -> Shaped[np.ndarray, "*shape"]:
        """The values; a compressed array is bounded, because its size says nothing about that of the file."""
        wanted = prod(self.shape) * self.itemsize
        if self.entry.file_size < wanted:
            raise self.source.error(f"{self.entry.filename}: too short for an array of shape {self.shape}")
        if wanted > self.source.path.stat().st_size:
            self.source.check_count(-(-wanted // _BYTES_PER_LINE), "lines in a compressed array")
        with self.archive.open(self.entry) as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


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


def _infinite(members: dict[str, _Member], source: Source) -> RawLines | None:
    if "direction" not in members or "moment" not in members or "endpoints" in members:
        return None
    pair = [members[name] for name in ("moment", "direction")]
    if any(member.shape != (*pair[0].shape[:1], 3) for member in pair):
        shapes = " and ".join(str(member.shape) for member in pair)
        raise source.error(f"moment and direction: expected shape (n, 3) each, found {shapes}")
    columns = [_floats(members[name].load(), name, source) for name in ("moment", "direction")]
    return RawLines(pluecker=np.concatenate(columns, axis=1))


def _named_segments(members: dict[str, _Member], source: Source) -> RawLines:
    for name in _SEGMENT_NAMES:
        if name in members:
            _check_shape(members[name].shape, name, source)
            return _segments(members[name].load(), name, source)
    candidates = [name for name, member in members.items() if member.shape[1:] in _SEGMENT_SHAPES]
    if len(candidates) == 1:
        return _segments(members[candidates[0]].load(), candidates[0], source)
    listing = ", ".join(f"{name} {member.shape}" for name, member in islice(members.items(), 20)) or "nothing"
    raise source.error(f"expected an array `endpoints`, or `direction` and `moment`; found {listing}")


def _check_shape(shape: tuple[int, ...], name: str, source: Source) -> None:
    if shape[1:] not in _SEGMENT_SHAPES:
        cloud = f" ({POINT_CLOUD})" if len(shape) == 2 and shape[1] in POINT_COLUMNS else ""
        raise source.error(f"{name}: expected shape (n, 6) or (n, 2, 3), found {shape}{cloud}")


def _segments(values: Shaped[np.ndarray, "*shape"], name: str, source: Source) -> RawLines:
    _check_shape(values.shape, name, source)
    endpoints = _floats(values, name, source).reshape(-1, 2, 3)
    notes = () if values.dtype.itemsize >= 8 else (f"stored as {values.dtype}",)
    return RawLines(endpoints, notes=notes)


def _floats(values: Shaped[np.ndarray, "*shape"], name: str, source: Source) -> Float64[np.ndarray, "*shape"]:
    if values.dtype.kind not in "fiu":
        raise source.error(f"{name}: expected numbers, found {values.dtype}")
    return np.array(values, dtype=np.float64, order="C")

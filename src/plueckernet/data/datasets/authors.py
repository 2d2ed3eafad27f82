"""The pairs that the paper's authors published: folders ``DATASET_train`` and ``DATASET_valid`` of five pickles.

``plucker1.pkl`` and ``plucker2.pkl`` are lists of ``(n, 6)`` arrays, moment first; ``matches.pkl`` of ``(2, k)`` row
numbers; ``R_gt.pkl`` and ``t_gt.pkl`` lead from the first set to the second. A large one is in parts,
``plucker1_part1.pkl`` and so on. They are read by :mod:`plueckernet.data.datasets.pickles`, which runs nothing that is
in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from plueckernet.data.datasets.frames import rigid
from plueckernet.data.datasets.pickles import Array, read_arrays
from plueckernet.data.protocols import LinePair
from plueckernet.errors import FormatError
from plueckernet.geometry import LineSet

_PARTS = ("plucker1", "plucker2", "matches", "R_gt", "t_gt")
_SPLITS = {"train": "train", "valid": "test", "test": "test"}  # by the end of the folder's name


@dataclass(frozen=True, eq=False)
class AuthorsPair:
    """One of the published pairs."""

    name: str
    split: str  # train or test
    pair: LinePair


def authors_folders(folder: Path) -> list[Path]:
    """The folder itself if it has the pickles, or those in it that have."""
    found = [path for path in (folder, *sorted(folder.iterdir())) if path.is_dir() and _files(path, "plucker1")]
    if not found:
        raise FormatError(folder, "no plucker1.pkl in it, nor in the folders in it")
    return found


def read_authors_pairs(folder: Path) -> list[AuthorsPair]:
    """All pairs of one folder."""
    parts = {name: _read(folder, name) for name in _PARTS}
    counts = {name: len(arrays) for name, arrays in parts.items()}
    if len(set(counts.values())) != 1:
        raise FormatError(folder, f"expected as many of each: {counts}")
    split = _SPLITS.get(folder.name.rpartition("_")[2], "test")
    return [
        AuthorsPair(f"{folder.name}_{place:05d}", split, _pair(row, folder, place))
        for place, row in enumerate(zip(*(parts[name] for name in _PARTS), strict=True))
    ]


def _files(folder: Path, name: str) -> list[Path]:
    return sorted([*folder.glob(f"{name}.pkl"), *folder.glob(f"{name}_part*.pkl")])


def _read(folder: Path, name: str) -> list[Array]:
    files = _files(folder, name)
    if not files:
        raise FormatError(folder / f"{name}.pkl", "no such file")
    return [array for file in files for array in read_arrays(file)]


def _pair(row: tuple[Array, ...], folder: Path, place: int) -> LinePair:
    first, second, matches, rotation, translation = row
    source, target = (
        _lines(array, folder / f"{name}.pkl", place) for array, name in ((first, "plucker1"), (second, "plucker2"))
    )
    if matches.ndim != 2 or matches.shape[0] != 2 or matches.dtype.kind not in "iu":
        raise FormatError(folder / "matches.pkl", f"pair {place}: expected row numbers (2, k), found {matches.shape}")
    rows = matches.T.astype(np.int64)
    if len(rows) and not ((rows >= 0).all() and (rows < [len(source), len(target)]).all()):
        raise FormatError(folder / "matches.pkl", f"pair {place}: row numbers beyond the lines")
    if rotation.shape != (3, 3) or translation.size != 3:
        raise FormatError(folder / "R_gt.pkl", f"pair {place}: expected (3, 3) and (3, 1)")
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation, translation.ravel()
    return LinePair(source, target, rigid(matrix, folder / "R_gt.pkl"), torch.from_numpy(np.ascontiguousarray(rows)))


def _lines(array: Array, path: Path, place: int) -> LineSet:
    if array.ndim != 2 or array.shape[1] != 6:
        raise FormatError(path, f"pair {place}: expected (n, 6), found {array.shape}")
    values = array.astype(np.float64)
    off_unit = [np.abs(np.linalg.norm(part, axis=1) - 1) for part in (values[:, :3], values[:, 3:])]
    if len(values) and off_unit[1].max() > 0.01:
        order = "the direction stands first" if off_unit[0].max() < 0.01 else "no direction is of unit length"
        raise FormatError(path, f"pair {place}: expected (moment, direction), {order}")
    return LineSet.from_pluecker(torch.from_numpy(values))

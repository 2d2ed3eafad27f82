"""The pairs published by the authors of the paper: folders ``DATASET_train`` and ``DATASET_valid`` of five pickles.

``plucker1.pkl`` and ``plucker2.pkl`` are lists of ``(n, 6)`` arrays, moment first. ``matches.pkl`` is a list of
``(2, k)`` row numbers. ``R_gt.pkl`` and ``t_gt.pkl`` are the poses from the first set to the second. Large lists are
split into ``plucker1_part1.pkl`` and so on. :mod:`plueckernet.data.datasets.pickles` reads them without executing them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from plueckernet.data.datasets.frames import rigid
from plueckernet.data.datasets.pickles import NumericArray, read_arrays
from plueckernet.data.protocols import LinePair
from plueckernet.errors import FormatError
from plueckernet.geometry import LineSet

_FILES = ("plucker1", "plucker2", "matches", "R_gt", "t_gt")
_SPLITS = {"train": "train", "valid": "test", "test": "test"}  # by the end of the folder's name


@dataclass(frozen=True, eq=False)
class AuthorsPair:
    """One of the published pairs."""

    name: str
    split: str  # train or test
    pair: LinePair


def authors_folders(folder: Path, dataset: str | None = None) -> list[Path]:
    """The folders with the pickles of one dataset, such as ``structured3D``: ``folder`` itself or subfolders.

    Without ``dataset`` there must be one only, because scenes of different datasets are not to be mixed.
    """
    folders = [path for path in (folder, *sorted(folder.iterdir())) if path.is_dir() and _files(path, "plucker1")]
    if not folders:
        raise FormatError(folder, "neither the folder nor its subfolders have plucker1.pkl")
    names = sorted({_dataset(path) for path in folders})
    if dataset is None and len(names) > 1:
        choices = " or ".join(f"authors-{name}" for name in names)
        raise FormatError(folder, f"pairs of {len(names)} datasets, which are prepared apart: prepare {choices}")
    chosen = [path for path in folders if dataset in (None, _dataset(path))]
    if not chosen:
        raise FormatError(
            folder, f"no folder {dataset}_train or {dataset}_valid; there are pairs of {', '.join(names)}"
        )
    return chosen


def _dataset(folder: Path) -> str:
    """``structured3d`` of the folder ``structured3D_train``."""
    stem, _, split = folder.name.rpartition("_")
    return (stem if split in _SPLITS else folder.name).lower()


def read_authors_pairs(folder: Path) -> list[AuthorsPair]:
    """All pairs of one folder."""
    lists = {name: _read(folder, name) for name in _FILES}
    counts = {name: len(arrays) for name, arrays in lists.items()}
    if len(set(counts.values())) != 1:
        raise FormatError(folder, f"expected lists of equal length, found {counts}")
    split = _SPLITS.get(folder.name.rpartition("_")[2], "test")
    return [
        AuthorsPair(f"{folder.name}_{number:05d}", split, _pair(row, folder, number))
        for number, row in enumerate(zip(*(lists[name] for name in _FILES), strict=True))
    ]


def _files(folder: Path, name: str) -> list[Path]:
    return sorted([*folder.glob(f"{name}.pkl"), *folder.glob(f"{name}_part*.pkl")])


def _read(folder: Path, name: str) -> list[NumericArray]:
    files = _files(folder, name)
    if not files:
        raise FormatError(folder / f"{name}.pkl", "no such file")
    return [array for file in files for array in read_arrays(file)]


def _pair(row: tuple[NumericArray, ...], folder: Path, number: int) -> LinePair:
    first, second, matches, rotation, translation = row
    source, target = (
        _lines(array, folder / f"{name}.pkl", number) for array, name in ((first, "plucker1"), (second, "plucker2"))
    )
    if matches.ndim != 2 or matches.shape[0] != 2 or matches.dtype.kind not in "iu":
        raise FormatError(folder / "matches.pkl", f"pair {number}: expected row numbers (2, k), found {matches.shape}")
    rows = matches.T.astype(np.int64)
    if len(rows) and not ((rows >= 0).all() and (rows < [len(source), len(target)]).all()):
        raise FormatError(folder / "matches.pkl", f"pair {number}: row numbers out of range")
    if rotation.shape != (3, 3) or translation.size != 3:
        raise FormatError(folder / "R_gt.pkl", f"pair {number}: expected (3, 3) and (3, 1)")
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation, translation.ravel()
    return LinePair(source, target, rigid(matrix, folder / "R_gt.pkl"), torch.from_numpy(np.ascontiguousarray(rows)))


def _lines(array: NumericArray, path: Path, number: int) -> LineSet:
    if array.ndim != 2 or array.shape[1] != 6:
        raise FormatError(path, f"pair {number}: expected (n, 6), found {array.shape}")
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise FormatError(path, f"pair {number}: a number is not finite")
    off_unit = [np.abs(np.linalg.norm(vectors, axis=1) - 1) for vectors in (values[:, :3], values[:, 3:])]
    if len(values) and off_unit[1].max() > 0.01:
        order = (
            "found (direction, moment)" if off_unit[0].max() < 0.01 else "found directions that are not of unit length"
        )
        raise FormatError(path, f"pair {number}: expected (moment, direction), {order}")
    return LineSet.from_pluecker(torch.from_numpy(values))

"""Semantic3D, semantic-8: terrestrial scans as text, ``x y z intensity r g b`` in each row.

The files are named ``STATION_xyz_intensity_rgb.txt``; labels, in files of their own, are not needed for lines.
"""

from __future__ import annotations

from pathlib import Path

from plueckernet.errors import FormatError

_SUFFIX = "_xyz_intensity_rgb.txt"
CELL = 10.0  # m, as in the paper
FEWEST = 20  # lines of a cell that is kept


def semantic3d_clouds(folder: Path) -> dict[str, Path]:
    """The clouds under a folder by station, in the order of their names."""
    found = {path.name.removesuffix(_SUFFIX): path for path in sorted(folder.rglob(f"*{_SUFFIX}"))}
    if not found:
        packed = len(list(folder.rglob("*.7z")))
        hint = f"; unpack its {packed} .7z files first" if packed else ""
        raise FormatError(folder, f"no *{_SUFFIX} in it{hint}")
    return found

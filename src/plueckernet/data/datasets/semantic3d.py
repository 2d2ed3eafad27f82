"""Semantic3D, semantic-8: terrestrial scans as text with rows ``x y z intensity r g b``.

Twelve of the thirty files are named ``STATION_xyz_intensity_rgb.txt``, the others ``STATION_intensity_rgb.txt``. The
separate label files are not used.
"""

from __future__ import annotations

from pathlib import Path

from plueckernet.errors import FormatError

_SUFFIX = "_intensity_rgb.txt"
_COORDINATES = "_xyz"  # in some names, before the suffix
CELL_SIZE = 10.0  # m, as in the paper
MIN_CELL_LINES = 20  # cells with fewer lines are dropped
PUBLISHED = (  # files of both halves of semantic-8, without .txt
    "bildstein_station1_xyz_intensity_rgb",
    "bildstein_station3_xyz_intensity_rgb",
    "bildstein_station5_xyz_intensity_rgb",
    "birdfountain_station1_xyz_intensity_rgb",
    "castleblatten_station1_intensity_rgb",
    "castleblatten_station5_xyz_intensity_rgb",
    "domfountain_station1_xyz_intensity_rgb",
    "domfountain_station2_xyz_intensity_rgb",
    "domfountain_station3_xyz_intensity_rgb",
    "marketplacefeldkirch_station1_intensity_rgb",
    "marketplacefeldkirch_station4_intensity_rgb",
    "marketplacefeldkirch_station7_intensity_rgb",
    "neugasse_station1_xyz_intensity_rgb",
    "sg27_station1_intensity_rgb",
    "sg27_station2_intensity_rgb",
    "sg27_station3_intensity_rgb",
    "sg27_station4_intensity_rgb",
    "sg27_station5_intensity_rgb",
    "sg27_station6_intensity_rgb",
    "sg27_station8_intensity_rgb",
    "sg27_station9_intensity_rgb",
    "sg27_station10_intensity_rgb",
    "sg28_station2_intensity_rgb",
    "sg28_station4_intensity_rgb",
    "sg28_station5_xyz_intensity_rgb",
    "stgallencathedral_station1_intensity_rgb",
    "stgallencathedral_station3_intensity_rgb",
    "stgallencathedral_station6_intensity_rgb",
    "untermaederbrunnen_station1_xyz_intensity_rgb",
    "untermaederbrunnen_station3_xyz_intensity_rgb",
)


def semantic3d_clouds(folder: Path) -> dict[str, Path]:
    """The clouds under a folder by station, in alphabetical order."""
    clouds = {
        path.name.removesuffix(_SUFFIX).removesuffix(_COORDINATES): path for path in sorted(folder.rglob(f"*{_SUFFIX}"))
    }
    if not clouds:
        packed = len(list(folder.rglob("*.7z")))
        hint = f"; unpack its {packed} .7z files first" if packed else ""
        raise FormatError(folder, f"the folder has no *{_SUFFIX}{hint}")
    return clouds


def semantic3d_census(folder: Path) -> str:
    """How many of the published scans are there, and which are missing."""
    present = {path.stem for path in semantic3d_clouds(folder).values()}
    missing = [name for name in PUBLISHED if name not in present]
    text = f"found {len(PUBLISHED) - len(missing)} of {len(PUBLISHED)} published scans"
    return f"{text}; missing: {', '.join(f'{name}.txt' for name in missing)}" if missing else text

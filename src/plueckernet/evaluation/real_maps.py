"""Line maps of real places that pairs are cut from: their units, their vertical axes, and which show the same place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from plueckernet.evaluation.crop_pairs import MIN_LINES, segments
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.io import read_lines


@dataclass(frozen=True)
class MapFrame:
    """Unit and vertical axis, which the files of maps do not state."""

    metres: float = 1.0  # of one unit
    up: int = 2  # axis that is about vertical
    reason: str = "metres, z up"


# By name of the file or its folder; all others are in metres and z is up. Photos alone give no scale.
FRAMES = {
    "line3dpp": MapFrame(10.0, 1, "rows of windows 0.35 apart; storeys of 3.5 m"),
    "20_sub_crop": MapFrame(2.0, 1, "house 4.5 wide and as high; 9 m"),
    "3dlines": MapFrame(3.0, 1, "rows of windows 1 apart; storeys of 3 m"),
    "Barn+haoyu_cut6": MapFrame(1.5, 1, "barn with an upper floor, 5 high; 7.5 m"),
    "DJI_cut": MapFrame(2.0, 1, "museum wing 12 long with a glass grid of 0.7; panes of 1.4 m"),
    "line_segments_3d_clustered_allpics_11_5_18": MapFrame(6.0, 1, "tower blocks, rows of windows 0.5 apart; 3 m"),
    "timber_house_cut": MapFrame(8.0, 1, "two-storey house with gables, 1.4 long; 11 m"),
    "neat_dtu24_line3dpp": MapFrame(0.05, 2, "models of houses in millimetres, at 1 to 50"),
    "neat_dtu24_neat": MapFrame(11.2, 2, "the same scene, one unit is 223.5 mm"),
    "neat_dtu105_line3dpp": MapFrame(0.05, 2, "objects in millimetres, at 1 to 50"),
    "icl_office": MapFrame(1.0, 1, "metres, y up"),
}
# Maps of one place, by name of the file or its folder: what is measured on one of them leaves out the others, too.
PLACES = {
    "line3dpp": "line3dpp",
    "dtu24": "dtu24",
    "fzk_house": "fzk",
    "AC20-FZK-Haus_edges": "fzk",
    "icl_office": "icl_office",
}
ROOFS = "roofs"  # folder of wireframes that are too small to crop


def read_maps(folder: Path) -> dict[str, LineSet]:
    """Every map below the folder that has more lines than two crops need, in metres, z up, by name."""
    return {name: lines for name, lines in _all_maps(folder).items() if len(lines) >= 4 * MIN_LINES}


def read_roofs(folders: Iterable[Path]) -> dict[str, LineSet]:
    """The maps in folders named roofs, of any size, by name."""
    return {
        name: lines
        for folder in folders
        for roofs in sorted(folder.rglob(ROOFS))
        for name, lines in _all_maps(roofs).items()
    }


def place_of(name: str) -> str:
    """The place that a map ``folder/file`` shows."""
    folder, _, stem = name.rpartition("/")
    return PLACES.get(stem) or PLACES.get(folder) or name


def place_of_file(stem: str, places: Iterable[str]) -> str | None:
    """The place of these that a map of that file name shows, which may be cut short; None if there is none."""
    known = {place.rpartition("/")[2]: place for place in places}
    known |= {name: place for name, place in PLACES.items() if place in known.values()}
    return next((place for name, place in known.items() if name.startswith(stem)), None)


def _all_maps(folder: Path) -> dict[str, LineSet]:
    maps = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        lines = read_lines(path)
        if lines.endpoints is None:
            continue
        maps[f"{path.parent.name}/{path.stem}"] = _upright(lines, _frame(path))
    return maps


def _frame(path: Path) -> MapFrame:
    return FRAMES.get(path.stem, FRAMES.get(path.parent.name, MapFrame()))


def _upright(lines: LineSet, frame: MapFrame) -> LineSet:
    """In metres about the centre, z up."""
    lines = Similarity.from_pose(Pose.identity(), frame.metres) @ lines.shifted(lines.centre())
    return LineSet.from_segments(segments(lines)[..., [(frame.up + 1) % 3, (frame.up + 2) % 3, frame.up]])

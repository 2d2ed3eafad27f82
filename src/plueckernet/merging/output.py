"""The folder of an alignment: align.json, and for each group its merged map, origins of lines, graph and world pose."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from plueckernet.errors import DegenerateError, InputError, printable
from plueckernet.io.atomic import atomic_write
from plueckernet.io.writing import write_lines
from plueckernet.merging.alignment import AlignedGroup, Alignment
from plueckernet.merging.control import MIN_POINTS, ControlPoint, WorldTie, fit_world
from plueckernet.merging.exports import g2o_text, to_gtsam
from plueckernet.merging.fusion import MergedMap, merge_group

_GROUP_FILES = (
    "graph.g2o", "graph.gtsam", "values.gtsam", "merged.npz", "merged.obj", "merged_world.npz", "provenance.csv",
)  # fmt: skip


def georeference(alignment: Alignment, points: Sequence[ControlPoint]) -> dict[int, WorldTie]:
    """The pose in the world of each group that has control points, by its number.

    Points without a map are in the frame of the largest group. Points of unknown maps raise, and groups with too few
    points or with points on one line.
    """
    places = {name: number for number, group in enumerate(alignment.groups) for name in group.poses}
    points_of: dict[int, list[ControlPoint]] = {}
    for point in with_full_names(points, list(places)):
        points_of.setdefault(0 if point.map is None else places[point.map], []).append(point)
    ties = {}
    for number, chosen in sorted(points_of.items()):
        try:
            ties[number] = fit_world(chosen, alignment.groups[number].poses, alignment.rigid)
        except (InputError, DegenerateError) as error:
            raise type(error)(f"group {number + 1}: {error}") from error
    return ties


def with_full_names(points: Sequence[ControlPoint], names: Sequence[str]) -> list[ControlPoint]:
    """The points with their maps as the alignment names them; fewer than three points and unknown maps raise."""
    if 0 < len(points) < MIN_POINTS:
        raise InputError(f"control points: at least three are needed, there are {len(points)}")
    return [point if point.map is None else replace(point, map=_full_name(point, names)) for point in points]


def write_alignment(
    folder: str | Path, alignment: Alignment, ties: Mapping[int, WorldTie] | None = None, gtsam: bool = False
) -> dict[int, MergedMap]:
    """Write all files, in place of those of an earlier alignment; returns the merged map of each group that has one."""
    folder, ties = Path(folder), ties or {}
    _remove_groups(folder)
    merged = {}
    document = alignment.to_dict()
    for number, group in enumerate(alignment.groups):
        if number in ties:
            document["groups"][number]["world"] = ties[number].to_dict()
        if len(group.poses) < 2 and number not in ties:
            continue
        place = folder / f"group_{number + 1}"
        place.mkdir(parents=True, exist_ok=True)
        _write_graph(place, alignment, group, gtsam)
        if all(alignment.maps[name].endpoints is not None for name in group.maps):
            merged[number] = merge_group(alignment, group)
            _write_merged(place, merged[number], ties.get(number))
            document["groups"][number]["merged"] = f"{place.name}/merged.npz"
    with atomic_write(folder / "align.json") as stream:
        stream.write(json.dumps(document, indent=1, allow_nan=False) + "\n")
    return merged


def _remove_groups(folder: Path) -> None:
    """Remove what an earlier alignment wrote of its groups, which may be others; files of others stay."""
    for place in folder.glob("group_[0-9]*"):
        if place.is_dir():
            for name in _GROUP_FILES:
                (place / name).unlink(missing_ok=True)
            if not any(place.iterdir()):
                place.rmdir()


def _write_graph(place: Path, alignment: Alignment, group: AlignedGroup, gtsam: bool) -> None:
    if alignment.rigid:
        with atomic_write(place / "graph.g2o") as stream:
            stream.write(g2o_text(alignment, group))
    if gtsam:
        graph, values = to_gtsam(alignment, group)
        for name, content in (("graph.gtsam", graph), ("values.gtsam", values)):
            with atomic_write(place / name) as stream:
                stream.write(content.serialize())


def _write_merged(place: Path, merged: MergedMap, tie: WorldTie | None) -> None:
    write_lines(place / "merged.npz", merged.lines)
    write_lines(place / "merged.obj", merged.lines)
    if tie is not None:
        write_lines(place / "merged_world.npz", tie.world_T_group @ merged.lines)
    with atomic_write(place / "provenance.csv") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["line", "map", "line_of_map"])
        writer.writerows((line, printable(merged.names[owner]), row) for line, owner, row in merged.origin.tolist())


def _full_name(point: ControlPoint, names: Sequence[str]) -> str:
    """The map that a point names: by its whole name, or by the end of its path."""
    wanted = point.map or ""
    if wanted in names:
        return wanted
    matches = [name for name in names if Path(name).name == wanted or Path(name).stem == wanted]
    if len(matches) != 1:
        raise InputError(
            f"control point {point.name}: {'no map is' if not matches else 'several maps are'} named {wanted!r};"
            f" there are {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
        )
    return matches[0]

"""Control points: known points that tie a map or a group of maps to world coordinates."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import DegenerateError, FormatError, InputError
from plueckernet.geometry import Pose, Similarity
from plueckernet.io.files import read_text
from plueckernet.merging import sim3

MIN_POINTS = 3
_MIN_SPREAD = 1e-3  # second extent of the points over the first; below it they are on one line
_COLUMNS = {  # names of columns that are understood, by what they hold
    "name": ("name", "id", "point"),
    "map": ("map", "file", "source"),
    "x": ("x", "map_x"),
    "y": ("y", "map_y"),
    "z": ("z", "map_z"),
    "world_x": ("world_x", "east", "easting", "e"),
    "world_y": ("world_y", "north", "northing", "n"),
    "world_z": ("world_z", "height", "up", "h"),
}


@dataclass(frozen=True)
class ControlPoint:
    """A point known in a map and in the world."""

    name: str
    position: tuple[float, float, float]  # in the frame of the map
    world: tuple[float, float, float]
    map: str | None = None  # name of the map; None: coordinates are those of the group


@dataclass(frozen=True)
class PointResidual:
    """How far a control point is from where the fit puts it."""

    name: str
    residual: tuple[float, float, float]  # world minus fitted, in world units
    distance: float
    left_out: float | None  # distance if the point is left out of the fit; None for three points


@dataclass(frozen=True, eq=False)
class WorldTie:
    """The pose of a group in the world. Coordinates minus ``offset`` are small: they lose nothing as float32."""

    world_T_group: Pose | Similarity
    offset: Float[Tensor, "3"]  # float64, whole units
    residuals: tuple[PointResidual, ...]

    @property
    def local_T_group(self) -> Pose | Similarity:
        """The same pose in world coordinates minus the offset."""
        matrix = self.world_T_group.matrix().clone()
        matrix[:3, 3] -= self.offset
        return sim3.as_motion(matrix, isinstance(self.world_T_group, Pose))

    @property
    def rms(self) -> float:
        """Root mean square of the distances."""
        return math.sqrt(sum(point.distance**2 for point in self.residuals) / len(self.residuals))

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "world_T_group": self.world_T_group.matrix().tolist(),
            "offset": self.offset.tolist(),
            "local_T_group": self.local_T_group.matrix().tolist(),
            "scale": float(sim3.scales(self.world_T_group.matrix())),
            "rms": self.rms,
            "points": [
                {
                    "name": point.name,
                    "residual": list(point.residual),
                    "distance": point.distance,
                    "left_out": point.left_out,
                }
                for point in self.residuals
            ],
        }


def read_control_points(path: str | Path) -> list[ControlPoint]:
    """Read a CSV file: name, x, y, z in the map, x, y, z in the world; with a column ``map`` for several maps.

    A first row with names of columns may give them in any order; without one the order is name, (map,) x, y, z,
    world x, y, z. Lines that start with # are skipped.
    """
    path = Path(path)
    reader = csv.reader(read_text(path).splitlines())
    try:
        rows = [
            (reader.line_num, [cell.strip() for cell in row])
            for row in reader
            if row and any(cell.strip() for cell in row) and not row[0].lstrip().startswith("#")
        ]
    except csv.Error as error:
        raise FormatError(path, f"not CSV: {error}", reader.line_num) from None
    if not rows:
        raise FormatError(path, "there are no control points")
    header = _header(rows[0][1])
    points = rows if header is None else rows[1:]
    return [_point(path, number, row, header or _default_header(path, number, row)) for number, row in points]


def fit_world(
    points: Sequence[ControlPoint], group_T_map: Mapping[str, Pose | Similarity], rigid: bool = True
) -> WorldTie:
    """The pose of a group in the world by least squares; too few points or points on one line raise."""
    if len(points) < MIN_POINTS:
        raise InputError(f"control points: at least three are needed, there are {len(points)}")
    group = torch.stack([_in_group(point, group_T_map) for point in points])
    world = torch.tensor([point.world for point in points], dtype=torch.float64)
    for where, values in (("the map", group), ("the world", world)):
        _check_spread(values, where)
    matrix = _fitted(group, world, rigid)
    residual = world - _moved(matrix, group)
    left_out = [_left_out(row, group, world, rigid) for row in range(len(points))]
    return WorldTie(
        sim3.as_motion(matrix, rigid),
        world.mean(0).round(),
        tuple(
            PointResidual(point.name, (vector[0], vector[1], vector[2]), math.hypot(*vector), without)
            for point, vector, without in zip(points, residual.tolist(), left_out, strict=True)
        ),
    )


def _in_group(point: ControlPoint, group_T_map: Mapping[str, Pose | Similarity]) -> Float[Tensor, "3"]:
    if point.map is not None and point.map not in group_T_map:
        raise InputError(f"control point {point.name}: no map of the group is named {point.map!r}")
    position = torch.tensor(point.position, dtype=torch.float64)
    return position if point.map is None else group_T_map[point.map] @ position


def _check_spread(points: Float[Tensor, "n 3"], where: str) -> None:
    extent = torch.linalg.svdvals(points - points.mean(0))
    if not float(extent[1]) > _MIN_SPREAD * float(extent[0]):
        raise DegenerateError(
            f"control points: in {where} all {len(points)} are on one line, so the rotation about it is not determined"
        )


def _fitted(group: Float[Tensor, "n 3"], world: Float[Tensor, "n 3"], rigid: bool) -> Float[Tensor, "4 4"]:
    """Umeyama's closed form: the similarity, or the pose, with the least sum of squares."""
    middle, world_middle = group.mean(0), world.mean(0)
    source, target = group - middle, world - world_middle
    left, singular, right = torch.linalg.svd(target.mT @ source)
    sign = torch.ones(3, dtype=torch.float64)
    sign[2] = torch.linalg.det(left @ right).sign()
    rotation = left @ sign.diag() @ right
    scale = torch.tensor(1.0, dtype=torch.float64) if rigid else (singular * sign).sum() / source.square().sum()
    return sim3.assemble(scale, rotation, world_middle - scale * (rotation @ middle))


def _moved(matrix: Float[Tensor, "4 4"], points: Float[Tensor, "n 3"]) -> Float[Tensor, "n 3"]:
    return points @ matrix[:3, :3].mT + matrix[:3, 3]


def _left_out(row: int, group: Float[Tensor, "n 3"], world: Float[Tensor, "n 3"], rigid: bool) -> float | None:
    """The distance of a point from the fit of the others; large for the point that is wrong."""
    others = torch.arange(len(group)) != row
    if int(others.sum()) < MIN_POINTS:
        return None
    try:
        _check_spread(group[others], "the map")
    except DegenerateError:
        return None
    return float((world[row] - _moved(_fitted(group[others], world[others], rigid), group[row][None])[0]).norm())


def _header(row: Sequence[str]) -> dict[str, int] | None:
    """The column of each value, if this row names them."""
    lower = [cell.lower() for cell in row]
    columns = {}
    for key, names in _COLUMNS.items():
        place = next((lower.index(name) for name in names if name in lower), None)
        if place is not None:
            columns[key] = place
    return columns if {"x", "world_x"} <= set(columns) else None


def _default_header(path: Path, number: int, row: Sequence[str]) -> dict[str, int]:
    keys = ["name", "x", "y", "z", "world_x", "world_y", "world_z"]
    if len(row) == len(keys) + 1:
        keys.insert(1, "map")
    if len(row) != len(keys):
        raise FormatError(
            path, f"expected name, x, y, z, world x, y, z, or map after name; found {len(row)} cells", number
        )
    return {key: place for place, key in enumerate(keys)}


def _point(path: Path, number: int, row: Sequence[str], columns: Mapping[str, int]) -> ControlPoint:
    values = []
    for key in ("x", "y", "z", "world_x", "world_y", "world_z"):
        if key not in columns or columns[key] >= len(row):
            raise FormatError(path, f"there is no column {key}", number)
        try:
            value = float(row[columns[key]])
        except ValueError as error:
            raise FormatError(path, f"{key}: expected a number, found {row[columns[key]]!r}", number) from error
        if not math.isfinite(value):
            raise FormatError(path, f"{key}: expected a finite number, found {row[columns[key]]!r}", number)
        values.append(value)
    name = row[columns["name"]] if "name" in columns and columns["name"] < len(row) else f"line {number}"
    chosen = row[columns["map"]] if "map" in columns and columns["map"] < len(row) else ""
    return ControlPoint(name, (values[0], values[1], values[2]), (values[3], values[4], values[5]), chosen or None)

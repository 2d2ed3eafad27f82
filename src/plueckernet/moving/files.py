"""`move_file`: any file with coordinates, moved; the content decides how."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from plueckernet.errors import FormatError, InputError, PlueckernetError
from plueckernet.extraction.clouds.pcd import recognises_pcd
from plueckernet.extraction.clouds.surveys import recognises_e57, recognises_las
from plueckernet.geometry.pose import Pose, Similarity
from plueckernet.io import dxf, limap, limap2, line3dpp, obj, ply, read_lines, trajectories, write_lines
from plueckernet.io.files import check_regular
from plueckernet.io.mesh import load_mesh
from plueckernet.io.registry import FORMATS as LINE_FORMATS
from plueckernet.io.registry import format_named, format_of_content
from plueckernet.io.source import Source, is_number
from plueckernet.moving import clouds, colmap, tables, vertices
from plueckernet.moving.replacing import replacing

Mover = Callable[[Path, Path, Similarity], list[str]]
_CLOUD_SUFFIXES = {".xyz", ".pts", ".asc"}
_MESH_SUFFIXES = {".stl", ".glb", ".gltf", ".off"}


def move_file(path: Path, out: Path, pose: Pose | Similarity, format: str | None = None) -> list[str]:
    """Write a moved copy of a file or folder, in the same format; returns notes for the user.

    Args:
        path: Lines, a point cloud, a mesh, a COLMAP model or a trajectory.
        out: The file or folder to write; an existing one is replaced.
        pose: `x' = pose @ x`.
        format: One of the names in `FORMATS`; by default the content and the suffix decide.

    Raises:
        FormatError: The file cannot be read, or its format cannot be written.
    """
    check_regular(path)
    if out.resolve() in (path.resolve(), *path.resolve().parents):
        raise InputError(f"{out}: the moved file would replace its own input")
    check_format(format)
    try:
        name = format_of_file(path) if format is None else format.lower()
        return FORMATS[name](path, out, colmap.as_similarity(pose))
    except OSError as error:
        raise FormatError(path, (error.strerror or str(error)).lower()) from error


def check_format(name: str | None) -> None:
    """Raise :class:`InputError` if there is no such format."""
    if name is not None and name.lower() not in FORMATS:
        raise InputError(f"unknown format {name!r}; known: {', '.join(FORMATS)}")


def format_of_file(path: Path) -> str:
    """The format of a file or folder: a key of `FORMATS`."""
    source = Source(path)
    if path.is_dir():
        return "colmap" if colmap.is_model(path) else format_of_content(source).name
    for name, recognises in _BY_CONTENT.items():
        if recognises(source):
            return name
    suffix = path.suffix.lower()
    if suffix in _MESH_SUFFIXES:
        return "mesh"
    if suffix in _CLOUD_SUFFIXES:
        return "text"
    if suffix == ".bin":
        return "bin"
    by_width = _by_width(source) if not source.is_binary and source.head_rows else None
    return by_width or format_of_content(source).name


def _by_width(source: Source) -> str | None:
    """The format of a table by the number of its columns; six may be lines, and other formats know better."""
    if tables.names_points(source):
        return "text"
    row = source.head_rows[1 if len(source.head_rows) > 1 else 0]
    fields = row.split(next((mark for mark in ";," if mark in row), None))
    if not all(map(is_number, fields)) or line3dpp.recognises(source) or limap.recognises(source):
        return None
    named = {field.strip().lower() for field in source.head_rows[0].replace(";", ",").split(",")}
    if "x1" in named or len(fields) == 6:
        return None
    return {8: "tum", 12: "kitti"}.get(len(fields), "text" if len(fields) >= 3 else None)


def _move_lines(path: Path, out: Path, motion: Similarity, *, name: str) -> list[str]:
    """Lines of a format; what supports them stays with them."""
    source = Source(path)
    if path.is_dir():
        return _move_line_folder(path, out, motion)
    if name in ("txt", "csv"):
        read_lines(path, format=name)  # raises where a row is malformed
        tables.move_rows(source, out, motion, tables.segment_columns(source), tables.table_layout(source))
    elif name == "line3dpp":
        read_lines(path, format=name)
        tables.move_rows(source, out, motion, tables.line3dpp_columns)
    elif name == "limap2":
        colmap.move_line_file(path, out, motion)
    elif name == "limap":
        _move_alltracks(path, out, motion)
    elif name == "dxf":
        return _move_dxf(path, out, motion)
    elif format_named(name).is_writable:
        write_lines(out, motion @ read_lines(path, format=name), format=name)
    else:
        raise FormatError(path, f"{name} can only be read; convert it to another format first")
    return []


def _move_line_folder(path: Path, out: Path, motion: Similarity) -> list[str]:
    if limap2.lines_file(path) is not None:
        folder = path / limap2.FOLDER
        if folder.is_dir():
            return colmap.move_structures(folder, out / limap2.FOLDER, motion)
        return colmap.move_structures(path, out, motion)
    read_lines(path)  # raises if it is no folder of tracks, or a track is malformed
    with replacing(out) as temporary:
        temporary.mkdir()
        for file in path.iterdir():
            if limap.TRACK_NAME.fullmatch(file.name):
                _move_track(Source(file), temporary / file.name, motion)
            elif file.is_file():
                shutil.copyfile(file, temporary / file.name)
    return []


def _move_track(source: Source, out: Path, motion: Similarity) -> None:
    """The first row has the ends."""
    tables.move_rows(source, out, motion, lambda _, number: [(0, 1, 2), (3, 4, 5)] if number == 1 else [])


def _move_alltracks(path: Path, out: Path, motion: Similarity) -> None:
    """Rows 3 and 4 of the five rows of each track are its ends; the first row of the file is the number of tracks."""
    read_lines(path, format="limap")

    def pick(fields: list[str], number: int) -> tables.Triples:
        return [(0, 1, 2)] if number > 1 and (number - 2) % 5 in (1, 2) and len(fields) == 3 else []

    tables.move_rows(Source(path), out, motion, pick)


def _move_dxf(path: Path, out: Path, motion: Similarity) -> list[str]:
    """All entities of the model space, in their layers and blocks."""
    drawing = dxf.open_drawing(Source(path))
    from ezdxf import transform
    from ezdxf.math import Matrix44

    try:
        log = transform.inplace(drawing.modelspace(), Matrix44(motion.matrix().mT.flatten().tolist()))
        with replacing(out) as temporary:
            drawing.saveas(temporary)
    except PlueckernetError:
        raise
    except Exception as error:  # every kind of entity has its own errors
        raise FormatError(path, f"damaged DXF: {error}") from error
    return [f"{out}: {len(log)} entities could not be moved"] if len(log) else []


def _move_obj(path: Path, out: Path, motion: Similarity) -> list[str]:
    """Lines or a mesh: vertices move; normals turn if there are any."""
    source = Source(path)
    rows = source.lines()
    if any(text.startswith("vn ") for _, text in rows):
        return _move_mesh(path, out, motion)
    tables.move_rows(source, out, motion, tables.obj_columns)
    return []


def _move_mesh(path: Path, out: Path, motion: Similarity) -> list[str]:
    """A mesh that trimesh reads and writes."""
    scene = load_mesh(Source(path))
    try:
        scene.apply_transform(motion.matrix().numpy())
        with replacing(out) as temporary:
            scene.export(temporary, file_type=path.suffix[1:].lower())
    except PlueckernetError:
        raise
    except Exception as error:  # every format has its own parser and errors
        raise FormatError(path, f"not readable as a mesh: {error}") from error
    return []


def _move_text_cloud(path: Path, out: Path, motion: Similarity) -> list[str]:
    source = Source(path)
    tables.move_rows(source, out, motion, tables.cloud_columns(source), tables.table_layout(source))
    return []


def _move_tum(path: Path, out: Path, motion: Similarity) -> list[str]:
    trajectories.write_tum_trajectory(out, _moved_trajectory(trajectories.read_tum_trajectory(path), motion))
    return []


def _move_kitti(path: Path, out: Path, motion: Similarity) -> list[str]:
    trajectories.write_kitti_trajectory(out, _moved_trajectory(trajectories.read_kitti_trajectory(path), motion))
    return []


def _moved_trajectory(trajectory: trajectories.Trajectory, motion: Similarity) -> trajectories.Trajectory:
    poses = trajectory.world_T_sensor
    moved = Pose(motion.rotation @ poses.rotation, motion.act(poses.translation))
    return trajectories.Trajectory(trajectory.times, moved)


FORMATS: dict[str, Mover] = {
    **{known.name: partial(_move_lines, name=known.name) for known in LINE_FORMATS},
    "obj": _move_obj,
    "ply": vertices.move_ply,
    "npy": clouds.move_npy,
    "mesh": _move_mesh,
    "las": clouds.move_las,
    "e57": clouds.move_e57,
    "pcd": vertices.move_pcd,
    "bin": clouds.move_bin,
    "text": _move_text_cloud,
    "tum": _move_tum,
    "kitti": _move_kitti,
    "colmap": colmap.move_model,
}
"""By the names of the formats of lines and of point clouds, and of trajectories and models."""

_BY_CONTENT: dict[str, Callable[[Source], bool]] = {
    "las": recognises_las,
    "e57": recognises_e57,
    "ply": ply.recognises,
    "pcd": recognises_pcd,
    "npy": lambda source: source.head.startswith(b"\x93NUMPY"),
    "limap2": limap2.recognises,
    "obj": obj.recognises,
}

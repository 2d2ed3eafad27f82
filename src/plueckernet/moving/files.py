"""`move_file`: any file with coordinates, moved; the content decides how."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from plueckernet.errors import FormatError, InputError, PlueckernetError
from plueckernet.extraction.clouds.pcd import recognises_pcd
from plueckernet.extraction.clouds.surveys import recognises_e57, recognises_las
from plueckernet.geometry.pose import Pose, Similarity
from plueckernet.io import dxf, limap, limap2, line3dpp, obj, ply, read_lines, trajectories, write_lines
from plueckernet.io.files import check_regular
from plueckernet.io.mesh import load_mesh
from plueckernet.io.registry import format_named, format_of_content
from plueckernet.io.source import Source, is_number
from plueckernet.moving import clouds, colmap, tables, vertices
from plueckernet.moving.replacing import replacing

Mover = Callable[[Path, Path, Similarity], list[str]]
_CLOUD_SUFFIXES = {".xyz", ".pts", ".asc"}
_MESH_SUFFIXES = {".stl", ".glb", ".gltf", ".off"}


def move_file(path: Path, out: Path, pose: Pose | Similarity, kind: str | None = None) -> list[str]:
    """Write a moved copy of a file or folder, in the same format; returns notes for the user.

    Args:
        path: Lines, a point cloud, a mesh, a COLMAP model or a trajectory.
        out: The file or folder to write; an existing one is replaced.
        pose: `x' = pose @ x`.
        kind: One of `KINDS`; by default the content and the suffix decide.

    Raises:
        FormatError: The file cannot be read, or its format cannot be written.
    """
    check_regular(path)
    if out.resolve() in (path.resolve(), *path.resolve().parents):
        raise InputError(f"{out}: the moved file would replace its own input")
    name = kind if kind is not None else kind_of(path)
    if name not in KINDS:
        raise InputError(f"unknown kind {name!r}; known: {', '.join(KINDS)}")
    try:
        return KINDS[name](path, out, colmap.as_similarity(pose))
    except OSError as error:
        raise FormatError(path, (error.strerror or str(error)).lower()) from error


def kind_of(path: Path) -> str:
    """The kind of a file: a key of `KINDS`."""
    if path.is_dir():
        return "model" if colmap.is_model(path) else "lines"
    source = Source(path)
    for name, recognises in _BY_CONTENT.items():
        if recognises(source):
            return name
    suffix = path.suffix.lower()
    if suffix in _MESH_SUFFIXES:
        return "mesh"
    if suffix in _CLOUD_SUFFIXES:
        return "cloud-text"
    if suffix == ".bin":
        return "cloud-bin"
    if not source.is_binary and source.head_rows:
        by_width = _by_width(source)
        if by_width is not None:
            return by_width
    return "lines"


def _by_width(source: Source) -> str | None:
    """The kind of a table by the number of its columns; six may be lines, and other formats know better."""
    if tables.names_points(source):
        return "cloud-text"
    row = source.head_rows[1 if len(source.head_rows) > 1 else 0]
    fields = row.split(next((mark for mark in ";," if mark in row), None))
    if not all(map(is_number, fields)) or line3dpp.recognises(source) or limap.recognises(source):
        return None
    named = {field.strip().lower() for field in source.head_rows[0].replace(";", ",").split(",")}
    if "x1" in named or len(fields) == 6:
        return None
    return {8: "trajectory-tum", 12: "trajectory-kitti"}.get(len(fields), "cloud-text" if len(fields) >= 3 else None)


def _move_lines(path: Path, out: Path, motion: Similarity) -> list[str]:
    """Lines of any format; what supports them stays with them."""
    source = Source(path)
    if path.is_dir():
        return _move_line_folder(path, out, motion)
    name = format_of_content(source).name
    if name in ("txt", "csv"):
        read_lines(path)  # raises where a row is malformed
        tables.move_rows(source, out, motion, tables.segment_columns(source), tables.table_layout(source))
    elif name == "line3dpp":
        read_lines(path)  # raises where a row is malformed
        tables.move_rows(source, out, motion, tables.line3dpp_columns)
    elif name == "limap2":
        colmap.move_line_file(path, out, motion)
    elif name == "limap":
        _move_alltracks(path, out, motion)
    elif name == "dxf":
        return _move_dxf(path, out, motion)
    elif format_named(name).is_writable:
        write_lines(out, motion @ read_lines(path), format=name)
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
    read_lines(path)

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


KINDS: dict[str, Mover] = {
    "lines": _move_lines,
    "obj": _move_obj,
    "ply": vertices.move_ply,
    "mesh": _move_mesh,
    "pcd": vertices.move_pcd,
    "las": clouds.move_las,
    "e57": clouds.move_e57,
    "npy": clouds.move_npy,
    "cloud-bin": clouds.move_bin,
    "cloud-text": _move_text_cloud,
    "trajectory-tum": _move_tum,
    "trajectory-kitti": _move_kitti,
    "model": colmap.move_model,
}

_BY_CONTENT: dict[str, Callable[[Source], bool]] = {
    "las": recognises_las,
    "e57": recognises_e57,
    "ply": ply.recognises,
    "pcd": recognises_pcd,
    "npy": lambda source: source.head.startswith(b"\x93NUMPY"),
    "lines": limap2.recognises,
    "obj": obj.recognises,
}

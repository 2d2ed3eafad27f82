"""COLMAP models, text or binary, with rigs, frames and the lines of LIMAP 2.

An image has the pose `camera_T_world`, a frame `rig_T_world`. If the world moves by `x' = s R x + t`, such a pose
`(Q, q)` becomes `(Q R^T, s q - Q R^T t)`: the scale of the model, and with it that of the camera's frame, changes.
The translations of sensors in their rigs are scaled, too. Cameras stay as they are.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import numpy as np
import torch

from plueckernet.errors import InputError
from plueckernet.geometry.pose import Pose, Similarity, quaternion_from_rotation
from plueckernet.io.colmap_files import RECORDS, PieceKind, pieces
from plueckernet.io.limap2 import FOLDER, LineTrack, lines_file, read_tracks, write_tracks
from plueckernet.io.source import Source, numbers
from plueckernet.moving.replacing import replacing

_POSE_NUMBERS = 7  # quaternion w x y z, translation
_U64 = struct.Struct("<Q")
_EMPTY_STRUCTURES = ("structures2d.bin", "groups3D.bin", "wireframe3D.bin")


def is_model(path: Path) -> bool:
    """Whether a folder has the images and points of a model."""
    return any((path / f"images{kind}").is_file() and (path / f"points3D{kind}").is_file() for kind in (".bin", ".txt"))


def move_model(path: Path, out: Path, motion: Similarity) -> list[str]:
    """Write the moved model to a folder; returns notes about what was left out."""
    notes: list[str] = []
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as temporary:
        temporary.mkdir()
        for file in sorted(entry for entry in path.iterdir() if entry.is_file()):
            mover = _MOVERS.get(file.name)
            if mover is None:
                shutil.copyfile(file, temporary / file.name)
            else:
                mover(file, temporary / file.name, motion)
        if (path / FOLDER).is_dir():
            notes += move_structures(path / FOLDER, temporary / FOLDER, motion)
    return notes


def move_structures(path: Path, out: Path, motion: Similarity) -> list[str]:
    """Write the moved lines of LIMAP, and what else it has where that has no coordinates in space."""
    file = lines_file(path)
    if file is None:
        raise InputError(f"{path}: no lines3D.bin or lines3D.txt")
    out.mkdir(parents=True, exist_ok=True)
    move_line_file(file, out / file.name, motion)
    groups = file.with_name(f"groups3D{file.suffix}")
    if groups.is_file() and not _is_empty(groups):
        for name in _EMPTY_STRUCTURES:
            (out / name).write_bytes(_U64.pack(0))
        write_tracks(out / "lines3D.bin", read_tracks(Source(out / file.name)))
        return [f"{path}: planes, vanishing points and other groups were left out, with their 2D structures"]
    for other in sorted(path.iterdir()):
        if other.is_file() and other != file:
            shutil.copyfile(other, out / other.name)
    return []


def move_line_file(file: Path, out: Path, motion: Similarity) -> None:
    """Write the moved lines of LIMAP with the segments that support them."""
    write_tracks(out, moved_tracks(read_tracks(Source(file)), motion))


def moved_tracks(tracks: list[LineTrack], motion: Similarity) -> list[LineTrack]:
    """Lines of LIMAP with moved ends, and an uncertainty in the new unit."""
    scale = float(motion.scale)
    ends = motion @ np.array([track.ends for track in tracks]).reshape(-1, 3)
    return [
        replace(track, ends=tuple(row), uncertainty=track.uncertainty * (scale if track.uncertainty > 0 else 1))
        for track, row in zip(tracks, ends.reshape(-1, 6).tolist(), strict=True)
    ]


def _is_empty(file: Path) -> bool:
    """Whether a file begins with the count zero."""
    start = Source(file).head
    return not any(start[:8]) if file.suffix == ".bin" else (start.split() or [b"0"])[0] == b"0"


def _moved_pose(values: Sequence[float], motion: Similarity, source: Source) -> list[float]:
    """Quaternion and translation of a pose from the world, after the world has moved."""
    try:
        pose = Pose.from_quaternion(values[:4], values[4:7])
    except InputError as error:
        raise source.error(str(error)) from error
    rotation = pose.rotation @ motion.rotation.mT
    shift = motion.scale * pose.translation - (rotation @ motion.translation[:, None])[:, 0]
    return [*quaternion_from_rotation(rotation).tolist(), *shift.tolist()]


def _text_rows(file: Path) -> Iterator[tuple[Source, int, str]]:
    source = Source(file)
    for number, line in source.lines():
        yield source, number, line.rstrip("\r\n")


def _text(out: Path) -> TextIO:
    """A file for text; bytes that are not UTF-8 stay as they are."""
    return out.open("w", encoding="utf-8", errors="surrogateescape")


def _images_text(file: Path, out: Path, motion: Similarity) -> None:
    """Every second row, which may be empty, lists the points of the image above it."""
    with _text(out) as handle:
        is_pose = True
        for source, number, line in _text_rows(file):
            if line.startswith("#") or (is_pose and not line.strip()):
                handle.write(f"{line}\n")
                continue
            handle.write(f"{_pose_row(line, 1, source, number, motion) if is_pose else line}\n")
            is_pose = not is_pose


def _frames_text(file: Path, out: Path, motion: Similarity) -> None:
    with _text(out) as handle:
        for source, number, line in _text_rows(file):
            skip = line.startswith("#") or not line.strip()
            handle.write(f"{line if skip else _pose_row(line, 2, source, number, motion)}\n")


def _pose_row(line: str, first: int, source: Source, number: int, motion: Similarity) -> str:
    fields = line.split(maxsplit=first + 7)
    if len(fields) < first + 8:
        raise source.error("expected a quaternion and a translation", number)
    values = numbers(fields[first : first + 7], source, number)
    return " ".join([*fields[:first], *map(repr, _moved_pose(values, motion, source)), *fields[first + 7 :]])


def _points_text(file: Path, out: Path, motion: Similarity) -> None:
    with _text(out) as handle:
        for source, number, line in _text_rows(file):
            fields = line.split(maxsplit=4)
            if line.startswith("#") or not fields:
                handle.write(f"{line}\n")
                continue
            if len(fields) < 4:
                raise source.error("expected the number of a point and its coordinates", number)
            point = motion @ numbers(fields[1:4], source, number)
            handle.write(" ".join([fields[0], *map(repr, point.tolist()), *fields[4:]]) + "\n")


def _rigs_text(file: Path, out: Path, motion: Similarity) -> None:
    """A row has the number of a rig and of its sensors, the reference sensor, and the others, most with a pose."""
    with _text(out) as handle:
        for source, number, line in _text_rows(file):
            fields = line.split()
            place = 4  # of the type and number of the next sensor, and whether it has a pose
            while not line.startswith("#") and place < len(fields):
                has_pose = fields[place + 2 : place + 3] == ["1"]
                pose = slice(place + 3, place + 10)
                if has_pose:
                    values = numbers(fields[pose], source, number)
                    if len(values) != _POSE_NUMBERS:
                        raise source.error("expected a quaternion and a translation", number)
                    fields[pose] = map(repr, _scaled_pose(values, motion))
                place = pose.stop if has_pose else pose.start
            handle.write(f"{line if line.startswith('#') else ' '.join(fields)}\n")


def _scaled_pose(values: Sequence[float], motion: Similarity) -> list[float]:
    """The pose of a sensor in its rig, in the new unit."""
    return [*values[:4], *(float(motion.scale) * value for value in values[4:])]


def _move_binary(file: Path, out: Path, motion: Similarity) -> None:
    source = Source(file)
    with out.open("wb") as target:
        for kind, data in pieces(file):
            target.write(_moved_piece(kind, data, motion, source))


def _moved_piece(kind: PieceKind, data: bytes, motion: Similarity, source: Source) -> bytes:
    if kind is PieceKind.OTHER:
        return data
    values = np.frombuffer(data, "<f8").tolist()
    if kind is PieceKind.POINT:
        moved = (motion @ values).tolist()
    elif kind is PieceKind.WORLD_POSE:
        moved = _moved_pose(values, motion, source)
    else:
        moved = _scaled_pose(values, motion)
    return np.array(moved, "<f8").tobytes()


_MOVERS: dict[str, Callable[[Path, Path, Similarity], None]] = {
    "images.txt": _images_text,
    "points3D.txt": _points_text,
    "frames.txt": _frames_text,
    "rigs.txt": _rigs_text,
    **dict.fromkeys(RECORDS, _move_binary),
}


def as_similarity(pose: Pose | Similarity) -> Similarity:
    """A rigid motion as a similarity of scale one, in float64."""
    motion = pose if isinstance(pose, Similarity) else Similarity.from_pose(pose)
    return motion.to(torch.float64)

"""Everything that `plueckernet apply` moves, and COLMAP models that are merged."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from tests.extraction.e57_files import with_checksums
from tests.fuzz.building_seeds import limap2_seeds, mesh_seeds
from tests.fuzz.target import Target, folder_target, forked, forked_native
from tests.io.test_limap_structures import NUMBERS, structures
from tests.moving.test_colmap import text_model

from plueckernet.geometry import Pose
from plueckernet.io import read_lines_report
from plueckernet.io.colmap_files import check_model
from plueckernet.io.limap2 import LineTrack, write_structures
from plueckernet.io.limap_structures import write_joined
from plueckernet.io.source import Source
from plueckernet.moving import clouds, move_file

POSE = Pose.random(generator=torch.Generator().manual_seed(0), translation=1e5)
Seeds = Mapping[str, tuple[bytes, ...]]


def moved(path: Path, format: str | None = None) -> None:
    """Move a file or folder into a folder beside it; native code runs in a fork."""
    out = path.parent / "out" / path.name
    out.parent.mkdir(exist_ok=True)
    with patch.object(clouds, "run_native", _forked_native):
        move_file(path, out, POSE, format)


def _forked_native(source: Source, kind: str, _name: str, *arguments: str) -> None:
    forked_native(source, kind, *arguments)


def _moved_e57(path: Path) -> None:
    path.write_bytes(with_checksums(path.read_bytes()))  # otherwise nearly all inputs are refused by them
    moved(path)


def moved_targets(lines: Seeds, points: Seeds) -> Iterator[tuple[str, Target]]:
    """By the seeds of the formats of lines and of points."""
    text = tuple(seed for name in ("csv", "txt", "limap", "line3dpp") for seed in lines[name])
    yield "moved-lines", Target(moved, "map.txt", text + limap2_seeds())
    yield "moved-dxf", Target(partial(moved, format="dxf"), "map.dxf", lines["dxf"])
    yield "moved-obj", Target(partial(moved, format="obj"), "map.obj", (*lines["obj"], _OBJ))
    yield "moved-tracks", folder_target(moved, {"track_3.txt": b"0 0 0 1 0 0\n1 1\nimage_id_list 4\n"})
    yield "moved-ply", Target(partial(moved, format="ply"), "map.ply", lines["ply"] + points["ply"] + (_PLY,))
    yield "moved-pcd", Target(partial(moved, format="pcd"), "cloud.pcd", points["pcd"] + (_PCD,))
    yield "moved-npy", Target(partial(moved, format="npy"), "cloud.npy", points["npy"])
    yield "moved-bin", Target(partial(moved, format="bin"), "cloud.bin", (bytes(16) + np.ones(8, "<f4").tobytes(),))
    yield "moved-text", Target(moved, "cloud.xyz", points["xyz"] + points["csv"] + points["pts"])
    yield "moved-tum", Target(partial(moved, format="tum"), "t.txt", (b"# t\n0 1 2 3 0 0 0 1\n",))
    yield "moved-kitti", Target(partial(moved, format="kitti"), "t.txt", (b"1 0 0 5 0 1 0 6 0 0 1 7\n",))
    if mesh_seeds():
        yield "moved-mesh", Target(partial(moved, format="mesh"), "map.stl", mesh_seeds()[:2])
        yield "moved-glb", Target(partial(moved, format="mesh"), "map.glb", mesh_seeds()[3:])
    for suffix, read in {"las": moved, "laz": moved, "e57": _moved_e57}.items():
        if suffix in points:
            yield f"moved-{suffix}", Target(read, f"cloud.{suffix}", points[suffix])
    yield from _model_targets()


def _model_targets() -> Iterator[tuple[str, Target]]:
    with tempfile.TemporaryDirectory() as folder:
        text = _files(text_model(Path(folder) / "text"))
        limap = _files(structures(Path(folder) / "limap"))
    limap |= dict(zip(("lines3D.bin", "lines3D.txt"), limap2_seeds(), strict=True))
    model = text | _BINARY | {f"structures/{name}": data for name, data in limap.items() if name != "lines3D.txt"}
    yield "moved-model", folder_target(moved, model)
    yield "joined-structures", folder_target(_joined, limap)
    try:
        import pycolmap  # noqa: F401 - loaded before the forks
    except ImportError:
        return
    yield "colmap", folder_target(_merged, _colmap_model(pycolmap_text=False))
    yield "colmap-text", folder_target(_merged, _colmap_model(pycolmap_text=True))


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def _joined(folder: Path) -> list[str]:
    return write_joined(folder.parent / "joined", ((folder, NUMBERS),), {40: 11})


def _colmap_model(*, pycolmap_text: bool) -> dict[str, bytes]:
    """A small model by pycolmap, with rigs, frames and lines."""
    from tests.merging.colmap_models import reconstruction

    model = reconstruction(1, frames=1)
    with tempfile.TemporaryDirectory() as folder:
        write: Callable[[str], None] = model.write_text if pycolmap_text else model.write_binary
        write(folder)
        tracks = [LineTrack(n, (0.0, 0.0, float(n), 5.0, 6.0, 3.0), ((10, 0),), 0.25) for n in range(3)]
        write_structures(Path(folder) / "structures", tracks)
        return _files(Path(folder))


def _merged(folder: Path) -> None:
    """As `plueckernet align-colmap` does once it knows the pose; what is not in a child there is in a fork here."""
    report = read_lines_report(folder)
    check_model(folder)
    forked_native(Source(folder), "colmap")
    forked(partial(_merge, folder, report))


def _merge(folder: Path, report: object) -> None:
    from plueckernet.interop import colmap
    from plueckernet.merging import reconstructions

    with patch.object(colmap, "run_native", lambda *_: None):
        model = reconstructions.read_model(folder, report)  # type: ignore[arg-type]
        reconstructions.write_models(folder.parent / "merged", model, model, POSE)


_OBJ = b"mtllib ../a.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvn 0 0 1\nusemtl a\nf 1//1 2//1 3//1\n"
_PLY = (
    b"ply\nformat binary_little_endian 1.0\nelement camera 1\nproperty float x\nelement vertex 2\nproperty float x\n"
    b"property int y\nproperty double z\nproperty float nx\nproperty float ny\nproperty float nz\nend_header\n"
) + bytes(4 + 2 * 28)
_PCD = (
    b"VERSION 0.7\nFIELDS x y z normal_x normal_y normal_z\nSIZE 4 4 4 4 4 4\nTYPE F F F F F F\nCOUNT 1 1 1 1 1 1\n"
    b"WIDTH 2\nHEIGHT 1\nVIEWPOINT 1 2 3 1 0 0 0\nPOINTS 2\nDATA ascii\n1 2 3 0 0 1\n4 5 6 0 1 0\n"
)
_POSE = struct.pack("<7d", 1, 0, 0, 0, 1, 2, 3)
_BINARY = {
    "images.bin": struct.pack("<QI", 1, 1)
    + _POSE
    + struct.pack("<I", 7)
    + b"a.png\0"
    + struct.pack("<Qddq", 1, 4, 5, 3),
    "points3D.bin": struct.pack("<QQ3d3BdQII", 1, 3, 1, 2, 3, 9, 9, 9, 0.5, 1, 1, 0),
    "frames.bin": struct.pack("<QII", 1, 1, 1) + _POSE + struct.pack("<IIIQ", 1, 0, 7, 1),
}

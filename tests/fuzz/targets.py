"""The readers that are fuzzed: how each reads a file, and the seeds that are mutated."""

from __future__ import annotations

import json
import pickle
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from tests.extraction import test_clouds as clouds
from tests.extraction.e57_files import with_checksums
from tests.fuzz.building_seeds import forked_ifc, gml_seeds, ifc_seeds, limap2_seeds, mesh_seeds
from tests.fuzz.folder_targets import folder_targets
from tests.fuzz.moved_targets import moved_targets
from tests.fuzz.target import Target, forked_native
from tests.hostile.files import city, dxf
from tests.hostile.readers import readers

from plueckernet.errors import MissingDependencyError
from plueckernet.extraction import read_points
from plueckernet.extraction.clouds import surveys
from plueckernet.geometry import LineSet
from plueckernet.io import FORMATS, read_lines_report, write_lines
from plueckernet.io.source import Source
from plueckernet.models.weights import load_card, pretrained_path, read_tensors

CORPUS = Path(__file__).with_name("corpus")  # inputs that once failed, by target


def lines() -> LineSet:
    """A few segments."""
    return LineSet.from_segments(
        torch.randn(5, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).round(decimals=3)
    )


NAMES = (
    "lines-npy", "lines-npz", "lines-npz-member", "lines-ply", "lines-dxf", "lines-cityjson", "lines-obj",
    "lines-limap", "lines-limap2", "lines-gml", "lines-ifc", "lines-mesh", "lines-line3dpp",
    "lines-csv", "lines-txt", "lines-any", "points-xyz", "points-csv", "points-txt",
    "points-pts", "points-ply", "points-pcd", "points-vtk", "points-npy", "points-las", "points-laz", "points-e57",
    "pickle", "structured3d", "config", "index", "trajectory-tum", "trajectory-kitti", "card", "weights", "result",
    "moved-lines", "moved-dxf", "moved-obj", "moved-tracks", "moved-ply", "moved-pcd", "moved-npy", "moved-bin",
    "moved-text", "moved-tum", "moved-kitti", "moved-mesh", "moved-glb", "moved-las", "moved-laz", "moved-e57",
    "moved-model", "joined-structures", "colmap", "colmap-text", "line-index", "control", "pairs", "pose",
    "kept-edge", "recorded", "checkpoint", "tum", "tum-associations", "7scenes", "kitti", "apollo", "authors", "batch",
)  # fmt: skip


@cache
def targets() -> dict[str, Target]:
    """All targets whose packages are installed; making their seeds takes a few seconds."""
    made = dict(_line_targets()) | dict(_building_targets()) | dict(_cloud_targets()) | _other_targets()
    made |= dict(moved_targets(_SEEDS, _cloud_seeds())) | dict(folder_targets())
    return {name: _with_corpus(name, target) for name, target in made.items()}


def _with_corpus(name: str, target: Target) -> Target:
    failed = tuple(path.read_bytes() for path in sorted((CORPUS / name).glob("*")))
    return Target(target.read, target.file, target.seeds + failed)


def _line_targets() -> Iterator[tuple[str, Target]]:
    with tempfile.TemporaryDirectory() as folder:
        for known in FORMATS:
            seeds = list(_SEEDS.get(known.name, ()))
            if known.write is not None or known.name == "npz":
                write_lines(Path(folder) / "map", lines(), format=known.name)
                seeds.append((Path(folder) / "map").read_bytes())
            if seeds:
                yield f"lines-{known.name}", Target(partial(read_lines_report, format=known.name), "map", tuple(seeds))
                if known.name == "npy":
                    yield "lines-npz-member", Target(_zipped, "map.npz", tuple(seeds))
    every = tuple(seed for seeds in _SEEDS.values() for seed in seeds)
    yield "lines-any", Target(read_lines_report, "map.json", every)


def _building_targets() -> Iterator[tuple[str, Target]]:
    yield "lines-limap2", Target(partial(read_lines_report, format="limap2"), "lines3D", limap2_seeds())
    yield "lines-gml", Target(partial(read_lines_report, format="gml"), "map.gml", gml_seeds())
    others = {"lines-mesh": (partial(read_lines_report, format="mesh"), "map.stl", mesh_seeds())}
    others["lines-ifc"] = (forked_ifc, "map.ifc", ifc_seeds())
    yield from ((name, Target(*values)) for name, values in others.items() if values[2])


def _zipped(path: Path) -> object:
    """Read mutated arrays within an archive whose checksums are right."""
    data = path.read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("endpoints.npy", data)
    return read_lines_report(path)


def _cloud_targets() -> Iterator[tuple[str, Target]]:
    """Every format of clouds, LAZ and E57 in a fork for each input."""
    for suffix, seeds in _cloud_seeds().items():
        reader = {"laz": _forked_las, "e57": _forked_e57}.get(suffix, read_points)
        yield f"points-{suffix}", Target(reader, f"cloud.{suffix}", seeds)


@cache
def _cloud_seeds() -> dict[str, tuple[bytes, ...]]:
    """By suffix; those of formats whose packages are not installed are missing."""
    by_format: dict[str, tuple[bytes, ...]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, write in clouds.WRITERS.items():
            path = Path(folder) / name
            with suppress(MissingDependencyError, Exception):
                write(path)
                by_format[path.suffix[1:]] = (*by_format.get(path.suffix[1:], ()), path.read_bytes()[:8192])
    return by_format


def _forked_las(path: Path) -> None:
    source = Source(path)
    if surveys.check_las(source).compressed:
        forked_native(source, "las")


def _forked_e57(path: Path) -> None:
    path.write_bytes(with_checksums(path.read_bytes()))  # otherwise nearly all inputs are refused by them
    source = Source(path)
    surveys.check_e57(source)
    forked_native(source, "e57")


def _other_targets() -> dict[str, Target]:
    known = readers()
    junctions = [{"coordinate": [0, 0, 0]}, {"coordinate": [1000, 0, 0]}]
    house = {"junctions": junctions, "lineJunctionMatrix": [[1, 1]]}
    index = {
        "schema": 1, "dataset": "tum", "settings": {"seed": 0}, "dropped": {}, "pairs": [],
        "scenes": [{"name": "a", "split": "train", "lines": 3, "world_T_scene": np.eye(4).tolist()}],
    }  # fmt: skip
    card = pretrained_path("invariant").with_suffix(".json").read_bytes()
    config = pretrained_path("invariant").parents[2] / "training" / "configs" / "tiny.toml"
    arrays = [np.zeros((2, 6)), np.ones((1, 6), np.float32), np.arange(4).reshape(2, 2)]
    return {
        "pickle": Target(known["pickle"], "a.pkl", tuple(pickle.dumps(arrays, protocol=p) for p in range(5))),
        "structured3d": Target(known["structured3d"], "annotation_3d.json", (json.dumps(house).encode(),)),
        "config": Target(known["toml"], "a.toml", (config.read_bytes(),)),
        "index": Target(known["index"], "index.json", (json.dumps(index).encode(),)),
        "trajectory-tum": Target(known["trajectory"], "t.txt", (b"# t\n0 1 2 3 0 0 0 1\n1 1 2 3 0 0 1 0\n",)),
        "trajectory-kitti": Target(known["kitti"], "t.txt", (b"1 0 0 5 0 1 0 6 0 0 1 7\n",)),
        "card": Target(_read_card, "a.json", (card,)),
        "weights": Target(read_tensors, "a.safetensors", (_safetensors(),)),
        "result": Target(known["result"], "r.json", (_result(),)),
    }


def _read_card(path: Path) -> None:
    from plueckernet.models.weights import _build

    weights = path.with_suffix(".safetensors")
    weights.touch()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        _build(load_card(weights), weights)


def _safetensors() -> bytes:
    header = json.dumps({"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(16)


def _result() -> bytes:
    from plueckernet.registration import register

    return json.dumps(register(lines(), lines(), matcher="descriptors").to_dict()).encode()


_PLY = "ply\nformat ascii 1.0\nelement vertex 3\nproperty double x\nproperty double y\nproperty double z\n"
_EDGE = "element edge 1\nproperty int vertex1\nproperty int vertex2\n"
_FACE = "element face 1\nproperty list uchar int vertex_indices\n"
_SURFACE = {"type": "MultiSurface", "lod": "2.1", "boundaries": [[[0, 1, 2]], [[2, 1, 3], [0, 1, 2]]]}
_INSTANCE = {
    "type": "GeometryInstance", "template": 0, "boundaries": [0], "transformationMatrix": np.eye(4).ravel().tolist()
}  # fmt: skip
_CITY = city(
    {"a": {"type": "Building", "geometry": [_SURFACE]}, "b": {"parents": ["a"], "geometry": [_INSTANCE]}},
    vertices=[[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]],
    transform={"scale": [1, 1, 1], "translate": [0, 0, 0]},
    **{
        "geometry-templates": {
            "templates": [_SURFACE],
            "vertices-templates": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1]],
        }
    },
)
_SEEDS: dict[str, tuple[bytes, ...]] = {
    "obj": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nl 1 2 3\nf 1/1 2 -1\n# c\nl 1 \\\n 2\n",),
    "ply": (
        f"{_PLY}{_EDGE}end_header\n0 0 0\n1 0 0\n0 1 0\n0 1\n".encode(),
        f"{_PLY}{_FACE}end_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n".encode(),
        f"{_PLY.replace('ascii', 'binary_big_endian').replace('double', 'float')}{_FACE}end_header\n".encode()
        + bytes(36) + b"\x03" + struct.pack(">3i", 0, 1, 2),
    ),
    "cityjson": (_CITY,),
    "dxf": (dxf(3, (2, 2)),),
    "limap": (b"1 2 3 4 5 6\n1 2\nimage_id_list 1 2\n", b"1\n0 2 1\n0 0 0\n1 0 0\n4 5\n1 2\n"),
    "line3dpp": (b"1 0 0 0 1 0 0 1 1 2 3 4 5 6\n2 0 0 0 1 0 0 0 0 0 1 0 0 0\n",),
    "csv": (b"x1,y1,z1,x2,y2,z2,name\n1,2,3,4,5,6,7\n", b"1;2;3;4;5;6\n"),
    "txt": (b"# c\n1 2 3 4 5 6\n-1e3 2. .3 4 5 6\n",),
}  # fmt: skip

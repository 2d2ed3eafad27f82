"""What is read of folders, and small files beside maps: indices, control points, poses, datasets."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from tests.fuzz.target import Target, folder_target

from plueckernet.batch import read_batch
from plueckernet.batch.pairs import read_pairs
from plueckernet.cli.poses import read_pose
from plueckernet.data.datasets.apollo import apollo_sequences
from plueckernet.data.datasets.authors import authors_folders, read_authors_pairs
from plueckernet.data.datasets.sequences import open_sequence
from plueckernet.data.recorded import RecordedPairs
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import write_lines
from plueckernet.merging.control import fit_world, read_control_points
from plueckernet.merging.edges import MapEdge
from plueckernet.merging.pair_store import PairStore
from plueckernet.registration import register
from plueckernet.result import RegistrationResult
from plueckernet.retrieval.line_index import LineIndex
from plueckernet.training.config import load_config
from plueckernet.training.export import export_weights

_TABLE = "results/part-000000.parquet"
_MATRIX = "".join(f"{' '.join(map(str, row))}\n" for row in Pose.identity().matrix().tolist()).encode()


def folder_targets() -> Iterator[tuple[str, Target]]:
    """All of them; those whose packages are not installed are missing."""
    yield "line-index", Target(_use_index, "a.index", (_index(),))
    yield "control", Target(_use_control, "control.csv", _CONTROL)
    yield "pairs", Target(read_pairs, "pairs.csv", (b"source,target,name\na.obj,b.obj,1\n", b'a.obj,"b.obj"\n'))
    yield "pose", Target(read_pose, "pose", (_MATRIX, json.dumps(_result().to_dict()).encode()))
    yield "kept-edge", Target(_use_edge, "edge.json", (json.dumps(MapEdge.of(0, 1, _result()).to_dict()).encode(),))
    yield "recorded", folder_target(_use_recorded, {"index.json": json.dumps(_INDEX).encode()}, _scenes())
    state, weights = _checkpoint()
    yield "checkpoint", folder_target(_use_checkpoint, {"state.json": state}, {"model.safetensors": weights})
    yield "tum", folder_target(open_sequence, _TUM)
    yield "tum-associations", folder_target(open_sequence, {"associations.txt": b"1 rgb/a.png 1 depth/a.png\n"})
    yield "7scenes", folder_target(open_sequence, _SEVEN_SCENES, _SEVEN_SCENES_IMAGES)
    yield "kitti", folder_target(lambda folder: open_sequence(folder / "sequences" / "07"), _KITTI, _KITTI_SCANS)
    yield "apollo", folder_target(apollo_sequences, {"Pose/Record001/Camera 5/pose.txt": _APOLLO_POSE}, _APOLLO_IMAGES)
    yield "authors", folder_target(_use_authors, _authors())
    if find_spec("pyarrow") is not None:
        yield "batch", folder_target(_use_batch, {_TABLE: Path(__file__).with_name("batch.parquet").read_bytes()})


def _use_batch(folder: Path) -> object:
    """Read a table in this process: pyarrow hangs in forks, and with a pool of its own it reserves a gigabyte."""
    import pyarrow

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    return list(read_batch(folder))


def _lines() -> LineSet:
    return LineSet.from_segments(torch.randn(12, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))


@cache
def _result() -> RegistrationResult:
    return register(_lines(), _lines(), matcher="descriptors")


def _index() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        LineIndex.build(_lines()).save(Path(folder) / "index")
        return (Path(folder) / "index").read_bytes()


def _use_index(path: Path) -> None:
    LineIndex.load(path).places(_lines()[:8])


def _use_control(path: Path) -> None:
    fit_world(read_control_points(path), {"a": Pose.identity()}).to_dict()


def _use_edge(path: Path) -> None:
    store = PairStore(path.parent, [_lines(), _lines()], "fuzz")
    kept = store.path(0, 1)
    assert kept is not None
    kept.write_bytes(path.read_bytes())
    store.load(0, 1)


def _scenes() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write_lines(Path(folder) / "a.npz", _lines())
        data = (Path(folder) / "a.npz").read_bytes()
    return {"train/a.npz": data, "train/b.npz": data}


def _use_recorded(folder: Path) -> None:
    RecordedPairs.read(folder / "train").batch(2, 8, seed=0)


def _checkpoint() -> tuple[bytes, bytes]:
    """State and weights of a tiny network."""
    from safetensors.torch import save

    config = load_config("tiny", ["model.layers=2", "model.edge_channels=8"])
    weights = config.model.build(seed=0).state_dict()
    state = {"version": "0", "step": 1, "best": {"recall": 0.5}, "config": config.to_tables()}
    return json.dumps(state).encode(), save(weights)


def _use_checkpoint(folder: Path) -> None:
    export_weights(folder, folder.parent / "exported")


def _authors() -> dict[str, bytes]:
    rows = np.concatenate([np.zeros((4, 3)), np.eye(3)[[0, 1, 2, 0]]], 1)
    lists = {
        "plucker1": [rows], "plucker2": [rows], "matches": [np.array([[0, 1], [0, 1]])], "R_gt": [np.eye(3)],
        "t_gt": [np.zeros((3, 1))],
    }  # fmt: skip
    return {f"house_train/{name}.pkl": pickle.dumps(arrays, protocol=4) for name, arrays in lists.items()}


def _use_authors(folder: Path) -> None:
    for place in authors_folders(folder):
        read_authors_pairs(place)


_CONTROL = (
    b"name,x,y,z,east,north,height\na,0,0,0,10,20,30\nb,1,0,0,11,20,30\nc,0,1,0,10,21,30\nd,0,0,2,10,20,32\n",
    b"# made here\na,a,0,0,0,10,20,30\nb,a,1,0,0,11,20,30\nc,a,0,1,0,10,21,30\n",
)
_EYE = np.eye(4).tolist()
_INDEX = {
    "schema": 1, "dataset": "authors", "settings": {}, "dropped": {},
    "scenes": [{"name": name, "split": "train", "lines": 12, "world_T_scene": None} for name in "ab"],
    "pairs": [
        {"source": "a", "target": "b", "split": "train", "target_T_source": _EYE, "matches": [[0, 0], [3, 4], [11, 11]]}
    ],
}  # fmt: skip
_TUM = {
    "rgb.txt": b"# t\n1 rgb/a.png\n2 rgb/b.png\n",
    "depth.txt": b"1.01 depth/a.png\n2.01 depth/b.png\n",
    "groundtruth.txt": b"0 1 2 3 0 0 0 1\n1.05 1 2 3 0 0 1 0\n",
    "camera-intrinsics.txt": b"500 0 300\n0 500 200\n0 0 1\n",
}
_SEVEN_SCENES = {"frame-000000.pose.txt": _MATRIX, "camera-intrinsics.txt": _TUM["camera-intrinsics.txt"]}
_SEVEN_SCENES_IMAGES = {"frame-000000.depth.png": b"", "frame-000000.color.png": b""}
_KITTI = {
    "sequences/07/times.txt": b"0.0\n1.0\n",
    "sequences/07/calib.txt": b"P0: 1 2 3\nTr: 1 0 0 5 0 1 0 6 0 0 1 7\n",
    "poses/07.txt": b"1 0 0 5 0 1 0 6 0 0 1 7\n1 0 0 6 0 1 0 6 0 0 1 7\n",
}
_KITTI_SCANS = {f"sequences/07/velodyne/00000{n}.bin": bytes(16) for n in range(2)}
_APOLLO_POSE = (" ".join(map(str, np.eye(4).ravel())) + " 170927_063811892_Camera_5.jpg\n").encode()
_APOLLO_IMAGES = {
    f"{kind}/Record001/Camera 5/170927_063811892_Camera_5{suffix}": b""
    for kind, suffix in (("ColorImage", ".jpg"), ("Depth", ".png"))
}

"""`plueckernet extract`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.synthetic_clouds import agreement, boxes, dense
from tests.cli.helpers import run

from plueckernet.io import read_lines

cv2 = pytest.importorskip("cv2", reason="opencv is not installed")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("clouds") / "room.xyz"
    np.savetxt(path, dense(boxes(rng, count=1, room=2.2), 0.03, 0.004, rng), fmt="%.4f")
    return path


def frame(folder: Path, number: int) -> tuple[Path, Path]:
    """A card before a wall, as 7-Scenes writes a frame."""
    colour = np.full((480, 640, 3), 40, np.uint8)
    depth = np.full((480, 640), 3000, np.uint16)
    colour[140:340, 220:420], depth[140:340, 220:420] = 200, 1200
    paths = folder / f"frame-{number:06d}.color.png", folder / f"frame-{number:06d}.depth.png"
    for path, image in zip(paths, (colour, depth), strict=True):
        cv2.imwrite(str(path), image)
    return paths


def test_a_cloud(cloud: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, quality = tmp_path / "lines.obj", tmp_path / "quality.csv"
    assert run("extract", cloud, "--out", out, "--quality", quality) == 0
    lines = read_lines(out)
    scene = boxes(np.random.default_rng(0), count=1, room=2.2)
    assert agreement(lines.endpoints.numpy(), scene.edges)["precision"] > 0.9
    rows = quality.read_text().splitlines()
    assert rows[0] == "length,support,residual"
    np.testing.assert_allclose([float(row.split(",")[0]) for row in rows[1:]], lines.lengths().numpy(), rtol=1e-4)
    assert f"{len(lines)} lines written to {out}" in capsys.readouterr().err


def test_settings_arrive(cloud: Path, tmp_path: Path) -> None:
    out = tmp_path / "lines.npy"
    options = ("--min-length", 1.0, "--spacing", 0.04, "--viewpoint", 2, 2, 1, "--tile-points", 10_000)
    assert run("extract", cloud, "--out", out, "-q", *options) == 0
    assert float(read_lines(out).lengths().min()) >= 1.0


def test_one_frame_and_a_folder_of_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenes = tmp_path / "frames"
    scenes.mkdir()
    colour, depth = frame(scenes, 0)
    frame(scenes, 1)
    for path in frame(scenes, 2):  # black images: no lines
        cv2.imwrite(str(path), np.zeros_like(cv2.imread(str(path), cv2.IMREAD_UNCHANGED)))
    out = tmp_path / "one.obj"
    assert run("extract", "--rgbd", colour, depth, "--intrinsics", 585, 585, 320, 240, "--out", out) == 0
    np.testing.assert_allclose(read_lines(out).endpoints[..., 2].numpy(), 1.2, atol=0.01)
    assert run("extract", "--rgbd", scenes, "--out", tmp_path / "maps") == 0
    maps = sorted((tmp_path / "maps").iterdir())
    assert len(maps) == 2
    assert len(read_lines(maps[0])) == len(read_lines(out))
    assert run("extract", "--rgbd", scenes, "--out", out) == 2
    errors = capsys.readouterr().err
    assert f"{out}: cannot be created: File exists" in errors
    assert "frame-000002.color.png: no lines found" in errors
    assert f"3 frames, 0 to {len(read_lines(out))} lines each" in errors


def test_bad_input(cloud: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "lines.obj"
    (tmp_path / "bad.xyz").write_text("1 2 3\n4 5 six\n")
    (tmp_path / "dust.xyz").write_text("1 2 3\n4 5 6\n")
    for arguments, complaint in (
        ((tmp_path / "bad.xyz",), "bad.xyz:2: expected a number"),
        ((tmp_path / "dust.xyz",), "dust.xyz: no lines found"),
        ((tmp_path / "none.ply",), "none.ply: no such file"),
        ((cloud, cloud), "expected one point cloud, got 2"),
        ((cloud, "--spacing", -1), "--spacing: expected a positive length"),
        (("--rgbd", cloud, cloud), "--intrinsics FX FY CX CY"),
        (("--rgbd", cloud, cloud, "--intrinsics", 1, 1, 1, 1), "not a readable image"),
    ):
        assert run("extract", *arguments, "--out", out) == 2
        assert complaint in capsys.readouterr().err
    assert not out.exists()

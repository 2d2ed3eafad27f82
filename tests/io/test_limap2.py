"""LIMAP 2: binary and text hold the same, LIMAP reads what is written, and damaged files are refused."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from plueckernet.errors import FormatError
from plueckernet.geometry import LineSet
from plueckernet.io import read_lines, read_lines_report, write_lines
from plueckernet.io.limap2 import LineTrack, read_tracks, write_tracks
from plueckernet.io.source import Source

TRACKS = [
    LineTrack(7, (0.1, 0.2, 0.3, 1.0, 2.0, 3.0), ((1, 4), (2, 5), (2, 6)), 0.25),
    LineTrack(3, (1e6 + 0.1, 0.0, -1.5, 1e6, 2.0, 3.0), ((9, 0),), -1.0),
    LineTrack(12, (0.0, 0.0, 0.0, 0.0, 0.0, 1 / 3), (), 0.75),
]


def model(folder: Path, suffix: str = ".bin", tracks: list[LineTrack] = TRACKS) -> Path:
    (folder / "structures").mkdir(parents=True)
    write_tracks(folder / "structures" / f"lines3D{suffix}", tracks)
    return folder


@pytest.mark.parametrize("suffix", [".bin", ".txt"])
def test_tracks_come_back_exactly(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"lines3D{suffix}"
    write_tracks(path, TRACKS)
    assert read_tracks(Source(path)) == TRACKS


@pytest.mark.parametrize("suffix", [".bin", ".txt"])
@pytest.mark.parametrize("place", ["", "structures", "structures/lines3D"])
def test_a_model_its_folder_and_its_file_are_read(tmp_path: Path, suffix: str, place: str) -> None:
    folder = model(tmp_path / "model", suffix)
    path = folder / (place + suffix if place.endswith("D") else place)
    report = read_lines_report(path)
    assert report.format == "limap2"
    assert report.lines.ids.tolist() == [7, 3, 12]
    assert report.lines.views.tolist() == [2, 1, 0]
    assert report.lines.sigma.tolist() == [0.25, 0.5, 0.75]
    assert report.notes == ("1 lines without an uncertainty got the median of the others",)
    np.testing.assert_array_equal(report.lines.endpoints[1].flatten(), TRACKS[1].ends)


def test_noise_unknown_everywhere_stays_unknown(tmp_path: Path) -> None:
    lines = read_lines(model(tmp_path / "model", tracks=[TRACKS[1]]))
    assert lines.sigma is None
    assert lines.views.tolist() == [1]


def test_skipped_lines_take_their_noise_with_them(tmp_path: Path) -> None:
    point = LineTrack(1, (5.0, 5.0, 5.0, 5.0, 5.0, 5.0), (), 9.0)
    lines = read_lines(model(tmp_path / "model", tracks=[point, TRACKS[0]]))
    assert (lines.ids.tolist(), lines.sigma.tolist(), lines.views.tolist()) == ([7], [0.25], [2])


@pytest.mark.parametrize("name", ["model", "model/structures", "lines.bin", "lines3D.txt", "map.npz"])
def test_noise_and_ids_are_written(tmp_path: Path, name: str) -> None:
    lines = read_lines(model(tmp_path / "original"))
    (tmp_path / "model").mkdir()
    write_lines(tmp_path / name, lines, format=None if name.endswith("npz") else "limap2")
    back = read_lines(tmp_path / name)
    assert torch.equal(back.endpoints, lines.endpoints)
    assert torch.equal(back.sigma, lines.sigma)
    assert torch.equal(back.ids, lines.ids)
    assert back.views.tolist() == (lines.views.tolist() if name.endswith("npz") else [0, 0, 0])


def test_files_of_an_existing_model_stay(tmp_path: Path) -> None:
    folder = model(tmp_path / "model")
    (folder / "structures" / "groups3D.bin").write_bytes(b"groups of another program")
    write_lines(folder, read_lines(folder), format="limap2")
    assert (folder / "structures" / "groups3D.bin").read_bytes() == b"groups of another program"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[:-9], "ends within line 3 of 3"),
        (lambda data: data + b"\0", "1 more bytes"),
        (lambda data: data[:64] + struct.pack("<Q", 2**60) + data[72:], "ends within line 1 of 3"),
        (lambda data: data[:8] + struct.pack("<Q", 2**63) + data[16:], "too large"),
        (lambda data: struct.pack("<Q", 2**50) + data[8:], "ends within line 4"),
    ],
)
def test_damaged_binary_is_refused(tmp_path: Path, change, reason: str) -> None:
    folder = model(tmp_path / "model")
    path = folder / "structures" / "lines3D.bin"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FormatError, match=reason):
        read_lines(folder)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1\n7\n0 0 0 1 1 1\n0\n", "ends before the uncertainty of line 1 of 1"),
        ("1\n7\n0 0 0 1 1 x\n0\n-1\n", ":3: expected a coordinate of line 1 of 1, found 'x'"),
        ("1\n7\n0 0 0 1 1 1\n1\n3 -4\n-1\n", ":5: expected a segment of line 1 of 1, found '-4'"),
        ("1\n7\n0 0 0 1 1 1\n0\n-1\n8\n", ":6: expected the end after 1 lines, found '8'"),
    ],
)
def test_damaged_text_names_the_line(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "lines3D.txt"
    path.write_text(text)
    with pytest.raises(FormatError, match=reason):
        read_lines(path, format="limap2")


def test_a_colmap_model_without_lines_says_so(tmp_path: Path) -> None:
    (tmp_path / "points3D.bin").write_bytes(bytes(8))
    with pytest.raises(FormatError, match="COLMAP model without lines"):
        read_lines(tmp_path)


def test_limap_reads_what_is_written_and_writes_what_is_read(tmp_path: Path) -> None:
    pytest.importorskip("pycolmap", reason="pycolmap is not installed")
    pytest.importorskip("limap.scene", reason="pylimap is not installed", exc_type=ImportError)
    import pycolmap
    from limap.scene import StructureReconstruction

    endpoints = np.random.default_rng(0).normal(size=(20, 2, 3))
    lines = LineSet.from_segments(endpoints, ids=torch.arange(20) + 5, sigma=np.linspace(0.1, 1, 20))
    write_lines(tmp_path / "ours", lines, format="limap2")
    model_of_limap = StructureReconstruction(pycolmap.Reconstruction())
    model_of_limap.read(str(tmp_path / "ours" / "structures"))
    assert model_of_limap.num_lines3D() == 20
    np.testing.assert_array_equal(model_of_limap.line(5).as_array(), endpoints[0])
    for suffix, write in (("bin", model_of_limap.write_binary), ("txt", model_of_limap.write_text)):
        (tmp_path / suffix / "structures").mkdir(parents=True)
        write(str(tmp_path / suffix / "structures"))
        back = read_lines(tmp_path / suffix)
        order = back.ids.argsort()
        exact = 0 if suffix == "bin" else 1e-5  # LIMAP writes six digits of text
        torch.testing.assert_close(back.endpoints[order], lines.endpoints, rtol=exact, atol=exact)
        torch.testing.assert_close(back.sigma[order], lines.sigma, rtol=exact, atol=exact)

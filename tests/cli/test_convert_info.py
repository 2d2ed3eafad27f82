from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.io.samples import TWO_SEGMENTS, infinite_lines, line_set

from plueckernet.cli import main
from plueckernet.io import read_lines, write_lines
from plueckernet.version import __version__


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out in {
        f"plueckernet {__version__}, kernels: {k}\n" for k in ("avx512", "avx2", "generic", "none")
    }


def test_help_loads_no_torch() -> None:
    code = "import sys; sys.argv=['plueckernet']; import plueckernet.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(tmp_path / "a.npy", line_set(TWO_SEGMENTS))
    assert run("convert", tmp_path / "a.npy", tmp_path / "b.obj") == 0
    assert "(npy): 2 lines written to" in capsys.readouterr().err
    assert run("convert", tmp_path / "b.obj", tmp_path / "c", "--from", "obj", "--to", "line3dpp") == 0
    np.testing.assert_array_equal(read_lines(tmp_path / "c").endpoints, TWO_SEGMENTS)


def test_convert_infinite_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(tmp_path / "a.npz", infinite_lines())
    assert run("convert", tmp_path / "a.npz", tmp_path / "b.obj") == 2
    assert "infinite lines have no end points" in capsys.readouterr().err
    assert run("convert", tmp_path / "a.npz", tmp_path / "b.obj", "--clip", 50) == 0
    assert len(read_lines(tmp_path / "b.obj")) == 5


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("1 2 3 4 5 6\n1 2 3\n")
    assert run("convert", tmp_path / "a.txt", tmp_path / "b.obj") == 2
    assert capsys.readouterr().err == f"error: {tmp_path}/a.txt:2: expected 6 columns, found 3\n"
    assert not (tmp_path / "b.obj").exists()
    assert run("convert", tmp_path / "a.txt") == 2


def test_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("0 0 0 1 0 0\n0 0 0 0 2 0\n5 5 5 5 5 5\n")
    assert run("info", tmp_path / "a.txt") == 0
    shown = capsys.readouterr().out
    for text in ("format", "txt", "2 segments", "1: zero length", "1 × 2 × 0", "median", "0–10°", "100.0"):
        assert text in shown


def test_info_json_of_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(tmp_path / "a.npz", infinite_lines())
    write_lines(tmp_path / "b.obj", line_set(TWO_SEGMENTS))
    assert run("info", "--json", tmp_path / "a.npz", tmp_path / "missing", tmp_path / "b.obj") == 2
    captured = capsys.readouterr()
    infinite, segments = json.loads(captured.out)
    assert (infinite["count"], infinite["lower"]) == (5, None)
    assert (segments["format"], segments["count"], segments["dropped"]) == ("obj", 2, {})
    assert captured.err == f"error: {tmp_path}/missing: no such file or directory\n"


def test_info_of_infinite_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(tmp_path / "a.npz", infinite_lines())
    assert run("info", tmp_path / "a.npz") == 0
    assert "5 infinite lines" in capsys.readouterr().out

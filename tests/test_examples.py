"""The examples run and print the expected results."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
EXPECTED = {
    "00_register.py": "success - ",
    "01_lines_from_arrays.py": "segments: success",
    "02_refine_by_hand.py": "refined: error 0.0",
    "03_loop_closures.py": "kitchen, evening closes a loop with kitchen, morning",
}


def test_every_example_is_tested_and_numbered() -> None:
    assert [path.name for path in EXAMPLES] == sorted(EXPECTED)
    assert [path.name[:2] for path in EXAMPLES] == [f"{index:02}" for index in range(len(EXAMPLES))]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path))
    output = capsys.readouterr().out
    assert EXPECTED[path.name] in output
    assert "office closes" not in output
    assert "closes a loop with office" not in output

"""The examples run, and say what they are there to say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
SAID = {
    "00_register.py": "success - ",
    "01_lines_from_arrays.py": "segments: success",
    "02_refine_by_hand.py": "refined: 0.0",
    "03_loop_closures.py": "kitchen, evening closes a loop with kitchen, morning",
}


def test_every_example_is_tested_and_numbered() -> None:
    assert [path.name for path in EXAMPLES] == sorted(SAID)
    assert [path.name[:2] for path in EXAMPLES] == [f"{place:02}" for place in range(len(EXAMPLES))]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path))
    shown = capsys.readouterr().out
    assert SAID[path.name] in shown
    assert "office closes" not in shown
    assert "closes a loop with office" not in shown

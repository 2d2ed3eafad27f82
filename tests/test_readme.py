"""What the README and the docs say has to be true: scripts run, commands work, links lead somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from benchmarks.harness import filled
from benchmarks.readme_table import MARKERS, NUMBERS, README, rows, table
from tests.cli.helpers import FRIDAY, MONDAY, run

ROOT = README.parent
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the maps of the demo, to work in."""
    for path in (MONDAY, FRIDAY):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_script_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (script,) = blocks("python")
    assert len(script.splitlines()) <= 16
    exec(compile(script, "README.md", "exec"), {})
    assert "lines coincide" in capsys.readouterr().out
    assert (folder / "aligned.obj").exists()
    assert (folder / "result.json").exists()


def test_the_commands_work(folder: Path) -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("plueckernet ")]
    assert len(commands) == 3
    for command in commands:
        assert run(*shlex.split(command, comments=True)[1:]) == 0
    assert (folder / "report.html").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_table_is_current() -> None:
    """After a benchmark: python -m benchmarks.readme_table."""
    for page, content in ((README, table(goals=True)), (NUMBERS, table())):
        text = page.read_text(encoding="utf-8")
        assert filled(text, *MARKERS, content) == text


def test_a_table_of_any_results(tmp_path: Path) -> None:
    assert "make bench" in table(tmp_path)
    (tmp_path / "new.json").write_text('{"table": [{"what": "speed", "asked": "≥ 2", "measured": "3"}]}', "utf-8")
    (tmp_path / "old.json").write_text("{}")
    (tmp_path / "size.json").write_text('{"table": [{"what": "size", "measured": "1"}]}', "utf-8")
    with_goal = ["| speed | ≥ 2 | 3 | `new.json` |"]
    assert table(tmp_path).splitlines()[2:] == [*with_goal, "| size | – | 1 | `size.json` |"]
    assert table(tmp_path, goals=True).splitlines()[2:] == with_goal
    assert rows("confidence", {}) == []

"""What the README and the docs say has to be true: scripts run, commands work, links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from benchmarks.harness import table_rows
from benchmarks.pages import PAGES as WITH_NUMBERS
from benchmarks.pages import ROOT, filled, numbers, rendered
from tests.cli.helpers import FRIDAY, MONDAY, run

README = ROOT / "README.md"
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
    assert len(commands) == 4
    for command in commands:
        assert run(*shlex.split(command, comments=True)[1:]) == 0
    assert (folder / "report.html").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_numbers_are_those_of_the_results_and_marked_unless_of_the_present_sources() -> None:
    """After a benchmark, or a change of code that a number depends on: python -m benchmarks.pages."""
    pages = rendered()
    assert set(pages) == set(WITH_NUMBERS)
    assert [page.name for page, text in pages.items() if page.read_text(encoding="utf-8") != text] == []


def test_a_table_of_any_results(tmp_path: Path) -> None:
    assert "make bench" in numbers(tmp_path)
    row = {"what": "speed", "goal": "≥ 2", "measured": "3"}
    sources = {"module": "benchmarks.speed", "commit": "0123456789abcdef", "clean": True, "sources": "of then"}
    (tmp_path / "new.json").write_text(json.dumps({"provenance": sources, "table": [row]}), "utf-8")
    (tmp_path / "old.json").write_text("{}")
    (tmp_path / "size.json").write_text('{"table": [{"what": "size", "measured": "1"}]}', "utf-8")
    with_goal = "| speed | ≥ 2 | 3 | `new.json` at 0123456 |"
    unmarked = "| size | – | 1 | `size.json` of unknown sources |"
    assert numbers(tmp_path).splitlines()[4:] == [with_goal, unmarked]


def test_false_successes_of_every_benchmark_are_in_the_table() -> None:
    table = (ROOT / "docs" / "numbers.md").read_text(encoding="utf-8")
    for name in ("synthetic_invariant", "synthetic_descriptors", "synthetic_pluecker", "crops_invariant", "sensors"):
        lines = [line for line in table.splitlines() if f"`{name}" in line]
        assert any("wrong and called a success" in line for line in lines), name
    assert "*Right*: the error of the best pose, accepted or not, is below 5° and 0.5 m" in table


def test_rows_with_unknown_entries_are_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        table_rows([{"what": "speed", "measured": "3", "colour": "red"}])


def test_only_what_is_between_the_markers_changes() -> None:
    begin, end = "<!-- a: written by python -m benchmarks.pages -->", "<!-- end of a -->"
    page = f"before\n{begin}\nold\n{end}\nafter\n"
    assert filled(page, "a", "| 1\\2 |") == f"before\n{begin}\n\n| 1\\2 |\n\n{end}\nafter\n"
    with pytest.raises(ValueError, match="end of b"):
        filled(page, "b", "")

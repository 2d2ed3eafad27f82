"""The documentation's Python runs, page by page, from top to bottom; its commands have the options that are given."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
import torch
import typer
from benchmarks.how_tos import TASKS, Task
from benchmarks.new_user import commands
from tests.cli.helpers import house
from tests.io.test_formats import city, surface

import plueckernet
from plueckernet.cli import make_app
from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.observability import UnobservableMotion
from plueckernet.geometry import Pose
from plueckernet.io import write_lines

DOCS = Path(__file__).parents[1] / "docs"
NEEDS_DATA = {  # these are only compiled
    "batch.md": "pyarrow, and a main module that workers can import",
    "datasets.md": "prepared datasets",
    "extraction.md": "a scan",
    "howto/colmap.md": "pycolmap and two models",
    "odometry.md": "a sequence",
    "training.md": "weights of one's own",
}
IN_SMALL = {"howto/own-maps.md": ("pairs: int = 20", "pairs: int = 1")}


def blocks(page: Path, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


ALL_PAGES = sorted(DOCS.rglob("*.md"))
PAGES = {str(page.relative_to(DOCS)): page for page in ALL_PAGES if blocks(page)}
COMMANDS = sorted(
    {
        line[line.index("plueckernet ") :]
        for page in ALL_PAGES
        for block in blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if re.match(r"(\.venv/bin/)?plueckernet ", line)
    }
)


@pytest.fixture(scope="module")
def prelude() -> dict[str, object]:
    """What the pages talk about."""
    truth = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)
    source, target = house(), truth @ house()
    return {
        "pairs": [],
        "plueckernet": plueckernet,
        "result": plueckernet.register(source, target),
        "source": source,
        "sources": [source],
        "target": target,
        "targets": [target],
        "x": torch.zeros(3, dtype=torch.float64),
    }


@pytest.mark.parametrize("name", PAGES)
def test_code_runs(name: str, prelude: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("house_monday.obj", "house.obj"):
        write_lines(tmp_path / file, prelude["source"])
    write_lines(tmp_path / "house_friday.txt", prelude["target"])
    (tmp_path / "city.json").write_text(city(("roof", {"geometry": [surface("2.2", [0, 1, 2])]})))
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "house.obj", tmp_path / "other")
    names = dict(prelude)
    torch.manual_seed(0)
    for block in blocks(PAGES[name]):
        code = compile(block.replace(*IN_SMALL.get(name, ("", ""))), name, "exec")
        if name not in NEEDS_DATA:
            exec(code, names)


def test_pages_that_need_data_exist() -> None:
    assert set(NEEDS_DATA) <= {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_have_their_options(line: str) -> None:
    """They are read as the command line would, and not run."""
    command, words = typer.main.get_command(make_app()), shlex.split(line, comments=True)
    while hasattr(command, "commands"):
        command, words = command.commands[words[1]], words[1:]
    command.make_context(words[0], words[1:])


def test_a_wrong_option_would_be_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        test_commands_have_their_options("plueckernet register a.obj b.obj --repport out.html")


def test_the_reference_has_all_that_is_public() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    shown = {name for members in re.findall(r"members: \[(.*)\]", text) for name in members.split(", ")}
    public = {name for name in plueckernet.__all__ if not name.startswith("__") and not name.endswith("Error")}
    assert public - shown == {"Status"}  # which is told in words
    assert "::: plueckernet.errors" in text


def test_the_sizes_of_reports_are_those_measured() -> None:
    """After python -m benchmarks.report."""
    text = " ".join((DOCS / "report.md").read_text(encoding="utf-8").split())
    small, large = json.loads((DOCS.parent / "benchmarks/results/report.json").read_text())["reports"]
    assert f"{small['megabytes']:.2f} MB for 2,000 lines a side and {large['megabytes']:.2f} MB for 20,000" in text
    starts = large["seconds_to_start_in_software"], large["seconds_to_start_the_viewer_in_software"]
    assert f"all its lines after {starts[0]:.1f} s and the viewer after {starts[1]:.1f} s" in text
    frames = [large[f"milliseconds_per_frame_{what}_in_software"] for what in ("of_all_lines", "while_turning")]
    assert (
        f"40,000 lines takes {frames[0] / 1e3:.2f} s and a frame while the view turns {frames[1] / 1e3:.2f} s" in text
    )
    assert small["megabytes"] < 3
    assert max(starts) < 5


def test_the_path_of_a_new_user_is_short_and_the_one_measured() -> None:
    """After python -m benchmarks.new_user."""
    text = (DOCS / "start.md").read_text(encoding="utf-8")
    measured = json.loads((DOCS.parent / "benchmarks/results/new_user.json").read_text())
    assert commands() == [step["command"] for step in measured["commands"]]
    assert len(commands()) <= 5
    assert f"{measured['seconds']} s on two cores" in text


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.command)
def test_a_task_that_is_timed_stands_on_its_page(task: Task) -> None:
    """And was timed: after python -m benchmarks.how_tos."""
    assert task.command in (DOCS.parent / task.page).read_text(encoding="utf-8")
    measured = json.loads((DOCS.parent / "benchmarks/results/how_tos.json").read_text())
    assert task.command in {step["command"] for step in measured["tasks"]}


def test_the_settings_of_the_page_are_those_of_the_code() -> None:
    text = (DOCS / "registration.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z_.]+)` \| (\S+) \|", text[text.index("## Settings") : text.index("### Which")], re.M)
    assert len(rows) > 10
    for name, default in rows:
        value: object = plueckernet.RegistrationSettings()
        for attribute in name.split("."):
            value = getattr(value, attribute)
        assert default in (f"`{value}`", f"{value:g}" if isinstance(value, int | float) else "") or (
            value is None and default in ("derived", "estimated")
        )


def _keys(page: str, heading: str) -> set[str]:
    """The names in the first column of the first table below a heading."""
    text = (DOCS / page).read_text(encoding="utf-8")
    table = re.split(r"\n\n", text[text.index(heading) :].partition("\n|---")[2], maxsplit=1)[0]
    return set(re.findall(r"^\| `([a-z_A-Z]+)` \|", table, re.MULTILINE))


def test_the_evidence_of_the_page_is_that_of_the_code() -> None:
    assert _keys("registration.md", "## Evidence") == {field.name for field in fields(Evidence)}


def test_the_page_of_the_result_has_the_keys_of_the_json(prelude: dict[str, object]) -> None:
    result = prelude["result"]
    assert isinstance(result, plueckernet.RegistrationResult)
    assert _keys("result.md", "## The JSON") == set(result.to_dict())
    motion = {field.name for field in fields(UnobservableMotion)}
    assert _keys("result.md", "An object of `unobservable`") == motion
    text = (DOCS / "result.md").read_text(encoding="utf-8")
    assert all(f"`{field.name}`" in text for field in fields(Evidence))


def test_the_architecture_names_every_module_of_the_estimation() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    tree = text[text.index("  estimation/\n") : text.index("  models/ ")]
    modules = {path.name for path in (DOCS.parent / "src/plueckernet/estimation").rglob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"\b[a-z_]+\.py\b", tree)) == modules

"""From the published files to Table 1: the commands of the documentation, on small files of the published layouts."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.cli.helpers import run
from tests.data.datasets import published

PAGE = Path(__file__).resolve().parents[1] / "docs" / "experiments.md"
SMALL = {
    "prepare": [],
    "train": [
        "--set", "model.layers=2", "--set", "train.steps=2", "--set", "train.batch=2", "--set", "data.sizes=[48]",
        "--set", "data.pool=64", "--set", "data.stored=96", "--set", "validation.pairs=1", "--quiet",
    ],
    "weights": [],
    "reproduce": ["--limit", "1"],
}  # fmt: skip


def commands() -> list[list[str]]:
    """All commands of the section, in their order."""
    section = PAGE.read_text(encoding="utf-8").split("### From the downloads to Table 1\n")[1].split("\n### ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def downloads(folder: Path) -> None:
    """Small files with the names and in the folders that their publishers chose."""
    published.structured3d(folder / "Structured3D", count=4)
    published.semantic3d_town(folder / "semantic-8", "sg27_station10_intensity_rgb")
    published.apollo(folder, count=3)
    next(folder.glob("road02_ins_depth/**/170927_063811892_Camera_5.png")).unlink()
    for seed, name in enumerate(("structured3D_train", "structured3D_valid", "semantic3D_train", "semantic3D_valid")):
        published.authors(folder / "dataset" / name, count=2, seed=seed)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which all commands were run, and what they printed."""
    folder = tmp_path_factory.mktemp("paper")
    downloads(folder)
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as capture:
        patch.chdir(folder)
        said: list[str] = []
        capture.setattr("typer.echo", lambda text="", **_: said.append(str(text)))
        for program, name, *arguments in commands():
            assert program == "plueckernet"
            adapted = ["cpu" if argument == "cuda" else "1" if argument == "8" else argument for argument in arguments]
            assert run(name, *adapted, *SMALL[name]) == 0, (name, arguments)
    return folder, "\n".join(said)


def test_every_step_is_a_command_of_the_page() -> None:
    names = [name for _, name, *_ in commands()]
    assert [names.count(name) for name in ("prepare", "train", "weights", "reproduce")] == [5, 6, 6, 3]


def test_preparation_says_what_it_has(workplace: tuple[Path, str]) -> None:
    _, said = workplace
    assert "found 1 of 30 published scans" in said
    assert "found 4 of 3,500 published houses" in said
    assert "found 2 of 3 frames; 1 lack an image" in said
    assert "left out Record001_Camera_5__170927_063811892_Camera_5: no depth image" in said


def test_weights_tell_their_recipe(workplace: tuple[Path, str]) -> None:
    folder, _ = workplace
    card = json.loads((folder / "weights" / "pluecker-outdoor.json").read_text())
    recipe = card["numbers"]["recipe"]
    assert recipe["data"]["lines"] == "cells/train"
    assert (recipe["train"]["lr"], recipe["train"]["schedule"], recipe["train"]["steps"]) == (1e-3, "constant", 2)
    assert card["numbers"]["steps"] == 2
    head = json.loads((folder / "weights" / "regression-indoor.json").read_text())["architecture"]["head"]
    assert head == [256, 128, 128, 64, 64, 7]


def test_tables_are_of_the_prepared_data(workplace: tuple[Path, str]) -> None:
    folder, _ = workplace
    for name in ("table1", "table1-each-axis"):
        values = json.loads((folder / "results" / f"{name}.json").read_text())["values"]
        assert values["setting"]["datasets"] == {"indoor": "houses (indoor)", "outdoor": "cells (outdoor)"}
        assert all(cell["pairs"] == 1 for cells in values["cells"].values() for cell in cells.values())
    turns = [
        json.loads((folder / "results" / f"{name}.json").read_text())["values"]["setting"]["protocols"]["indoor"][0][
            "noise"
        ]["turn"]
        for name in ("table1", "table1-each-axis")
    ]
    assert turns == ["random-axis", "each-axis"]
    drive = json.loads((folder / "results" / "odometry.json").read_text())["values"]
    assert drive["setting"]["protocols"]["street"] == [{"protocol": "Recorded"}]
    assert drive["setting"]["pairs"] == {"street": 1}  # the gap leaves one


def test_recorded_pairs_are_evaluated_as_recorded(workplace: tuple[Path, str]) -> None:
    folder, _ = workplace
    table = json.loads((folder / "results-pairs" / "table1.json").read_text())["values"]
    assert table["setting"]["protocols"]["indoor"] == [{"protocol": "Recorded"}]
    overlap = json.loads((folder / "results-pairs" / "overlap.json").read_text())["values"]
    shown = [cell is not None for cell in overlap["cells"]["indoor"]["icl"]]
    assert shown == [value <= 0.7 for value in overlap["values"]]
    rows = [line for line in (folder / "results-pairs" / "overlap.md").read_text().splitlines() if line[:3] == "| 1"]
    assert [row.count("| –") for row in rows] == [4, 4]  # lines in common and three methods

"""The worked example of docs/training.md, with small sizes."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.cli.helpers import FRIDAY, MONDAY, run
from tests.training.tiny import SMALL

from plueckernet.training import available_configs

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
OWN = PAGE[PAGE.index("## On your own line maps") : PAGE.index("## The config file")]
SHORTER = [*SMALL, "train.steps=2", "validation.workers=0", "data.fresh=1"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", OWN, re.MULTILINE | re.DOTALL)


def test_the_worked_example_works(tmp_path, monkeypatch, capsys):
    """As printed, except for the device and the size: two small steps on the CPU."""
    monkeypatch.chdir(tmp_path)
    Path("maps").mkdir()
    shutil.copy(MONDAY, "maps")
    shutil.copy(FRIDAY, "maps")
    (config,), (commands,), (script,) = blocks("toml"), blocks("sh"), blocks("python")
    Path("mine.toml").write_text(config)
    train, *others = (shlex.split(command)[1:] for command in commands.splitlines())
    settings = [word for setting in SHORTER for word in ("--set", setting)]
    assert run(*[word if word != "cuda" else "cpu" for word in train], "--quiet", *settings) == 0
    for command in others:
        assert run(*command) == 0
    assert "our own maps" in capsys.readouterr().out
    shutil.copy(MONDAY, "monday.obj")
    shutil.copy(FRIDAY, "friday.txt")
    scope: dict[str, object] = {}
    exec(compile(script, "training.md", "exec"), scope)
    assert scope["result"].target_T_source is not None


def test_training_goes_on_from_exported_weights(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    settings = [word for setting in (*SMALL, "train.steps=1") for word in ("--set", setting)]
    assert run("train", "tiny", "--quiet", *settings) == 0
    assert run("weights", "export", "runs/tiny", "--out", ".") == 0
    start = ["--set", "train.start=tiny.safetensors", "--quiet", *settings]
    assert run("train", "tiny", "--out", "more", *start) == 0
    assert run("train", "tiny", "--out", "other", *start, "--set", "model.heads=2") == 2
    assert "tiny.safetensors: these weights are of another network" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["nowhere", "empty"])
def test_a_folder_without_maps_is_named(tmp_path, monkeypatch, capsys, folder):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    settings = [word for setting in (*SMALL, f"data.lines={folder}") for word in ("--set", setting)]
    assert run("train", "tiny", "--quiet", *settings) == 2
    assert capsys.readouterr().err.startswith(f"error: {folder}: no")


def test_every_shipped_config_is_in_the_table():
    table = PAGE[: PAGE.index("```sh")]
    assert set(re.findall(r"`([a-z-]+)`", table)) >= set(available_configs())

"""A checkpoint is complete after an interruption at any point of its writing."""

import json
from pathlib import Path

import pytest
import torch

from plueckernet.errors import FormatError, InputError
from plueckernet.training import checkpoint as module
from plueckernet.training.checkpoint import Checkpoint, find_checkpoint, load_checkpoint, save_checkpoint
from plueckernet.training.config import load_config
from plueckernet.training.export import export_weights


def made(number: float) -> Checkpoint:
    tensors = {"model": {"w": torch.full((3,), number)}, "ema": {"w": torch.full((3,), -number)}}
    return Checkpoint(tensors, {"step": int(number)})


def test_round_trip(tmp_path):
    save_checkpoint(tmp_path / "last", made(1.0))
    save_checkpoint(tmp_path / "last", made(2.0))
    loaded = load_checkpoint(tmp_path / "last")
    assert loaded.state == {"step": 2}
    assert torch.equal(loaded.tensors["model"]["w"], torch.full((3,), 2.0))
    assert torch.equal(loaded.weights["w"], torch.full((3,), -2.0))
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_without_a_moving_average_the_weights_are_those_of_the_model(tmp_path):
    save_checkpoint(tmp_path / "best", Checkpoint({"model": {"w": torch.ones(2)}}, {}))
    assert torch.equal(load_checkpoint(tmp_path / "best").weights["w"], torch.ones(2))


@pytest.mark.parametrize("moment", range(6))
def test_after_an_interruption_the_old_or_the_new_checkpoint_is_complete(tmp_path, monkeypatch, moment):
    """Fail at each call that changes the disk; reading and writing must work afterwards."""
    folder = tmp_path / "last"
    save_checkpoint(folder, made(1.0))
    calls = 0

    def interrupted_at(function):
        def wrapped(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls > moment:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return wrapped

    with monkeypatch.context() as patched:
        patched.setattr(module, "atomic_write_bytes", interrupted_at(module.atomic_write_bytes))
        patched.setattr(module, "atomic_write", interrupted_at(module.atomic_write))
        patched.setattr(Path, "rename", interrupted_at(Path.rename))
        try:
            save_checkpoint(folder, made(2.0))
        except KeyboardInterrupt:
            assert moment < 5
        else:
            assert moment == 5  # two files, the state, two renames
    step = load_checkpoint(folder).state["step"]
    assert step == (2 if moment == 5 else 1)
    assert find_checkpoint(tmp_path) == folder
    save_checkpoint(folder, made(3.0))
    assert load_checkpoint(folder).state["step"] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_the_best_checkpoint_has_priority_over_the_last(tmp_path):
    save_checkpoint(tmp_path / "last", made(1.0))
    assert find_checkpoint(tmp_path) == tmp_path / "last"
    save_checkpoint(tmp_path / "best", made(2.0))
    assert find_checkpoint(tmp_path) == tmp_path / "best"
    assert find_checkpoint(tmp_path / "last") == tmp_path / "last"


def test_a_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        load_checkpoint(tmp_path / "nowhere")
    with pytest.raises(InputError, match=str(tmp_path)):
        find_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["state.json", "model.safetensors"])
def test_a_broken_file_is_named(tmp_path, name):
    save_checkpoint(tmp_path / "last", made(1.0))
    (tmp_path / "last" / name).write_bytes(b"nothing of the kind")
    with pytest.raises(FormatError, match=name):
        load_checkpoint(tmp_path / "last")


def test_missing_weights_are_reported(tmp_path):
    folder = tmp_path / "last"
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps({}))
    with pytest.raises(FormatError, match="no weights"):
        load_checkpoint(folder)


def test_the_name_of_a_checkpoint_does_not_lead_elsewhere(tmp_path):
    config = load_config("tiny").to_tables() | {"name": "../elsewhere"}
    state = {"version": "0", "step": 1, "best": {}, "config": config}
    save_checkpoint(tmp_path / "last", Checkpoint({"model": {"w": torch.ones(2)}}, state))
    with pytest.raises(FormatError, match=r"'\.\./elsewhere' is not that of a file"):
        export_weights(tmp_path / "last", tmp_path / "out")

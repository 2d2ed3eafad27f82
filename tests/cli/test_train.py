"""`plueckernet train` and `plueckernet weights`: from a config to weights that load."""

import json
import os
import signal

import pytest
import torch
from tests.cli.helpers import run
from tests.training.tiny import SMALL

from plueckernet.data.batches import PairBatch
from plueckernet.data.stream import PairStream
from plueckernet.models.weights import available_pretrained, load_card, load_pretrained
from plueckernet.training.checkpoint import load_checkpoint

SETTINGS = [word for setting in SMALL for word in ("--set", setting)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a training of two steps."""
    out = tmp_path_factory.mktemp("runs") / "tiny"
    assert run("train", "tiny", "--out", out, "--quiet", *SETTINGS, "--set", "train.steps=2") == 0
    return out


def test_a_training_leaves_checkpoints_and_a_log(trained):
    assert {path.name for path in trained.iterdir()} >= {"last", "best", "log.jsonl"}
    rows = [json.loads(line) for line in (trained / "log.jsonl").read_text().splitlines()]
    assert [(row["kind"], row["step"]) for row in rows] == [("train", 1), ("train", 2), ("validation/parts", 2)]
    assert {"loss", "precision", "rate", "gradient"} <= set(rows[0])


def test_tensorboard_has_the_loss(trained):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(trained / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2]


def test_exported_weights_are_those_of_the_best_checkpoint(trained, tmp_path, capsys):
    (tmp_path / "results.json").write_text('{"success": 0.25}')
    code = run(
        "weights", "export", trained, "--out", tmp_path, "--name", "mine", "--results", tmp_path / "results.json"
    )
    assert code == 0
    assert "mine.safetensors" in capsys.readouterr().out
    best = load_checkpoint(trained / "best")
    model = load_pretrained(tmp_path / "mine.safetensors")
    for name, value in model.state_dict().items():
        assert torch.equal(value, best.weights[name])
    card = load_card(tmp_path / "mine.safetensors")
    assert card.numbers["results"] == {"success": 0.25}
    assert card.numbers["steps"] == 2
    assert "rooms" in card.data


def test_half_the_bits_are_nearly_the_same_weights(trained, tmp_path):
    assert run("weights", "export", trained / "last", "--out", tmp_path, "--half") == 0
    assert (tmp_path / "tiny.safetensors").stat().st_size < 0.52 * (
        trained / "best" / "model.safetensors"
    ).stat().st_size
    weights = load_checkpoint(trained / "last").weights
    for name, value in load_pretrained(tmp_path / "tiny.safetensors").state_dict().items():
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, weights[name], rtol=1e-3, atol=1e-6)


def test_info_shows_the_card_and_tells_files_apart(trained, tmp_path, capsys):
    assert run("weights", "export", trained, "--out", tmp_path) == 0
    capsys.readouterr()
    assert run("weights", "info", tmp_path / "tiny.safetensors") == 0
    shown = capsys.readouterr().out
    count = sum(value.numel() for value in load_checkpoint(trained / "best").weights.values())
    assert f"{count:,}" in shown
    assert "32 synthetic rooms" in shown
    assert "sha256" in shown


def test_info_without_a_name_lists_what_there_is(capsys):
    assert run("weights", "info") == 0
    shown = capsys.readouterr().out
    for name in available_pretrained():
        assert name in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["train", "nonsense"], "no config 'nonsense'"),
        (["train", "tiny", "--set", "train.stepz=3"], "train.stepz"),
        (["train", "tiny", "--device", "abacus"], "--device abacus"),
        (["weights", "export", "nowhere", "--out", "x"], "nowhere"),
        (["weights", "info", "nonsense"], "nonsense"),
    ],
)
def test_bad_input_is_one_line(arguments, complaint, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert complaint in lines[0]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_training_can_be_resumed(tmp_path, monkeypatch, capsys, number):
    batch = PairStream.batch

    def interrupting(self: PairStream, step: int) -> PairBatch:
        if step == 2:
            os.kill(os.getpid(), number)
        return batch(self, step)

    handler = signal.getsignal(signal.SIGINT)
    command = ["train", "tiny", "--out", tmp_path, *SETTINGS, "--set", "train.steps=5"]
    with monkeypatch.context() as patched:
        patched.setattr(PairStream, "batch", interrupting)
        assert run(*command) == 130
    assert "interrupted after 3 of 5 steps" in capsys.readouterr().err
    assert load_checkpoint(tmp_path / "last").state["step"] == 3
    assert run(*command, "--resume") == 0
    assert "finished after 5 of 5 steps" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is handler

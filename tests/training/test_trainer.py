"""Training gives the same result with and without interruptions."""

import dataclasses
import math
from itertools import pairwise

import pytest
from tests.training.tiny import files, stream, tiny, trainer
from torch.nn.utils import parameters_to_vector

from plueckernet.errors import InputError
from plueckernet.training import PairSource, load_config, train, validation
from plueckernet.training.checkpoint import load_checkpoint, save_checkpoint
from plueckernet.training.trainer import learning_rate


@pytest.fixture(autouse=True)
def _poses_at_once(monkeypatch):
    """Skip the estimation of poses, which takes most of the time and is tested elsewhere."""
    monkeypatch.setattr(validation, "_estimated", lambda task: (1.0, 0.1))


def test_a_stream_is_a_source_of_pairs():
    assert isinstance(stream(tiny()), PairSource)


def test_the_loss_decreases_and_the_average_follows():
    config = tiny("train.steps=30", "train.lr=3e-3", "data.surveys=0", "data.infinite=0", "data.keep=[1, 1]")
    pairs, model_trainer = stream(config), trainer(config)
    batch = pairs.batch(0)
    losses = [model_trainer.advance(batch, pairs).loss for _ in range(25)]
    assert losses[-1] < 0.7 * losses[0]
    start = config.model.build(config.train.seed)
    average, now, then = (
        parameters_to_vector(net.parameters()).detach() for net in (model_trainer.average, model_trainer.network, start)
    )
    assert 0 < (average - now).norm() < (now - then).norm()
    assert 0 < (average - then).norm() < (now - then).norm()


def test_resuming_after_three_of_six_steps_is_bit_exact(tmp_path):
    config = tiny("train.steps=6")
    train(config, tmp_path / "straight", quiet=True)
    pairs, model_trainer = stream(config), trainer(config)
    for step in range(3):
        model_trainer.advance(pairs.batch(step), pairs)
    save_checkpoint(tmp_path / "resumed" / "last", model_trainer.checkpoint())
    outcome = train(config, tmp_path / "resumed", resume=True, quiet=True)
    assert outcome.step == 6
    straight, resumed = files(tmp_path / "straight" / "last"), files(tmp_path / "resumed" / "last")
    assert set(straight) == {f"{n}.safetensors" for n in ("model", "ema", "first_moment", "second_moment")} | {
        "state.json"
    }
    assert straight == resumed


def test_the_time_limit_leaves_a_checkpoint_to_resume_from(tmp_path):
    config = tiny("train.steps=2")
    train(config, tmp_path / "straight", quiet=True)
    endings = [train(config, tmp_path / "resumed", minutes=0.0, quiet=True)]
    while endings[-1].ending != "finished":
        endings.append(train(config, tmp_path / "resumed", resume=True, minutes=0.0, quiet=True))
    assert [(outcome.step, outcome.ending) for outcome in endings] == [(1, "time"), (2, "finished")]
    assert files(tmp_path / "straight" / "last") == files(tmp_path / "resumed" / "last")


def test_a_folder_with_a_training_is_not_written_over(tmp_path):
    config = tiny("train.steps=1")
    train(config, tmp_path, quiet=True)
    with pytest.raises(InputError, match="--resume"):
        train(config, tmp_path, quiet=True)


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    train(tiny("train.steps=1"), tmp_path, quiet=True)
    with pytest.raises(InputError, match="another network"):
        train(tiny("train.steps=2", "model.heads=2"), tmp_path, resume=True, quiet=True)


def test_there_is_nothing_to_resume_in_an_empty_folder(tmp_path):
    with pytest.raises(InputError, match="no checkpoint"):
        train(tiny(), tmp_path, resume=True, quiet=True)


@pytest.mark.parametrize("network", ["pluecker", "regression"])
def test_the_networks_of_the_paper_train_too(tmp_path, network):
    small = ("model.layers=2", "data.sizes=[16]", "data.pool=2", "data.fresh=0", "data.stored=32", "train.batch=2")
    short = ("train.steps=2", "train.workers=0", "validation.workers=0", "validation.pairs=1", "train.log_every=1")
    config = load_config(f"{network}-indoor", [*small, *short])
    outcome = train(config, tmp_path, quiet=True)
    assert outcome.best is not None
    assert math.isfinite(outcome.best["cells"]["all"]["loss"])
    assert load_checkpoint(tmp_path / "best").state["step"] == 2


def test_the_rate_rises_and_falls():
    settings = tiny("train.steps=100", "train.warmup=10", "train.lr=1.0").train
    rates = [learning_rate(step, settings) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9]
    assert all(a > b for a, b in pairwise(rates[9:]))
    assert rates[50] == pytest.approx(0.5)
    assert rates[99] < 1e-3
    constant = dataclasses.replace(settings, schedule="constant")
    assert learning_rate(99, constant) == 1.0

"""Bad steps are not taken; a series of them rolls training back."""

import math

import pytest
import torch
from tests.training.tiny import stream, tiny, trainer

from plueckernet.training.guard import Guard


@pytest.mark.parametrize("bad", [(math.nan, 1.0), (1.0, math.inf), (math.inf, math.nan)])
def test_a_non_finite_step_is_skipped(bad):
    guard = Guard()
    assert guard.judge(1.0, 1.0) == "take"
    assert guard.judge(*bad) == "skip"
    assert guard.judge(1.0, 1.0) == "take"
    assert (guard.skipped, guard.rollbacks, guard.rate) == (1, 0, 1.0)


def record_low_losses(guard):
    for _ in range(30):
        assert guard.judge(1.0, 1.0) == "take"


def test_bad_steps_in_a_row_roll_back_and_halve_the_rate():
    guard = Guard()
    decisions = [guard.judge(math.nan, 1.0) for _ in range(16)]
    assert decisions == (["skip"] * 7 + ["rollback"]) * 2
    assert (guard.rate, guard.skipped, guard.rollbacks) == (0.25, 14, 2)


def test_a_single_high_loss_is_accepted_but_a_lasting_one_rolls_back():
    guard = Guard()
    assert guard.judge(5.0, 1.0) == guard.judge(50.0, 1.0) == "take"  # too few losses for a median
    record_low_losses(guard)
    for _ in range(3):
        assert [guard.judge(3.1, 1.0) for _ in range(7)] == ["take"] * 7
        assert guard.judge(2.9, 1.0) == "take"  # below three times the median
    assert [guard.judge(3.1, 1.0) for _ in range(8)] == ["take"] * 7 + ["rollback"]
    assert guard.skipped == 0


def test_the_state_is_restored():
    original, restored = Guard(), Guard()
    record_low_losses(original)
    for _ in range(3):
        original.judge(math.nan, 1.0)
    restored.load(original.state())
    for guard in (original, restored):
        assert [guard.judge(4.0, 1.0) for _ in range(5)] == ["take"] * 4 + ["rollback"]
    assert original.state() == restored.state()


class Poisoned:
    """Pairs, some of which have NaN coordinates."""

    def __init__(self, pairs, bad):
        self.pairs, self.bad = pairs, bad

    def batch(self, step):
        batch = self.pairs.batch(step)
        if step in self.bad:
            batch.source.direction.fill_(torch.nan)
        return batch

    def close(self):
        self.pairs.close()


def test_a_nan_batch_changes_only_the_count():
    config = tiny("train.steps=4")
    pairs, model_trainer = Poisoned(stream(config), bad={1}), trainer(config)
    model_trainer.advance(pairs.batch(0), pairs)
    before = {name: value.clone() for name, value in model_trainer.network.state_dict().items()}
    moments = model_trainer.optimizer.state_dict()["state"][0]["exp_avg"].clone()
    assert model_trainer.advance(pairs.batch(1), pairs).decision == "skip"
    assert model_trainer.step == 2
    for name, value in model_trainer.network.state_dict().items():
        assert torch.equal(value, before[name])
    assert torch.equal(model_trainer.optimizer.state_dict()["state"][0]["exp_avg"], moments)
    assert model_trainer.advance(pairs.batch(2), pairs).decision == "take"


def test_many_nan_batches_restore_the_start_and_halve_the_rate():
    config = tiny("train.steps=12", "train.warmup=1", "train.schedule=constant")
    pairs, model_trainer = Poisoned(stream(config), bad=range(2, 10)), trainer(config)
    start = {name: value.clone() for name, value in model_trainer.network.state_dict().items()}
    results = [model_trainer.advance(pairs.batch(step), pairs) for step in range(10)]
    assert [result.decision for result in results] == ["take"] * 2 + ["skip"] * 7 + ["rollback"]
    for module in (model_trainer.network, model_trainer.average):
        for name, value in module.state_dict().items():
            assert torch.equal(value, start[name])
    assert not model_trainer.optimizer.state_dict()["state"]
    result = model_trainer.advance(pairs.batch(10), pairs)
    assert result.decision == "take"
    assert result.rate == config.train.lr / 2

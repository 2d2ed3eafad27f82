"""Bad steps are not taken; if they go on, training goes back."""

import math

import pytest
import torch
from tests.training.tiny import stream, tiny, trainer

from plueckernet.training.guard import Guard


@pytest.mark.parametrize("bad", [(math.nan, 1.0), (1.0, math.inf), (math.inf, math.nan)])
def test_what_is_not_finite_is_left_out(bad):
    guard = Guard()
    assert guard.judge(1.0, 1.0) == "good"
    assert guard.judge(*bad) == "skip"
    assert guard.judge(1.0, 1.0) == "good"
    assert (guard.skipped, guard.returned, guard.rate) == (1, 0, 1.0)


def usual(guard):
    for _ in range(30):
        assert guard.judge(1.0, 1.0) == "good"


def test_bad_steps_in_a_row_lead_back_and_halve_the_rate():
    guard = Guard()
    verdicts = [guard.judge(math.nan, 1.0) for _ in range(16)]
    assert verdicts == (["skip"] * 7 + ["back"]) * 2
    assert (guard.rate, guard.skipped, guard.returned) == (0.25, 14, 2)


def test_a_hard_batch_is_learned_from_but_a_loss_that_stays_high_leads_back():
    guard = Guard()
    assert guard.judge(5.0, 1.0) == guard.judge(50.0, 1.0) == "good"  # at first nobody knows what is usual
    usual(guard)
    for _ in range(3):
        assert [guard.judge(3.1, 1.0) for _ in range(7)] == ["good"] * 7
        assert guard.judge(2.9, 1.0) == "good"  # below three times the median
    assert [guard.judge(3.1, 1.0) for _ in range(8)] == ["good"] * 7 + ["back"]
    assert guard.skipped == 0


def test_its_state_goes_on_where_it_was():
    one, other = Guard(), Guard()
    usual(one)
    for _ in range(3):
        one.judge(math.nan, 1.0)
    other.load(one.state())
    for guard in (one, other):
        assert [guard.judge(4.0, 1.0) for _ in range(5)] == ["good"] * 4 + ["back"]
    assert one.state() == other.state()


class Poisoned:
    """Pairs of which some have coordinates that are no numbers."""

    def __init__(self, pairs, bad):
        self.pairs, self.bad = pairs, bad

    def batch(self, step):
        batch = self.pairs.batch(step)
        if step in self.bad:
            batch.source.direction.fill_(torch.nan)
        return batch

    def close(self):
        self.pairs.close()


def test_a_poisoned_batch_changes_nothing_but_the_count():
    config = tiny("train.steps=4")
    pairs, one = Poisoned(stream(config), bad={1}), trainer(config)
    one.advance(pairs.batch(0), pairs)
    before = {name: value.clone() for name, value in one.network.state_dict().items()}
    moments = one.optimizer.state_dict()["state"][0]["exp_avg"].clone()
    assert one.advance(pairs.batch(1), pairs).verdict == "skip"
    assert one.step == 2
    for name, value in one.network.state_dict().items():
        assert torch.equal(value, before[name])
    assert torch.equal(one.optimizer.state_dict()["state"][0]["exp_avg"], moments)
    assert one.advance(pairs.batch(2), pairs).verdict == "good"


def test_after_many_of_them_it_is_where_it_began_and_learns_at_half_the_rate():
    config = tiny("train.steps=12", "train.warmup=1", "train.schedule=constant")
    pairs, one = Poisoned(stream(config), bad=range(2, 10)), trainer(config)
    start = {name: value.clone() for name, value in one.network.state_dict().items()}
    results = [one.advance(pairs.batch(step), pairs) for step in range(10)]
    assert [result.verdict for result in results] == ["good"] * 2 + ["skip"] * 7 + ["back"]
    for module in (one.network, one.average):
        for name, value in module.state_dict().items():
            assert torch.equal(value, start[name])
    assert not one.optimizer.state_dict()["state"]
    result = one.advance(pairs.batch(10), pairs)
    assert result.verdict == "good"
    assert result.rate == config.train.lr / 2

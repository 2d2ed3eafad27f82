"""The fits find the models that made the data, whatever the units of the features and the padding of the rows."""

import numpy as np
import pytest

from plueckernet.evaluation.logistic_fits import fit_choice, fit_logistic
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.reliability import reliability

TRUTH = np.array([1.0, 0.5, -2.0])


def choices(rows: int, candidates: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, which candidates there are, and the one that a conditional logit with the true weights draws."""
    generator = np.random.default_rng(0)
    x = generator.normal(4.0, (1.0, 3.0, 0.4), size=(rows, candidates, 3))
    present = np.arange(candidates) < generator.integers(2, candidates + 1, size=rows)[:, None]
    drawn = np.where(present, x @ TRUTH + generator.gumbel(size=present.shape), -np.inf).argmax(1)
    return x, present, np.arange(candidates) == drawn[:, None]


def test_a_logistic_fit_finds_the_model_that_made_the_data():
    generator = np.random.default_rng(0)
    x = generator.normal(3.0, (1.0, 2.0, 0.3), size=(4000, 3))
    probability = 1 / (1 + np.exp(-4.0 - x @ np.array([1.0, 0.5, -3.0])))
    right = generator.random(len(x)) < probability
    constant, weights = fit_logistic(x, right, np.ones(len(x)))
    assert weights == pytest.approx([1.0, 0.5, -3.0], abs=0.4)
    assert np.abs(1 / (1 + np.exp(-constant - x @ weights)) - probability).mean() < 0.02
    bins = reliability(probability, right)
    assert sum((entry.right for entry in bins), Rate(0, 0)) == Rate(int(right.sum()), 4000)
    assert all(abs(entry.confidence - entry.right.fraction) < 0.1 for entry in bins if entry.right.total > 100)


def test_a_weight_of_two_is_the_row_twice():
    generator = np.random.default_rng(2)
    x = np.repeat(generator.normal(size=(40, 1)), 2, 0)  # a row and its copy, so that doubling keeps the deviation
    right = generator.uniform(size=80) < 1 / (1 + np.exp(-x[:, 0]))
    doubled = fit_logistic(x, right, np.full(80, 2.0))
    again = fit_logistic(np.concatenate([x, x]), np.concatenate([right, right]), np.ones(160))
    assert doubled[0] == pytest.approx(again[0], abs=1e-4)
    assert doubled[1] == pytest.approx(again[1], abs=1e-4)


def test_a_choice_fit_finds_the_model_that_made_the_data():
    x, present, right = choices(4000)
    assert fit_choice(x, present, right, np.ones(len(x))) == pytest.approx(TRUTH, abs=0.15)


def test_a_choice_depends_on_neither_units_nor_padding():
    x, present, right = choices(300)
    weights = fit_choice(x, present, right, np.ones(300))
    scale = np.array([10.0, 0.1, 3.0])
    assert fit_choice(7.0 + x * scale, present, right, np.ones(300)) * scale == pytest.approx(weights, abs=1e-3)
    wider = [np.pad(array, ((0, 0), (0, 2))) for array in (present, right)]
    padded = np.pad(x, ((0, 0), (0, 2), (0, 0)), constant_values=99.0)
    assert fit_choice(padded, *wider, np.ones(300)) == pytest.approx(weights, abs=1e-6)


def test_of_several_right_candidates_any_may_be_chosen():
    """The second right candidate is worse than the wrong one, which says nothing against the best."""
    x = np.tile(np.array([3.0, 1.5, 2.0])[:, None], (40, 1, 1))
    present = np.ones((40, 3), dtype=bool)
    right = np.tile([True, True, False], (40, 1))
    assert fit_choice(x, present, right, np.ones(40))[0] > 1.0
    assert abs(fit_choice(x, present, present, np.ones(40))[0]) < 1e-6  # nothing is learned from right ones only

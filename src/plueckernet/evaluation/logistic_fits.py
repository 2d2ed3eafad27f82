"""Maximum-likelihood fits of the two logistic models of a calibration, with a little shrinkage.

Features are standardised inside a fit, so that the shrinkage treats them alike; the weights are those of the features
as they are given.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from plueckernet.errors import MissingDependencyError

try:
    from scipy.optimize import minimize
    from scipy.special import logsumexp, softmax
except ModuleNotFoundError as missing:
    raise MissingDependencyError("scipy", "evaluate") from missing

_SHRINKAGE = 0.5  # of the squared weight of a standardised feature
_MIN_DEVIATION = 1e-9


def fit_logistic(
    x: Float[np.ndarray, "n f"], right: Bool[np.ndarray, " n"], importance: Float[np.ndarray, " n"]
) -> tuple[float, Float[np.ndarray, " f"]]:
    """Constant ``a`` and weights ``w`` of the model ``P(right) = 1 / (1 + exp(-a - x w))``."""
    mean, scale = x.mean(0), _scale(x)
    standard = np.concatenate([np.ones((len(x), 1)), (x - mean) / scale], 1)
    shrinkage = np.full(standard.shape[1], _SHRINKAGE)
    shrinkage[0] = 0.0

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logit = standard @ weights
        value = importance @ np.logaddexp(0, np.where(right, -logit, logit))
        probability = 1 / (1 + np.exp(-np.clip(logit, -700, 700)))
        return float(value), standard.T @ (importance * (probability - right))

    fitted = _minimum(loss, shrinkage)
    weights = fitted[1:] / scale
    return float(fitted[0] - mean @ weights), weights


def fit_choice(
    x: Float[np.ndarray, "n k f"],
    present: Bool[np.ndarray, "n k"],
    right: Bool[np.ndarray, "n k"],
    importance: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " f"]:
    """Weights of a conditional logit: ``P(i is right) = exp(x_i w) / sum_j exp(x_j w)`` over the present candidates.

    Each row has a right candidate. Where several are right, the sum of their probabilities counts.
    """
    scale = _scale(x[present])
    standard = np.where(present[..., None], (x - x[present].mean(0)) / scale, 0.0)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        preference = np.where(present, standard @ weights, -np.inf)
        among_right = np.where(right, preference, -np.inf)
        value = importance @ (logsumexp(preference, axis=1) - logsumexp(among_right, axis=1))
        excess = importance[:, None] * (softmax(preference, axis=1) - softmax(among_right, axis=1))
        return float(value), np.einsum("nk,nkf->f", excess, standard)

    return _minimum(loss, np.full(x.shape[-1], _SHRINKAGE)) / scale


def _scale(x: Float[np.ndarray, "n f"]) -> Float[np.ndarray, " f"]:
    """Standard deviations; one for a feature that does not vary."""
    deviation = x.std(0)
    return np.where(deviation > _MIN_DEVIATION, deviation, 1.0)


def _minimum(
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]], shrinkage: Float[np.ndarray, " f"]
) -> Float[np.ndarray, " f"]:
    """Where a loss, given with its gradient, is smallest after the shrinkage is added."""

    def shrunk(weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = loss(weights)
        return value + float(shrinkage @ weights**2), slope + 2 * shrinkage * weights

    return np.asarray(minimize(shrunk, np.zeros(len(shrinkage)), jac=True, method="L-BFGS-B").x)

"""Networks that match lines: the invariant matcher, PlückerNet as published, and its regression baseline."""

from plueckernet.models.loss import matchability_loss, matching_loss
from plueckernet.models.matcher import (
    InvariantConfig,
    Matcher,
    MatcherConfig,
    MatchOutput,
    PlueckerConfig,
    build_matcher,
)
from plueckernet.models.regression import PoseRegressor, regression_loss
from plueckernet.models.transport import SinkhornConfig, TopMatches, sinkhorn, top_k_matches

__all__ = [
    "InvariantConfig",
    "MatchOutput",
    "Matcher",
    "MatcherConfig",
    "PlueckerConfig",
    "PoseRegressor",
    "SinkhornConfig",
    "TopMatches",
    "build_matcher",
    "matchability_loss",
    "matching_loss",
    "regression_loss",
    "sinkhorn",
    "top_k_matches",
]

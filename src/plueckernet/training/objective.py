"""What training minimises, and how good the matches of a batch are."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from plueckernet.data.batches import PairBatch
from plueckernet.models import Matcher, MatchOutput, matchability_loss, matching_loss, regression_loss, top_matches
from plueckernet.models.regression import RegressedPose

Prediction = MatchOutput | RegressedPose
_BEST = 200  # mutual matches that are looked at
_ENOUGH = 8  # right ones among them that are enough for a pose


def loss_of(network: nn.Module, output: Prediction, batch: PairBatch) -> Float[Tensor, ""]:
    """The loss of a matcher or of the regression, averaged over the pairs."""
    if isinstance(output, RegressedPose):
        return regression_loss(output, batch.target_T_source)
    loss = matching_loss(output.log_probability, batch.correspondence)
    if (
        isinstance(network, Matcher) and network.head.assignment == "transport"
    ):  # its matchabilities are distributions, which the matches alone teach
        return loss
    return loss + matchability_loss(output, batch.correspondence)


def autocast(device: str, bf16: bool) -> AbstractContextManager[Any]:
    """The bfloat16 of a forward pass, where it is asked for."""
    return torch.autocast(device, torch.bfloat16) if bf16 else nullcontext()


@torch.no_grad()
def match_sums(log_probability: Float[Tensor, "b m n"], correspondence: Bool[Tensor, "b m n"]) -> Float[Tensor, "5"]:
    """Sums over pairs of what the 200 best mutual matches are worth; :func:`match_quality` makes shares of them."""
    pairs = torch.arange(len(correspondence), device=correspondence.device)
    best = top_matches(log_probability, _BEST, mutual=True)
    found = best.log_probability > -torch.inf  # (b, k)
    right = correspondence[pairs[:, None], best.source, best.target] & found
    matched = correspondence.any(-1).sum(-1)  # (b,), source lines that have a match
    rank = torch.arange(1, right.shape[1] + 1, device=right.device)
    average = (right.cumsum(-1) / rank * right).sum(-1) / matched.clamp_min(1)  # (b,)
    enough = right.sum(-1) >= _ENOUGH
    return torch.stack([right.sum(), found.sum(), matched.sum(), average.sum(), enough.sum()]).to(torch.float32)


def match_quality(sums: Float[Tensor, "5"], pairs: int) -> dict[str, float]:
    """Precision and recall over all matches; average precision and share with eight right ones over the pairs."""
    right, found, matched, average, enough = sums.tolist()
    return {
        "precision": right / max(1.0, found),
        "recall": right / max(1.0, matched),
        "average_precision": average / max(1, pairs),
        "eight_right": enough / max(1, pairs),
    }

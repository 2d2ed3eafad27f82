"""The training loss, and the quality of the matches of a batch."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from plueckernet.data.batches import PairBatch
from plueckernet.models import Matcher, MatchOutput, matchability_loss, matching_loss, regression_loss, top_k_matches
from plueckernet.models.regression import RegressedPose

NetworkOutput = MatchOutput | RegressedPose
_MAX_MATCHES = 200  # most probable mutual matches that are evaluated
_MIN_CORRECT = 8  # correct matches that are sufficient for a pose


def loss_of(network: nn.Module, output: NetworkOutput, batch: PairBatch) -> Float[Tensor, ""]:
    """The loss of a matcher or of the pose regression, averaged over the pairs."""
    if isinstance(output, RegressedPose):
        return regression_loss(output, batch.target_T_source)
    loss = matching_loss(output.log_probability, batch.correspondence)
    if isinstance(network, Matcher) and network.head.assignment == "transport":
        return loss  # its matchabilities are distributions, which are learned from the matches alone
    return loss + matchability_loss(output, batch.correspondence)


def autocast(device: str, bf16: bool) -> AbstractContextManager[Any]:
    """Context of a forward pass, in bfloat16 if requested."""
    return torch.autocast(device, torch.bfloat16) if bf16 else nullcontext()


@torch.no_grad()
def match_sums(log_probability: Float[Tensor, "b m n"], correspondence: Bool[Tensor, "b m n"]) -> Float[Tensor, "5"]:
    """Sums over pairs for the 200 best mutual matches; :func:`match_quality` divides them."""
    pairs = torch.arange(len(correspondence), device=correspondence.device)
    best = top_k_matches(log_probability, _MAX_MATCHES, mutual=True)
    real = best.log_probability > -torch.inf  # (b, k)
    correct = correspondence[pairs[:, None], best.source, best.target] & real
    matched = correspondence.any(-1).sum(-1)  # (b,), source lines that have a match
    rank = torch.arange(1, correct.shape[1] + 1, device=correct.device)
    average = (correct.cumsum(-1) / rank * correct).sum(-1) / matched.clamp_min(1)  # (b,)
    sufficient = correct.sum(-1) >= _MIN_CORRECT
    return torch.stack([correct.sum(), real.sum(), matched.sum(), average.sum(), sufficient.sum()]).to(torch.float32)


def match_quality(sums: Float[Tensor, "5"], pairs: int) -> dict[str, float]:
    """Precision and recall over all matches; average precision and fraction of pairs with eight correct matches."""
    correct, returned, matched, average, sufficient = sums.tolist()
    return {
        "precision": correct / max(1.0, returned),
        "recall": correct / max(1.0, matched),
        "average_precision": average / max(1, pairs),
        "eight_right": sufficient / max(1, pairs),
    }

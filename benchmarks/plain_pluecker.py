"""PlückerNet written as the paper prints it, with the weights of ours: the reference for speed and for the equations.

Nothing is batched, padded or rearranged: one neighbour at a time, attention weights written out, Sinkhorn on
exponentials. `tests/models/test_paper_equations.py` compares it with the networks of the package.

    paper (Sec. 3.2, 3.3)      here
    o_i, v_i, m_i              `o`: directions `v` or moments `m` of the lines, (1, n, 3)
    ℧(o_i)                     `neighbourhood`, the k nearest of o_i with o_i among them
    θ, φ                       `subspace.theta`, `subspace.phi`
    E(o_i), Eq. (2)            `edge_features`
    ᵗf, Eq. (3)                `x` of the source, `y` of the target, (1, n, 128)
    U                          `layer.update`
    q, k, v, α, Eq. (4)        `q`, `k`, `v`, `alpha`
    P, r, s, Eq. (5)           `head.matchability`, `r`, `s`
    H, λ, Υ, a, b, W           `cost`, `regularisation`, `kernel`, `a`, `b`, `weights`

The paper leaves two things open. Heads are merged by a linear layer, as in SuperGlue, and group norm has eight groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import gelu, group_norm, normalize

from plueckernet.geometry import LineSet
from plueckernet.models import Matcher
from plueckernet.models.attention import MessageLayer
from plueckernet.models.matcher import MatchHead, PlueckerTrunk
from plueckernet.models.mlp import MLP, GroupNorm
from plueckernet.models.pluecker_encoder import PlueckerEncoder, Subspace

Distance = Callable[[Tensor], Tensor]  # (1, n, 3) -> (1, n, n)


def angular_distance(o: Tensor) -> Tensor:
    """Angles between vectors, the distance of directions."""
    unit = normalize(o, dim=-1)
    return (unit @ unit.mT).clamp(-1, 1).acos()


def euclidean_distance(o: Tensor) -> Tensor:
    """L2 distances, those of moments."""
    return torch.cdist(o, o, compute_mode="donot_use_mm_for_euclid_dist")


def odd(t: int) -> bool:
    """Which layers are self attention: ``E = E_self if t is odd and E = E_cross if t is even``, t from 1."""
    return t % 2 == 1


@dataclass(frozen=True)
class Reading:
    """How the paper is read where code easily reads it wrongly; the defaults are what it says.

    Tests change one of these at a time and expect the comparison to fail.
    """

    direction_distance: Distance = angular_distance
    moment_distance: Distance = euclidean_distance
    is_self: Callable[[int], bool] = odd
    residual: bool = True  # the first term of Eq. (3)
    scaled_by: int | None = None  # D of Eq. (4); None: all channels, 128, not those of a head
    pooled_from: str = "other"  # the map that Eq. (5) pools over: the "other" one, or the line's "own"
    prior: bool = True  # False: r and s uniform


PAPER = Reading()


def plain_mlp(mlp: MLP, x: Tensor) -> Tensor:
    """The basic block: linear, group norm, GELU, and a last linear layer without either."""
    for linear, norm in zip(mlp.linear, mlp.norm, strict=False):
        if not isinstance(norm, GroupNorm):
            raise TypeError("the plain version knows group norm only")
        x = gelu(group_norm(linear(x).mT, norm.groups, norm.weight, norm.bias).mT)
    return mlp.linear[-1](x)


def edge_features(subspace: Subspace, o: Tensor, distance: Distance) -> Tensor:
    """Eq. (2), edge by edge: ``E(o_i) = avg_k(θ (o_k - o_i) + φ o_i)`` over the neighbourhood of ``o_i``."""
    count = min(subspace.neighbours, o.shape[1])
    neighbourhood = distance(o).topk(count, largest=False).indices  # (1, n, k)
    edges = o[0, neighbourhood] - o[:, :, None]  # (1, n, k, 3)
    return (subspace.theta(edges) + subspace.phi(o)[:, :, None]).mean(2)


def plain_encoder(encoder: PlueckerEncoder, lines: LineSet, reading: Reading = PAPER) -> Tensor:
    """Subspace coding: Eq. (2) for directions and for moments, lifted, joined and embedded."""
    dtype = encoder.joint.linear[0].weight.dtype
    v, m = lines.direction.to(dtype), lines.moment.to(dtype)
    lifted = [
        plain_mlp(subspace.lift, edge_features(subspace, o, distance))
        for subspace, o, distance in (
            (encoder.direction, v, reading.direction_distance),
            (encoder.moment, m, reading.moment_distance),
        )
    ]
    return plain_mlp(encoder.joint, torch.cat(lifted, -1))


def plain_message(layer: MessageLayer, x: Tensor, context: Tensor, reading: Reading = PAPER) -> Tensor:
    """Eq. (4) in each head: ``Σ_j α_ij v_j`` with ``α_ij = Softmax_j(q_i . k_j / √D)``."""
    heads, channels = layer.config.heads, layer.config.channels
    q = layer.query(x).unflatten(-1, (heads, -1))
    k, v = (t.unflatten(-1, (heads, -1)) for t in layer.key_value(context).split(channels, -1))
    alpha = (torch.einsum("bnhd,bmhd->bhnm", q, k) / math.sqrt(reading.scaled_by or channels)).softmax(-1)
    return layer.merge(torch.einsum("bhnm,bmhd->bnhd", alpha, v).flatten(-2))


def plain_layer(layer: MessageLayer, x: Tensor, context: Tensor, reading: Reading = PAPER) -> Tensor:
    """Eq. (3): ``f + U(f || message)``."""
    update = plain_mlp(layer.update, torch.cat([x, plain_message(layer, x, context, reading)], -1))
    return x + update if reading.residual else update


def plain_trunk(
    trunk: PlueckerTrunk, source: LineSet, target: LineSet, reading: Reading = PAPER
) -> tuple[Tensor, Tensor]:
    """Sec. 3.2: features of the source's and of the target's lines after T layers."""
    x, y = plain_encoder(trunk.encoder, source, reading), plain_encoder(trunk.encoder, target, reading)
    for t, layer in enumerate(trunk.layers, start=1):
        if not isinstance(layer, MessageLayer):
            raise TypeError("not a layer of PlückerNet")
        from_x, from_y = (x, y) if reading.is_self(t) else (y, x)
        x, y = plain_layer(layer, x, from_x, reading), plain_layer(layer, y, from_y, reading)
    return x, y


def plain_matchability(head: MatchHead, x: Tensor, y: Tensor, reading: Reading = PAPER) -> Tensor:
    """Eq. (5): ``r_i = Softmax_i(P(f_i || avg_j f'_j || max_j f'_j))``, (1, m)."""
    if head.matchability is None:
        raise TypeError("the plain version needs the matchability network")
    if not reading.prior:
        return torch.full_like(x[..., 0], 1 / x.shape[1])
    context = y if reading.pooled_from == "other" else x
    pooled = torch.cat([context.mean(1), context.amax(1)], -1)[:, None].expand(-1, x.shape[1], -1)
    return plain_mlp(head.matchability, torch.cat([x, pooled], -1))[..., 0].softmax(1)


def plain_transport(cost: Tensor, r: Tensor, s: Tensor, regularisation: float, iterations: int) -> Tensor:
    """Algorithm 1 as printed, for Eq. (6)-(8): the weights ``W``."""
    kernel = torch.exp(-cost / regularisation)
    kernel = kernel / kernel.sum((1, 2), keepdim=True)
    r, s = r[..., None], s[..., None]
    b = torch.ones_like(s)
    for _ in range(iterations):
        a = r / (kernel @ b)
        b = s / (kernel.mT @ a)
    return a * kernel * b.mT


def plain_head(head: MatchHead, x: Tensor, y: Tensor, reading: Reading = PAPER) -> Tensor:
    """Sec. 3.3: the cost ``H_ij = |x_i - y_j|`` of projected unit features, priors and transport."""
    r, s = plain_matchability(head, x, y, reading), plain_matchability(head, y, x, reading)
    x, y = normalize(head.project(x), dim=-1), normalize(head.project(y), dim=-1)
    cost = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    return plain_transport(cost, r, s, head.sinkhorn.regularisation, head.sinkhorn.iterations)


def plain_pluecker(net: Matcher, source: LineSet, target: LineSet, reading: Reading = PAPER) -> Tensor:
    """The whole network for one pair of maps in a batch of one: the weights ``W``."""
    if not isinstance(net.trunk, PlueckerTrunk):
        raise TypeError("the plain version is of PlückerNet only")
    return plain_head(net.head, *plain_trunk(net.trunk, source, target, reading), reading)

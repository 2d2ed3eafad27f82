"""Optimal transport between two sets of lines (paper Sec. 3.3, Eq. (6)-(8), Algorithm 1), and the best matches.

Given costs ``H`` (m, n) and matchabilities ``r`` (m), ``s`` (n), each summing to one, the weights ``W`` solve

    min <H, W> - λ E(W)   over   W >= 0,  W 1 = r,  Wᵀ 1 = s        Eq. (6)-(7)
    E(W) = -Σ W_ij (log W_ij - 1)                                   Eq. (8)

and are ``W_ij = exp(f_i + g_j - H_ij / λ)`` with potentials ``f = log a``, ``g = log b`` of Algorithm 1. All
computations use logarithms, so nothing underflows, and padding has a matchability of zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.settings import check_at_most, check_kinds, check_positive

_ZERO = -1e9  # log 0 within the iterations; -inf would give NaN gradients
_KERNEL_RANGE = 40.0  # range of H / λ up to which exp(-H / λ) has full precision in float32
_BLOCK_ELEMENTS = 1 << 22  # elements per block when no gradient is needed
_MAX_ITERATIONS = 10_000


@dataclass(frozen=True)
class SinkhornConfig:
    """Settings of :func:`sinkhorn`; the defaults are those of the paper."""

    regularisation: float = 0.1  # λ, in units of the cost
    iterations: int = 30

    def __post_init__(self) -> None:
        check_kinds(self)
        check_positive(self, "regularisation", "iterations")
        check_at_most(self, _MAX_ITERATIONS, "iterations")


class TopMatches(NamedTuple):
    """The most probable pairs of lines of each pair of maps, best first; missing ones have log-probability -inf."""

    source: Int[Tensor, "b k"]
    target: Int[Tensor, "b k"]
    log_probability: Float[Tensor, "b k"]


def sinkhorn(
    cost: Float[Tensor, "b m n"],
    log_r: Float[Tensor, "b m"],
    log_s: Float[Tensor, "b n"],
    config: SinkhornConfig | None = None,
    *,
    cost_range: float = torch.inf,
) -> Float[Tensor, "b m n"]:
    """``log W`` of Algorithm 1; -inf where a matchability is zero (``log_r = -inf``).

    Args:
        cost: ``H``.
        log_r: Logarithms of the source matchabilities.
        log_s: Logarithms of the target matchabilities.
        config: λ and the number of iterations.
        cost_range: An upper bound of ``max H - min H``. If it is at most 40 λ, as for distances of unit vectors and
            λ = 0.1, an iteration costs two matrix-vector products instead of two log-sum-exps, with the same
            precision.
    """
    config = config or SinkhornConfig()
    if config.regularisation <= 0:
        raise InputError(f"regularisation must be positive, got {config.regularisation}")
    score = cost / -config.regularisation
    r, s = log_r.clamp_min(_ZERO), log_s.clamp_min(_ZERO)
    linear = cost_range <= _KERNEL_RANGE * config.regularisation
    solve = _kernel_potentials if linear else _log_potentials
    f, g = solve(score, r, s, config.iterations)
    if not _differentiated(score, f, g):
        score.add_(f[..., :, None]).add_(g[..., None, :])  # in place, because (m, n) may fill the memory
        score.masked_fill_(log_r.isneginf()[..., :, None], -torch.inf)
        return score.masked_fill_(log_s.isneginf()[..., None, :], -torch.inf)
    absent = log_r.isneginf()[..., :, None] | log_s.isneginf()[..., None, :]
    return (score + f[..., :, None] + g[..., None, :]).masked_fill(absent, -torch.inf)


def pairwise_distance(x: Float[Tensor, "b m c"], y: Float[Tensor, "b n c"]) -> Float[Tensor, "b m n"]:
    """``H_ij = |x_i - y_j|`` by one matrix product; a floor keeps the gradient finite for equal vectors."""
    centre = x.mean(-2, keepdim=True) if x.shape[-2] else 0.0  # reduces cancellation between similar vectors
    x, y = x - centre, y - centre
    product = x @ y.mT  # (b, m, n)
    own, other = x.square().sum(-1)[..., :, None], y.square().sum(-1)[..., None, :]
    if _differentiated(product):
        return (own + other - 2 * product).clamp_min(1e-6).sqrt()
    return product.mul_(-2).add_(own).add_(other).clamp_min_(1e-6).sqrt_()


def top_k_matches(log_probability: Float[Tensor, "b m n"], count: int, *, mutual: bool = False) -> TopMatches:
    """The ``count`` most probable pairs, without sorting the matrix.

    With ``mutual``, only pairs that are the best of their row and of their column are returned.
    """
    m, n = log_probability.shape[-2:]
    count = min(count, min(m, n) if mutual else m * n)
    if count == 0:
        none = log_probability.new_zeros(log_probability.shape[0], 0)
        return TopMatches(none.long(), none.long(), none)
    if mutual:
        return _top_mutual(log_probability, count)
    step = max(1, _BLOCK_ELEMENTS // n)
    starts = range(0, m, step)
    best = [_top_of(log_probability[:, i : i + step], i * n, count) for i in starts]
    value = torch.cat([v for v, _ in best], -1)  # (b, candidates)
    index = torch.cat([i for _, i in best], -1)
    value, order = value.topk(count, -1)  # (b, k)
    index = index.gather(-1, order)
    return TopMatches(index // n, index % n, value)


def masked_log_softmax(
    logits: Float[Tensor, "*batch n"], mask: Bool[Tensor, "*batch n"] | None, dim: int = -1
) -> Float[Tensor, "*batch n"]:
    """Log-softmax over the real entries and -inf elsewhere, without NaN if all entries are masked."""
    if mask is None:
        return logits.log_softmax(dim)
    return logits.masked_fill(~mask, _ZERO).log_softmax(dim).masked_fill(~mask, -torch.inf)


# Private


def _kernel_potentials(score: Tensor, log_r: Tensor, log_s: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """Algorithm 1 with ``Υ = exp(-H / λ)`` computed once; its division by ``ΣΥ`` only moves a constant from g to f.

    The memory of the gradient is that of ``Υ`` for any number of iterations.
    """
    top = score.detach().amax((-2, -1), keepdim=True) if score.numel() else 0.0
    kernel = (score - top).exp_()  # (b, m, n), in [exp(-40), 1]
    if score.numel() and _differentiated(score, log_r, log_s) and not torch.compiler.is_compiling():
        f, g = _Potentials.apply(kernel, log_r, log_s, iterations)  # type: ignore[no-untyped-call]
        return f - (top if isinstance(top, float) else top[..., 0]), g
    f, g = log_r, _all_ones(log_s)
    for _ in range(iterations):
        f = log_r - _log_product(kernel, g)  # a = r ⊘ (Υ b)
        g = log_s - _log_product(kernel.mT, f)  # b = s ⊘ (Υᵀ a)
    return f - (top if isinstance(top, float) else top[..., 0]), g


class _Potentials(torch.autograd.Function):
    """Algorithm 1 with its gradient in closed form: autograd would record ten small operations a product.

    With ``u = Υ b``, ``a = r ⊘ u``, ``v = Υᵀ a``, ``b = s ⊘ v`` in turn and adjoints α, β of ``log a``, ``log b``:

        v̄ = -β ⊘ v,   α += a ⊙ Υ v̄,   ū = -α ⊘ u,   β = b ⊙ Υᵀ ū,   and   Ῡ = Σ_t (a v̄ᵀ + ū bᵀ)

    backwards through the iterations. The sum is one product of all vectors.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Tensor, log_r: Tensor, log_s: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
        r, s = _not_all_zero(log_r.exp())[..., None], _not_all_zero(log_s.exp())[..., None]
        a, u = (torch.empty(iterations, *r.shape, dtype=r.dtype, device=r.device) for _ in range(2))
        v, b = (torch.empty(iterations + i, *s.shape, dtype=s.dtype, device=s.device) for i in range(2))
        b[0] = _not_all_zero(_all_ones(log_s).exp())[..., None]
        for t in range(iterations):
            torch.bmm(kernel, b[t], out=u[t])  # (b, m, 1)
            torch.div(r, u[t], out=a[t])
            torch.bmm(kernel.mT, a[t], out=v[t])  # (b, n, 1)
            torch.div(s, v[t], out=b[t + 1])
        ctx.save_for_backward(kernel, a, u, b, v)
        return log_r - u[-1, ..., 0].log(), log_s - v[-1, ..., 0].log()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        kernel, a, u, b, v = ctx.saved_tensors
        u_bar, v_bar = torch.empty_like(a), torch.empty_like(b[1:])
        minus_alpha, minus_beta = torch.zeros_like(a), torch.zeros_like(b)  # a row for each iteration
        minus_alpha[-1], minus_beta[-1] = (-gradient[..., None] for gradient in gradients)
        for t in reversed(range(len(a))):
            torch.div(minus_beta[t + 1], v[t], out=v_bar[t])
            minus_alpha[t].addcmul_(a[t], kernel @ v_bar[t], value=-1)
            torch.div(minus_alpha[t], u[t], out=u_bar[t])
            minus_beta[t].addcmul_(b[t], kernel.mT @ u_bar[t], value=-1)
        rows, columns = torch.cat([a, u_bar])[..., 0], torch.cat([v_bar, b[:-1]])[..., 0]  # (2 t, b, m or n)
        to_kernel = rows.movedim(0, -1) @ columns.movedim(0, 1)
        return to_kernel, -minus_alpha.sum(0)[..., 0], -minus_beta[1:].sum(0)[..., 0], None


def _not_all_zero(weights: Tensor) -> Tensor:
    """The same, but ones for a map without lines: its potentials are masked, and must only be finite."""
    return weights + (weights.sum(-1, keepdim=True) == 0).to(weights.dtype)


def _all_ones(log_s: Tensor) -> Tensor:
    """Initial ``log b``: b = 1, except for padding, which must not contribute."""
    return torch.zeros_like(log_s).masked_fill(log_s <= _ZERO, _ZERO)


def _log_product(kernel: Tensor, potential: Tensor) -> Tensor:
    """``log(Υ exp(potential))``, with the largest potential factored out."""
    if not potential.shape[-1]:
        return potential.new_zeros(kernel.shape[:-1])
    top = potential.detach().amax(-1, keepdim=True)  # (b, 1)
    return (kernel @ (potential - top).exp()[..., None])[..., 0].log() + top


def _log_potentials(score: Tensor, log_r: Tensor, log_s: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """Algorithm 1 by log-sum-exp, for any λ; in blocks of rows if no gradient is needed."""
    f, g = log_r, _all_ones(log_s)
    if 0 in score.shape:
        return f, g
    rows = score.shape[-2]
    if not _differentiated(score, log_r, log_s) and not torch.compiler.is_compiling():
        rows = max(1, _BLOCK_ELEMENTS // (score.shape[0] * score.shape[-1]))
    blocks = list(zip(score.split(rows, -2), log_r.split(rows, -1), strict=True))
    for _ in range(iterations):
        potentials, columns = [], []
        for block, r in blocks:
            potentials.append(r - (block + g[..., None, :]).logsumexp(-1))  # a = r ⊘ (Υ b)
            columns.append((block + potentials[-1][..., :, None]).logsumexp(-2))
        f = torch.cat(potentials, -1)  # (b, m)
        g = log_s - torch.stack(columns).logsumexp(0)  # b = s ⊘ (Υᵀ a)
    return f, g


def _top_of(block: Tensor, offset: int, count: int) -> tuple[Tensor, Tensor]:
    """Values and flat indices of the largest entries of some rows; ``offset`` is the index of their first entry."""
    flat = block.flatten(-2)
    value, index = flat.topk(min(count, flat.shape[-1]), -1)
    return value, index + offset


def _top_mutual(log_probability: Tensor, count: int) -> TopMatches:
    value, target = log_probability.max(-1)  # (b, m)
    back = log_probability.argmax(-2).gather(-1, target)  # (b, m)
    rows = torch.arange(value.shape[-1], device=value.device)
    value, source = value.masked_fill(back != rows, -torch.inf).topk(count, -1)  # (b, k)
    return TopMatches(source, target.gather(-1, source), value)


def _differentiated(*tensors: Tensor) -> bool:
    """Whether autograd tracks these tensors; if not, in-place and blockwise computation is allowed."""
    if torch.compiler.is_compiling():
        return True
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)

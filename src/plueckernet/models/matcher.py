"""Networks that match the lines of two maps, with one interface: ``matcher(source, target) -> MatchOutput``.

:class:`InvariantConfig` is the default network, which sees only invariants of rigid motions and of line signs.
:class:`PlueckerConfig` is PlückerNet as published, which sees raw coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize, pad

from plueckernet.errors import InputError, ShapeError
from plueckernet.geometry import LineSet
from plueckernet.kernels.assignment import AssignmentKernel
from plueckernet.kernels.library import compiled
from plueckernet.kernels.messages import MessageKernel
from plueckernet.models.attention import AttentionConfig, MessageLayer, other_half
from plueckernet.models.invariant_encoder import InvariantEncoder, InvariantEncoderConfig
from plueckernet.models.mlp import MLP, Style
from plueckernet.models.packed import PackedLayer, pass_messages
from plueckernet.models.pluecker_encoder import PlueckerEncoder, PlueckerEncoderConfig
from plueckernet.models.prepared_weights import PreparedWeights
from plueckernet.models.transport import SinkhornConfig, masked_log_softmax, pairwise_distance, sinkhorn
from plueckernet.settings import check_at_least, check_at_most, check_kinds

Assignment = Literal["transport", "dual-softmax"]
"""How features become probabilities: the paper's optimal transport, or LightGlue's product of two softmaxes."""


_MAX_LAYERS, _MAX_CHANNELS, _MAX_LINES = 64, 512, 1 << 20


@dataclass(frozen=True)
class PlueckerConfig:
    """PlückerNet as published; the defaults are those of the paper, the switches are its ablations."""

    input_frame: ClassVar[Literal["normalized", "original"]] = "original"  # of the lines it was trained on

    layers: int = 12  # self attention if odd, cross attention if even, counted from one
    heads: int = 4
    neighbours: int = 10
    hemisphere: bool = False  # flip each line so that its first component is positive (Sec. 3.1)
    style: Style = "group-gelu"  # "batch-relu": ablation
    subspace_coding: bool = True
    cross_attention: bool = True  # False: all layers are self attention
    matchability_prior: bool = True  # False: all lines are equally likely to have a match
    orthogonal_subspaces: bool = False  # True: Gram-Schmidt on the features of moments and directions
    fast_attention: bool = False  # True: attention in linear time
    sinkhorn: SinkhornConfig = field(default_factory=SinkhornConfig)

    def __post_init__(self) -> None:
        _check_sizes(self)


@dataclass(frozen=True)
class InvariantConfig:
    """The invariant matcher; the switches are ablations."""

    input_frame: ClassVar[Literal["normalized", "original"]] = "normalized"

    channels: int = 128  # of the features of lines
    layers: int = 12  # self attention if odd, cross attention if even, counted from one
    heads: int = 4
    filters: int = 8  # edge filters, which pass messages in addition to the attention
    edge_channels: int = 32
    neighbours: int = 256  # edges per line in sets of more than `dense_limit` lines
    dense_limit: int = 1024
    scale: Literal["joint", "metric"] = "joint"
    signed: bool = True  # edges include orientation and handedness
    local: bool = True  # edges are averaged over neighbourhoods; False: over the whole set
    cross_attention: bool = True
    matchability_prior: bool = True
    assignment: Assignment = "dual-softmax"
    sinkhorn: SinkhornConfig = field(default_factory=SinkhornConfig)  # if the assignment is transport

    def __post_init__(self) -> None:
        _check_sizes(self)
        check_at_least(self, 0, "filters", "dense_limit")
        check_at_least(self, 1, "channels", "edge_channels")
        check_at_most(self, _MAX_CHANNELS, "channels", "filters", "edge_channels")
        if self.channels % self.heads or (self.filters and self.channels % self.filters):
            raise InputError(f"channels: {self.channels} cannot be divided among the heads and filters")
        check_at_most(self, _MAX_LINES, "dense_limit")


def _check_sizes(config: PlueckerConfig | InvariantConfig) -> None:
    """Types, and bounds far above what can be trained: a card from a stranger decides how much is allocated."""
    check_kinds(config)
    check_at_least(config, 1, "layers", "heads", "neighbours")
    check_at_most(config, _MAX_LAYERS, "layers")
    check_at_most(config, _MAX_CHANNELS, "heads")
    check_at_most(config, _MAX_LINES, "neighbours")


MatcherConfig = PlueckerConfig | InvariantConfig
_RANDOM_FEATURES = 128  # of each head of 32 channels: d log d, as Performer suggests, rounded
_NETWORKS: dict[str, type[PlueckerConfig] | type[InvariantConfig]] = {
    "pluecker": PlueckerConfig,
    "invariant": InvariantConfig,
}


class MatchOutput(NamedTuple):
    """Output of a matcher for ``b`` pairs of maps; padding has log-probability -inf and matchability 0.

    With transport, all probabilities of a pair of maps sum to one, and so do the matchabilities of a map. With the dual
    softmax, each value is the probability that this pair is a match or that this line has a match.
    """

    log_probability: Float[Tensor, "b m n"]
    source_matchability: Float[Tensor, "b m"]
    target_matchability: Float[Tensor, "b n"]


class Matcher(nn.Module):
    """A trunk that computes line features, and a head that compares them."""

    def __init__(self, config: MatcherConfig) -> None:
        super().__init__()
        self.config = config
        if isinstance(config, PlueckerConfig):
            self.trunk: nn.Module = PlueckerTrunk(config)
            self.head = MatchHead("transport", config.sinkhorn, config.style, config.matchability_prior)
        else:
            self.trunk = InvariantTrunk(config)
            self.head = MatchHead(
                config.assignment, config.sinkhorn, "layer-gelu", config.matchability_prior, config.channels
            )

    def forward(self, source: LineSet, target: LineSet) -> MatchOutput:
        """Match ``b`` sources of ``m`` lines with ``b`` targets of ``n``; see :func:`stack_lines` to batch sets."""
        lines = pair_up(source, target)  # 2 b sets of max(m, n, 1) lines
        features = self.trunk(lines)  # (2 b, max, 128)
        x, y = features.chunk(2)
        m, n = source.direction.shape[1], target.direction.shape[1]
        return self.head(x[:, :m], y[:, :n], source.mask, target.mask)

    @torch.no_grad()
    def match(self, source: LineSet, target: LineSet) -> Float[Tensor, "m n"]:
        """Log-probabilities of one unbatched pair."""
        return self(_batch_of_one(source), _batch_of_one(target)).log_probability[0]


class PlueckerTrunk(nn.Module):
    """Subspace coding and alternating self and cross attention (Sec. 3.2)."""

    def __init__(self, config: PlueckerConfig) -> None:
        super().__init__()
        self.cross_attention = config.cross_attention
        self.encoder = PlueckerEncoder(
            PlueckerEncoderConfig(
                config.neighbours, config.subspace_coding, config.hemisphere, config.style, config.orthogonal_subspaces
            )
        )
        features = _RANDOM_FEATURES if config.fast_attention else 0
        attention = AttentionConfig(
            PlueckerEncoder.channels, config.heads, style=config.style, random_features=features
        )
        self.layers = nn.ModuleList(MessageLayer(attention) for _ in range(config.layers))

    def forward(self, lines: LineSet) -> Float[Tensor, "s n c"]:
        """Features of ``s = 2 b`` sets, the sources first."""
        x, mask = self.encoder(lines), lines.mask
        if mask is not None:
            x = x * mask[..., None].to(x.dtype)
        across = None if mask is None else other_half(mask)
        for t, layer in enumerate(self.layers, start=1):
            own = t % 2 or not self.cross_attention
            x = layer(x, x, mask, mask) if own else layer(x, other_half(x), mask, across)  # (s, n, c)
        return x


class InvariantTrunk(nn.Module):
    """Self attention with edges from pairwise invariants; cross attention has no geometry."""

    def __init__(self, config: InvariantConfig) -> None:
        super().__init__()
        self.channels, self.cross_attention = config.channels, config.cross_attention
        self.encoder = InvariantEncoder(
            InvariantEncoderConfig(
                channels=self.channels,
                heads=config.heads,
                layers=(config.layers + 1) // 2 if config.cross_attention else config.layers,
                filters=config.filters,
                edge_channels=config.edge_channels,
                neighbours=config.neighbours,
                dense_limit=config.dense_limit,
                scale=config.scale,
                signed=config.signed,
                local=config.local,
            )
        )
        self._prepared = PreparedWeights()
        own = AttentionConfig(self.channels, config.heads, config.filters, "layer-gelu")
        across = AttentionConfig(self.channels, config.heads, 0, "layer-gelu")
        self.layers = nn.ModuleList(
            MessageLayer(own if t % 2 or not config.cross_attention else across) for t in range(1, config.layers + 1)
        )

    def forward(self, lines: LineSet) -> Float[Tensor, "s n c"]:
        """Features of ``s = 2 b`` sets, the sources first."""
        if self.encoder.reads_tables() and not self.encoder.is_sparse(lines):
            return self._packed(lines)
        x, edges = self.encoder(lines)  # (s, n, c)
        mask = lines.mask
        across = None if mask is None else other_half(mask)
        remaining = iter(edges)
        for t, layer in enumerate(self.layers, start=1):
            if t % 2 or not self.cross_attention:
                x = layer(x, x, mask, mask, next(remaining))  # (s, n, c)
            else:
                x = layer(x, other_half(x), mask, across)
        return x

    def _packed(self, lines: LineSet) -> Float[Tensor, "s n c"]:
        """The same features without the padding, for inference on a CPU."""
        sets, n = lines.direction.shape[:2]
        if compiled(self.encoder.head.weight, lines.direction) and self.encoder.head.weight.dtype == torch.float32:
            return self._compiled(lines)
        real = [torch.arange(n)] * sets if lines.mask is None else [row.nonzero()[:, 0] for row in lines.mask]
        features = self.encoder.head.weight.new_zeros(sets, n, self.channels)
        with torch.inference_mode():  # operations are many and small
            layers = self._prepared.get(self.layers, "layers", lambda: [PackedLayer(layer) for layer in self.layers])
            packed = pass_messages(layers, *self.encoder.packed(lines, real), self.cross_attention)
            for i, (index, rows) in enumerate(zip(real, packed.split([len(index) for index in real]), strict=True)):
                features[i, index] = rows
        return features

    def _compiled(self, lines: LineSet) -> Float[Tensor, "s n c"]:
        """The same by kernels."""
        sets, n = lines.direction.shape[:2]
        points = lines.moment if lines.endpoints is None else lines.endpoints
        mask, sides = lines.mask, [lines.direction.flatten(0, 1), points.flatten(0, 1)]
        ends = list(range(0, (sets + 1) * n, n))
        if mask is not None:
            sides = [values[mask.flatten()] for values in sides]
            ends = [0, *mask.sum(-1).cumsum(0).tolist()]
        x, edges = self.encoder.kernel(lines).encode(sides[0], sides[1], ends, n)
        x = self._message_kernel().pass_messages(x, ends, edges)
        if mask is None:
            return x.unflatten(0, (sets, n))
        features = x.new_zeros(sets, n, self.channels)
        features[mask] = x
        return features

    def _message_kernel(self) -> MessageKernel:
        def prepare() -> MessageKernel:
            layers, config = [PackedLayer(layer).weights() for layer in self.layers], self.encoder.config
            sizes = config.channels, config.heads, config.filters
            return MessageKernel(layers, *sizes, cross_attention=self.cross_attention)

        return self._prepared.get(self.layers, "kernel", prepare)


class MatchHead(nn.Module):
    """Match probabilities from features (Sec. 3.3), in float32 for any precision of the trunk."""

    def __init__(
        self, assignment: Assignment, sinkhorn: SinkhornConfig, style: Style, prior: bool, channels: int = 128
    ) -> None:
        super().__init__()
        self.assignment, self.style = assignment, style
        self.sinkhorn = sinkhorn
        self.project = nn.Linear(channels, channels)
        if assignment == "dual-softmax":
            self.sharpness = nn.Parameter(torch.tensor(3.0))  # logarithm of the factor of the cosines
        sizes = (3 * channels, 2 * channels, 2 * channels, channels, 1)
        self.matchability = MLP(sizes, style) if prior else None
        self._prepared = PreparedWeights()

    def forward(
        self,
        x: Float[Tensor, "b m c"],
        y: Float[Tensor, "b n c"],
        x_mask: Bool[Tensor, "b m"] | None,
        y_mask: Bool[Tensor, "b n"] | None,
    ) -> MatchOutput:
        """Compare ``m`` source lines with ``n`` target lines."""
        dtype = self.project.weight.dtype
        x, y = x.to(dtype), y.to(dtype)
        if x_mask is None and y_mask is None and len(x) == 1 and self._is_compiled(x, y):
            log_p, *logits = self._kernel().assign(x[0], y[0])
            return MatchOutput(log_p[None], *(values.sigmoid()[None] for values in logits))
        with torch.autocast(x.device.type, enabled=False):
            r, s = self._logits(x, y, x_mask, y_mask), self._logits(y, x, y_mask, x_mask)
            x, y = (normalize(self.project(features), dim=-1) for features in (x, y))
            if self.assignment == "transport":
                # Eq. (5): a distribution over the lines of each map.
                log_r, log_s = masked_log_softmax(r, x_mask), masked_log_softmax(s, y_mask)
                cost = pairwise_distance(x, y)  # (b, m, n), in [0, 2]
                log_w = sinkhorn(cost, log_r, log_s, self.sinkhorn, cost_range=2.0)
                return MatchOutput(log_w, log_r.exp(), log_s.exp())
            return _dual_softmax(self.sharpness.exp() * x, y, (r, s), (x_mask, y_mask))

    def _is_compiled(self, x: Tensor, y: Tensor) -> bool:
        tracked = torch.is_grad_enabled() or torch.compiler.is_compiling()
        known = self.assignment == "dual-softmax" and self.style == "layer-gelu" and x.dtype == torch.float32
        return known and not tracked and min(x.shape[1], y.shape[1]) > 0 and compiled(x, self.project.weight)

    def _kernel(self) -> AssignmentKernel:
        return self._prepared.get(self, "kernel", lambda: self._prepared_kernel())

    def _prepared_kernel(self) -> AssignmentKernel:
        matchability = [] if self.matchability is None else self.matchability.weights()
        return AssignmentKernel((self.project.weight, self.project.bias), matchability, float(self.sharpness.exp()))

    def _logits(self, x: Tensor, y: Tensor, mask: Tensor | None, other: Tensor | None) -> Tensor:
        """The network of Eq. (5): one logit from a line and the pooled lines of the other map."""
        if self.matchability is None:
            return x.new_zeros(x.shape[:-1])
        pooled = torch.cat([_average(y, other), _maximum(y, other)], -1)  # (b, 2 c)
        joined = torch.cat([x, pooled[:, None].expand(-1, x.shape[1], -1)], -1)  # (b, m, 3 c)
        return self.matchability(joined, mask)[..., 0]


def build_matcher(config: MatcherConfig | Mapping[str, Any]) -> Matcher:
    """A matcher from a config, or from the output of :func:`config_to_dict`."""
    return Matcher(config_from_dict(config) if isinstance(config, Mapping) else config)


def config_to_dict(config: MatcherConfig) -> dict[str, Any]:
    """A config as plain data, with the name of its network."""
    name = next(name for name, kind in _NETWORKS.items() if isinstance(config, kind))
    return {"network": name, **asdict(config)}


def config_from_dict(data: Mapping[str, Any]) -> MatcherConfig:
    """The inverse of :func:`config_to_dict`; an unknown network or setting raises :class:`InputError`."""
    settings = dict(data)
    name = settings.pop("network", None)
    if name not in _NETWORKS:
        raise InputError(f"unknown network {name!r}; available: {', '.join(_NETWORKS)}")
    _only_fields(settings, _NETWORKS[name])
    if isinstance(settings.get("sinkhorn"), Mapping):
        _only_fields(settings["sinkhorn"], SinkhornConfig)
        settings["sinkhorn"] = SinkhornConfig(**settings["sinkhorn"])
    return _NETWORKS[name](**settings)


def pair_up(source: LineSet, target: LineSet) -> LineSet:
    """One batch of the sources and then the targets, padded to one length of at least one line.

    Endpoints are kept only if both sides have them.
    """
    if source.direction.ndim != 3 or target.direction.shape[:1] != source.direction.shape[:1]:
        expected = ("b", "n", 3) if source.direction.ndim != 3 else (source.direction.shape[0], "n", 3)
        wrong = source if source.direction.ndim != 3 else target
        raise ShapeError("direction of a batch of line sets", expected, wrong.direction.shape)
    segments = source.endpoints is not None and target.endpoints is not None
    m, n = source.direction.shape[1], target.direction.shape[1]
    length = torch.sym_max(torch.sym_max(m, n), 1)  # like `max`, but also for symbolic sizes in a traced graph
    unmasked = source.mask is None and target.mask is None and not torch.compiler.is_exporting()
    full = unmasked and m == n and m > 0
    names = ["direction", "moment"] + ["endpoints"] * segments + ["mask"] * (not full)

    def padded(lines: LineSet, name: str) -> Tensor:
        value = getattr(lines, name)
        if value is None:
            value = torch.ones_like(lines.direction[..., 0], dtype=torch.bool)
        if full:
            return value
        return pad(value, (0, 0) * (value.ndim - 2) + (0, length - value.shape[1]))

    return LineSet(**{name: torch.cat([padded(source, name), padded(target, name)]) for name in names})


# Private


def _dual_softmax(
    x: Tensor, y: Tensor, logits: tuple[Tensor, Tensor], masks: tuple[Tensor | None, Tensor | None]
) -> MatchOutput:
    """``log P_ij = log softmax_j S_ij + log softmax_i S_ij + log σ_i + log σ_j``, with the inner products S."""
    score = x @ y.mT  # (b, m, n)
    pairs, (x_mask, y_mask) = None, masks
    if x_mask is not None or y_mask is not None:
        rows = torch.ones_like(score[..., 0], dtype=torch.bool) if x_mask is None else x_mask
        columns = torch.ones_like(score[..., 0, :], dtype=torch.bool) if y_mask is None else y_mask
        pairs = rows[..., :, None] & columns[..., None, :]
    by_row = logsigmoid(logits[0])[..., :, None]
    by_column = logsigmoid(logits[1])[..., None, :]
    log_p = masked_log_softmax(score, pairs) + by_row  # (b, m, n)
    log_p = log_p + masked_log_softmax(score, pairs, dim=-2) + by_column
    r, s = (
        p.sigmoid() if mask is None else p.sigmoid() * mask.to(p.dtype) for p, mask in zip(logits, masks, strict=True)
    )
    return MatchOutput(log_p, r, s)


def _batch_of_one(lines: LineSet) -> LineSet:
    return lines.mapped(lambda values: values[None])


def _average(x: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return x.sum(-2) / max(x.shape[-2], 1)  # zero if there are no lines
    weight = mask[..., None].to(x.dtype)
    return (x * weight).sum(-2) / weight.sum(-2).clamp_min(1)


def _maximum(x: Tensor, mask: Tensor | None) -> Tensor:
    if not x.shape[-2]:
        return x.new_zeros(x.shape[0], x.shape[-1])
    if mask is None:
        return x.amax(-2)
    top = x.masked_fill(~mask[..., None], -torch.inf).amax(-2)
    return torch.where(mask.any(-1, keepdim=True), top, 0.0)


def _only_fields(settings: Mapping[str, Any], kind: type) -> None:
    unknown = set(settings) - {f.name for f in fields(kind)}
    if unknown:
        raise InputError(f"unknown settings of {kind.__name__}: {', '.join(sorted(unknown))}")

"""What a training is made of, read from one TOML file: [model], [data], [train], [validation], [card]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from plueckernet.data.stream import StreamSettings
from plueckernet.errors import FormatError, InputError
from plueckernet.models import InvariantConfig, Matcher, MatcherConfig, PlueckerConfig, PoseRegressor, build_matcher
from plueckernet.models.regression import HEAD
from plueckernet.models.weights import load_pretrained
from plueckernet.training.tables import from_table, override, read_tables

Network = Literal["invariant", "pluecker", "regression"]
_CONFIGS = Path(str(files("plueckernet") / "training" / "configs"))


@dataclass(frozen=True)
class ModelSettings:
    """Which network, and its settings."""

    network: Network
    config: MatcherConfig

    def build(self, seed: int) -> Matcher | PoseRegressor:
        """The network with random weights, the same for the same seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if self.network == "regression" and isinstance(self.config, PlueckerConfig):
                return PoseRegressor(self.config)  # with the head of the paper
            return build_matcher(self.config)

    def pretrained(self, start: str) -> Matcher | PoseRegressor:
        """The network with the weights of that name or file; those of another network raise :class:`InputError`."""
        model = load_pretrained(start).train()
        regressor = isinstance(model, PoseRegressor)
        short = isinstance(model, PoseRegressor) and model.head != HEAD
        if model.config != self.config or short or regressor != (self.network == "regression"):
            raise InputError(f"{start}: these weights are of another network than [model] describes")
        return model


@dataclass(frozen=True)
class TrainSettings:
    """How the weights are found."""

    start: str = ""  # weights to begin from: the name of a shipped model, or a file; otherwise random ones
    steps: int = 10_000
    batch: int = 64  # pairs a step, over all processes
    lr: float = 5e-4  # at its highest
    warmup: int = 500  # steps of linear increase
    schedule: Literal["cosine", "constant"] = "cosine"  # after the increase: down to nothing at the last step, or not
    weight_decay: float = 0.01  # of AdamW, which is Adam without it
    clip: float = 1.0  # longest gradient
    precision: Literal["bf16", "float32"] = "bf16"
    ema: float = 0.999  # decay of the moving average of the weights that is validated and exported; 0: none
    compile: bool = False  # by torch.compile; takes a minute before the first step
    cuda_graphs: bool = False  # launch all kernels of a step at once; on one GPU only
    seed: int = 0
    workers: int = 0  # processes that prepare pairs
    log_every: int = 20  # steps
    checkpoint_minutes: float = 5.0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "lr", "clip", "log_every"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be positive, not {getattr(self, name)}")
        if not 0 <= self.ema < 1:
            raise InputError(f"ema must lie in [0, 1), not {self.ema}")


@dataclass(frozen=True)
class ValidationSettings:
    """How the weights are judged while they are found, on pairs apart from those trained on."""

    every: int = 1000  # steps; 0: only after the last one
    pairs: int = 32  # of each cell
    workers: int = 0  # processes that estimate poses meanwhile; 0: training waits
    directed: bool = False  # lines have a direction, and poses are estimated as in the paper
    angle: float = 5.0  # degrees; success is a pose nearer than this ...
    distance: float = 0.5  # m; ... and this
    cells: Mapping[str, StreamSettings] = field(default_factory=dict)  # in the file, what differs from [data]

    def __post_init__(self) -> None:
        if self.pairs < 1 or self.every < 0 or self.workers < 0:
            raise InputError("pairs must be positive, every and workers not negative")


@dataclass(frozen=True)
class CardSettings:
    """What the card of the exported weights says in words."""

    data: str = ""  # what it was trained on
    protocol: str = ""  # how pairs were made of it


@dataclass(frozen=True)
class TrainingConfig:
    """All of it."""

    name: str
    model: ModelSettings
    data: StreamSettings
    train: TrainSettings = field(default_factory=TrainSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    card: CardSettings = field(default_factory=CardSettings)

    def to_tables(self) -> dict[str, Any]:
        """As plain data that :func:`parse_config` reads."""
        tables = asdict(self)
        tables["model"] = {"network": self.model.network, **asdict(self.model.config)}
        return tables


def available_configs() -> list[str]:
    """Names of the configs that come with the package."""
    return sorted(path.stem for path in _CONFIGS.glob("*.toml"))


def load_config(config: str | Path, settings: Iterable[str] = ()) -> TrainingConfig:
    """The config in a file, or the shipped one of that name, with settings such as ``train.steps=100`` on top."""
    path = Path(config)
    if path.suffix != ".toml":
        path = _CONFIGS / f"{config}.toml"
        if not path.is_file():
            raise InputError(f"no config {str(config)!r}; give a .toml file or one of {', '.join(available_configs())}")
    return parse_config({"name": path.stem, **override(read_tables(path), settings)}, path)


def parse_config(tables: Mapping[str, Any], path: Path) -> TrainingConfig:
    """A config from nested dictionaries; errors name ``path`` and the key."""
    unknown = set(tables) - {f.name for f in fields(TrainingConfig)}
    if unknown:
        raise FormatError(path, f"unknown table {min(unknown)}")
    data = tables.get("data", {})
    return TrainingConfig(
        name=tables["name"],
        model=parse_model(tables.get("model"), path),
        data=from_table(StreamSettings, data, "data", path),
        train=from_table(TrainSettings, tables.get("train", {}), "train", path),
        validation=_validation(tables.get("validation", {}), data, path),
        card=from_table(CardSettings, tables.get("card", {}), "card", path),
    )


def _validation(table: Any, data: Mapping[str, Any], path: Path) -> ValidationSettings:
    """Cells say only how they differ from [data]; without any there is one, which does not."""
    cells = table.get("cells", {"all": {}}) if isinstance(table, Mapping) else {}
    if not isinstance(cells, Mapping) or not all(isinstance(cell, Mapping) for cell in cells.values()):
        raise FormatError(path, f"validation.cells: expected tables, got {cells!r}")
    streams = {
        name: from_table(StreamSettings, {**data, **cell}, f"validation.cells.{name}", path)
        for name, cell in cells.items()
    }
    rest = {key: value for key, value in table.items() if key != "cells"} if isinstance(table, Mapping) else table
    return replace(from_table(ValidationSettings, rest, "validation", path), cells=streams)


def parse_model(table: Any, path: Path) -> ModelSettings:
    """The [model] of a config."""
    settings = dict(table) if isinstance(table, Mapping) else {}
    network = settings.pop("network", None)
    if network not in get_args(Network):
        raise FormatError(path, f"model.network: expected one of {', '.join(get_args(Network))}, got {network!r}")
    kind: type[MatcherConfig] = InvariantConfig if network == "invariant" else PlueckerConfig
    return ModelSettings(network, from_table(kind, settings, "model", path))

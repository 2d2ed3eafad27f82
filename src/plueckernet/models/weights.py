"""Weights on disk: a safetensors file and beside it a card that says what they are. No pickle is ever read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from plueckernet.errors import FormatError, InputError
from plueckernet.models.matcher import Matcher, PlueckerConfig, build_matcher, config_from_dict, config_to_dict
from plueckernet.models.regression import SHORT_HEAD, PoseRegressor

_FOLDER = Path(__file__).parent / "pretrained"


@dataclass(frozen=True)
class ModelCard:
    """What somebody who is handed the weights has to know."""

    name: str
    data: str  # what it was trained on
    protocol: str  # how pairs were made of it
    numbers: Mapping[str, Any] = field(default_factory=dict)  # what it reached, on what
    version: str = ""  # commit or release that trained it
    architecture: Mapping[str, Any] = field(default_factory=dict)  # filled in by `save_pretrained`
    calibration: Mapping[str, Any] | None = None  # of the confidence of poses found with it; None: not calibrated


def available_pretrained() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(path.stem for path in _FOLDER.glob("*.safetensors"))


def save_pretrained(path: str | Path, model: Matcher | PoseRegressor, card: ModelCard) -> Path:
    """Write ``path`` (suffix ``.safetensors``) and its card (``.json``); returns the former."""
    path = Path(path).with_suffix(".safetensors")
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    save_file(tensors, path)
    document = {**asdict(card), "architecture": _architecture(model)}
    path.with_suffix(".json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return path


def load_pretrained(name: str | Path, device: torch.device | str = "cpu") -> Matcher | PoseRegressor:
    """The model of that name (see :func:`available_pretrained`) or file, ready for inference.

    Weights that do not fit the architecture on the card, by as much as one name or shape, raise :class:`FormatError`.
    """
    path = pretrained_path(name)
    with torch.random.fork_rng(devices=[]):  # the initial values are overwritten and must not use up random numbers
        model = _build(load_card(path), path)
    try:
        tensors = load_file(path, device=str(device))
    except SafetensorError as error:
        raise FormatError(path, f"not a safetensors file: {error}") from error
    try:
        model.to(device).load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        raise FormatError(path, f"weights do not fit the card: {error}") from error
    return model.eval()


def load_card(name: str | Path) -> ModelCard:
    """The card of a model; unknown or missing entries raise :class:`FormatError`."""
    path = pretrained_path(name).with_suffix(".json")
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FormatError(path, f"no readable card: {error}") from error
    names = {f.name for f in fields(ModelCard)}
    if not isinstance(document, dict) or set(document) | {"calibration"} != names:
        raise FormatError(path, f"a card has exactly the entries {', '.join(sorted(names))}")
    return ModelCard(**document)


def pretrained_path(name: str | Path) -> Path:
    """The file of that name of the package, or the file itself; one that is not there raises :class:`InputError`."""
    path = Path(name)
    if path.is_dir():
        raise InputError(
            f"{name}: a folder, not a file of weights; if it is that of a training, export its best checkpoint:"
            f" plueckernet weights export {name} --out FOLDER"
        )
    if path.suffix != ".safetensors":
        path = _FOLDER / f"{name}.safetensors"
    if not path.is_file():
        known = ", ".join(available_pretrained()) or "none"
        raise InputError(f"no pretrained model {str(name)!r}; the package has: {known}")
    return path


def _architecture(model: nn.Module) -> dict[str, Any]:
    if isinstance(model, PoseRegressor):
        return {"task": "regression", "head": list(model.head), **config_to_dict(model.config)}
    if isinstance(model, Matcher):
        return {"task": "matching", **config_to_dict(model.config)}
    raise InputError(f"cannot save a {type(model).__name__}")


def _build(card: ModelCard, path: Path) -> Matcher | PoseRegressor:
    settings = dict(card.architecture)
    task = settings.pop("task", None)
    head = settings.pop("head", SHORT_HEAD)  # cards of five layers do not name it
    try:
        if task == "matching":
            return build_matcher(settings)
        config = config_from_dict(settings)
    except (InputError, TypeError) as error:
        raise FormatError(path.with_suffix(".json"), str(error)) from error
    if task != "regression" or not isinstance(config, PlueckerConfig):
        raise FormatError(path.with_suffix(".json"), f"unknown architecture {task!r} of {settings.get('network')!r}")
    return PoseRegressor(config, head)

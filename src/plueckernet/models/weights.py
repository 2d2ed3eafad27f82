"""Weights on disk: a safetensors file and beside it a card that says what they are. No pickle is ever read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from plueckernet.errors import FormatError, InputError
from plueckernet.io.atomic import atomic_write, atomic_write_bytes
from plueckernet.io.files import check_regular, read_json
from plueckernet.models.matcher import Matcher, PlueckerConfig, build_matcher, config_from_dict, config_to_dict
from plueckernet.models.regression import SHORT_HEAD, PoseRegressor

_FOLDER = Path(__file__).parent / "pretrained"
_NOT_IN_WHEELS = "regression-indoor", "regression-outdoor"  # baselines of the paper


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
    first_look: str | None = None  # model of the package that matches the longest lines first; None: this one


def available_pretrained() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(path.stem for path in _FOLDER.glob("*.safetensors"))


def save_pretrained(path: str | Path, model: Matcher | PoseRegressor, card: ModelCard) -> Path:
    """Write ``path`` (suffix ``.safetensors``) and its card (``.json``); returns the former."""
    path = Path(path).with_suffix(".safetensors")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: cannot be created: {error.strerror or error}") from error
    document = {**asdict(card), "architecture": _architecture(model)}
    with atomic_write_bytes(path) as stream:
        stream.write(tensor_bytes(model.state_dict()))
    with atomic_write(path.with_suffix(".json")) as text:
        text.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return path


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors as the content of a safetensors file."""
    return save({name: value.detach().cpu().contiguous() for name, value in tensors.items()})


def load_pretrained(name: str | Path, device: torch.device | str = "cpu") -> Matcher | PoseRegressor:
    """The model of that name (see :func:`available_pretrained`) or file, ready for inference.

    Weights that do not fit the architecture on the card, by as much as one name or shape, raise :class:`FormatError`.
    """
    path = pretrained_path(name)
    with torch.random.fork_rng(devices=[]):  # the initial values are overwritten and must not use up random numbers
        model = _build(load_card(path), path)
    tensors = read_tensors(path, device)
    try:
        model.to(device).load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        raise FormatError(path, f"weights do not fit the card: {error}") from error
    return model.eval()


def read_tensors(path: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """The tensors of a safetensors file; numbers that are not finite raise :class:`FormatError`."""
    check_regular(path)
    try:
        tensors = load_file(path, device=str(device))
    except (SafetensorError, OSError, ValueError, OverflowError) as error:
        raise FormatError(path, f"not a safetensors file: {error}") from error
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not _is_finite(tensor):
            raise FormatError(path, f"{name} has values that are not finite")
    return tensors


def _is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite; on a CPU by NumPy, whose first operation takes no time to set up."""
    if tensor.device.type != "cpu" or tensor.dtype == torch.bfloat16:
        return bool(torch.isfinite(tensor).all())
    return bool(np.isfinite(tensor.numpy()).all())


def load_card(name: str | Path) -> ModelCard:
    """The card of a model; unknown or missing entries raise :class:`FormatError`."""
    path = pretrained_path(name).with_suffix(".json")
    try:
        document = read_json(path)
    except FormatError as error:
        raise FormatError(path, f"no readable card: {error.reason}", error.line) from error
    names = {f.name for f in fields(ModelCard)}
    if not isinstance(document, dict) or set(document) | {"calibration", "first_look"} != names:
        raise FormatError(path, f"a card has exactly the entries {', '.join(sorted(names))}")
    _check_card(document, path)
    return ModelCard(**document)


def _check_card(document: Mapping[str, Any], path: Path) -> None:
    """Raise unless every entry has its type."""
    kinds: dict[str, Any] = dict.fromkeys(("name", "data", "protocol", "version"), str)
    kinds |= {"numbers": dict, "architecture": dict, "calibration": dict | None, "first_look": str | None}
    for name, value in document.items():
        if not isinstance(value, kinds[name]):
            wanted = "text" if isinstance("", kinds[name]) else "an object"
            raise FormatError(path, f"{name}: expected {wanted}, got {value!r:.60}")
    if document.get("first_look") not in (None, *available_pretrained()):
        raise FormatError(path, f"first_look: expected a model of the package, got {document['first_look']!r:.60}")


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
        where = "; it comes with the repository, not with the wheel" if str(name) in _NOT_IN_WHEELS else ""
        raise InputError(f"no pretrained model {str(name)!r}; the package has: {known}{where}")
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
    except (InputError, TypeError, ValueError, RuntimeError) as error:  # torch refuses sizes that do not fit
        raise FormatError(path.with_suffix(".json"), str(error)) from error
    if task != "regression" or not isinstance(config, PlueckerConfig):
        raise FormatError(path.with_suffix(".json"), f"unknown architecture {task!r} of {settings.get('network')!r}")
    return PoseRegressor(config, head)

"""Export of a checkpoint as weights: safetensors and a card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plueckernet.errors import FormatError, InputError
from plueckernet.models.weights import ModelCard, save_pretrained
from plueckernet.training.checkpoint import find_checkpoint, load_checkpoint
from plueckernet.training.config import parse_model

MAX_WEIGHT_BYTES = 10_000_000  # of a file that ships with the package


def export_weights(
    checkpoint: Path, out: Path, *, name: str | None = None, results: Path | None = None, half: bool = False
) -> Path:
    """Write ``out/NAME.safetensors`` and its card; for the folder of a training the best checkpoint is exported.

    The card has the numbers of the best validation, the whole recipe (all settings of [data] and [train], of which
    ``steps`` is the end of the schedule) and the content of the JSON file ``results``. With ``half`` the
    weights are written in 16 bits; they are converted to float32 when loaded.
    """
    folder = find_checkpoint(checkpoint)
    loaded = load_checkpoint(folder)
    config = loaded.state["config"]
    model = parse_model(config["model"], folder / "state.json").build(seed=0)
    try:
        model.load_state_dict(dict(loaded.weights))
    except RuntimeError as error:
        raise FormatError(folder, f"weights do not fit the config: {error}") from error
    model = model.half() if half else model
    size = sum(value.numel() * value.element_size() for value in model.state_dict().values())
    if size > MAX_WEIGHT_BYTES:
        raise InputError(f"{folder}: {size / 1e6:.1f} MB of weights exceed 10 MB; export them in 16 bits")
    numbers: dict[str, Any] = {"steps": loaded.state["step"], "validation": loaded.state["best"]}
    numbers["recipe"] = {name: config[name] for name in ("data", "train")}
    card = ModelCard(
        name=name or config["name"],
        data=config["card"]["data"],
        protocol=config["card"]["protocol"],
        numbers=numbers | ({"results": _read_json(results)} if results is not None else {}),
        version=loaded.state["version"],
    )
    return save_pretrained(out / card.name, model, card)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise FormatError(path, f"not JSON: {error}") from error

"""Export of a checkpoint as weights: safetensors and a card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plueckernet.errors import FormatError, InputError
from plueckernet.io.files import read_json
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
    try:
        config, steps, best, version = (loaded.state[key] for key in ("config", "step", "best", "version"))
        recipe = {table: config[table] for table in ("data", "train")}
        data, protocol, known_as = config["card"]["data"], config["card"]["protocol"], name or config["name"]
        model = parse_model(config["model"], folder / "state.json").build(seed=0)
    except (KeyError, TypeError) as error:
        raise FormatError(folder / "state.json", f"not the state of a training: {error}") from error
    if not isinstance(known_as, str) or Path(known_as).name != known_as:
        raise FormatError(folder / "state.json", f"the name {known_as!a:.60} is not that of a file; give another one")
    try:
        model.load_state_dict(dict(loaded.weights))
    except RuntimeError as error:
        raise FormatError(folder, f"weights do not fit the config: {error}") from error
    model = model.half() if half else model
    size = sum(value.numel() * value.element_size() for value in model.state_dict().values())
    if size > MAX_WEIGHT_BYTES:
        raise InputError(f"{folder}: {size / 1e6:.1f} MB of weights exceed 10 MB; export them in 16 bits")
    numbers: dict[str, Any] = {"steps": steps, "validation": best, "recipe": recipe}
    card = ModelCard(
        name=known_as,
        data=data,
        protocol=protocol,
        numbers=numbers | ({"results": read_json(results)} if results is not None else {}),
        version=version,
    )
    return save_pretrained(out / card.name, model, card)

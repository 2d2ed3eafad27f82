"""Put what was measured on the cards of the shipped weights.

``python -m benchmarks.cards`` copies the results of each network to its card, beside what training said.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from benchmarks.harness import RESULTS
from plueckernet.evaluation.crop_results import CropValues
from plueckernet.evaluation.documents import read_result, to_json
from plueckernet.evaluation.synthetic import SyntheticValues
from plueckernet.io.atomic import atomic_write
from plueckernet.models.weights import available_pretrained, load_card, pretrained_path


def measured(name: str) -> dict[str, Any]:
    """What the results say of these weights."""
    numbers: dict[str, Any] = {}
    synthetic, crops = RESULTS / f"synthetic_{name}.json", RESULTS / f"crops_{name}.json"
    if synthetic.exists():
        cells = read_result(synthetic, synthetic.stem, SyntheticValues).values.cells
        numbers["register"] = {f"{cell.scenes}, {cell.protocol}": to_json(cell) for cell in cells}
    if crops.exists():
        totals = read_result(crops, crops.stem, CropValues).values.totals
        words = {"{:g} to {:g}".format(*cell.overlap): to_json(cell.summary) for cell in totals}
        numbers["crops of real maps, by fraction of lines in common"] = words
    return numbers


def main() -> None:
    """Write all cards."""
    for name in available_pretrained():
        card = load_card(name)
        numbers = {"training": card.numbers.get("training", card.numbers), **measured(name)}
        with atomic_write(pretrained_path(name).with_suffix(".json")) as stream:
            stream.write(json.dumps(asdict(replace(card, numbers=numbers)), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

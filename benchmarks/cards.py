"""Put what was measured on the cards of the shipped weights.

``python -m benchmarks.cards`` copies the cells of ``results/learned.json`` and the totals of
``results/crops_invariant.json`` to the cards they belong to, beside what training said.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from benchmarks.harness import RESULTS
from plueckernet.io.atomic import atomic_write
from plueckernet.models.weights import available_pretrained, load_card, pretrained_path

PAPER = "the paper's"


def measured(name: str) -> dict[str, Any]:
    """What the results say of these weights."""
    cells = _result("learned").get("cells", [])
    if name == "invariant":
        found = {f"{cell['scenes']}, {cell['protocol']}": cell for cell in cells if cell["protocol"] != PAPER}
        crops = {"{:.0%} to {:.0%}".format(*row["share"]): row for row in _result("crops_invariant").get("totals", [])}
        return {"register": found, "crops of real maps, by lines in common": crops}
    own = [cell for cell in cells if cell["protocol"] == PAPER and name == f"pluecker-{cell['scenes']}"]
    return {"register, directed, the paper's protocol": own[0]} if own else {}


def _result(name: str) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def main() -> None:
    """Write all cards."""
    for name in available_pretrained():
        card = load_card(name)
        numbers = {"training": card.numbers.get("training", card.numbers), **measured(name)}
        with atomic_write(pretrained_path(name).with_suffix(".json")) as stream:
            stream.write(json.dumps(asdict(replace(card, numbers=numbers)), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

"""The paper's protocol as it stands, on both datasets: what Table 1 and all that follows from it are made of."""

from __future__ import annotations

from collections.abc import Sequence

from plueckernet.data.protocols import PaperProtocol
from plueckernet.evaluation.experiments.base import DATASETS, PAIRS, Document, frame, method_name, native
from plueckernet.evaluation.predictions import Prediction
from plueckernet.evaluation.runner import Runner

PROTOCOL = PaperProtocol()


def main_predictions(
    runner: Runner, roles: Sequence[str], pairs: int = PAIRS
) -> tuple[Document, dict[str, dict[str, list[Prediction]]]]:
    """The document to begin with, and predictions by dataset and role."""
    protocols = {name: native(runner, name, PROTOCOL) for name in DATASETS}
    places = [(name, role) for name in DATASETS for role in roles]
    found = runner.run([runner.cell(name, protocols[name], method_name(role, name)) for name, role in places], pairs)
    by_place = dict(zip(places, found, strict=True))
    document = frame(runner, [protocols[name] for name in DATASETS], pairs)
    return document, {name: {role: by_place[name, role] for role in roles} for name in DATASETS}

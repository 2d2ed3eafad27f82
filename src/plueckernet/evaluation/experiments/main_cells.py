"""The paper's protocol as it stands, on both datasets: what Table 1 and all that follows from it are made of."""

from __future__ import annotations

from collections.abc import Sequence

from plueckernet.data.protocols import PaperProtocol
from plueckernet.evaluation.experiments.base import PAIRS, Document, frame, predictions_of
from plueckernet.evaluation.predictions import Prediction
from plueckernet.evaluation.runner import Runner

PROTOCOL = PaperProtocol()


def main_predictions(
    runner: Runner, roles: Sequence[str], pairs: int = PAIRS
) -> tuple[Document, dict[str, dict[str, list[Prediction]]]]:
    """The document to begin with, and predictions by dataset and role."""
    found = predictions_of(runner, [PROTOCOL], roles, pairs)
    single = {name: {role: cells[0] for role, cells in methods.items()} for name, methods in found.items()}
    return frame(runner, [PROTOCOL], pairs), single

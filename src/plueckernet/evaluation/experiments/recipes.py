"""PlückerNet trained with the hyper-parameters of the paper, beside our training of the same network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from plueckernet.data.noise import DirectionNoise
from plueckernet.data.protocols import Noise, PaperProtocol
from plueckernet.evaluation.experiments.base import Experiment
from plueckernet.evaluation.experiments.plan import DATASETS, PAIRS, ROLES, Plan, Setting
from plueckernet.evaluation.paper import TABLE_1
from plueckernet.evaluation.plots import Figure
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.summary import CellSummary, summarise
from plueckernet.evaluation.tables import Table, number

_ROLES = ("pluecker", "pluecker-paper")
_NOISES: tuple[DirectionNoise, DirectionNoise] = ("random-axis", "each-axis")
_PLAN = Plan(_ROLES, [PaperProtocol(noise=Noise(turn=turn)) for turn in _NOISES], PAIRS, recorded=True)
_QUANTITIES = ("rotation", "translation")


@dataclass(frozen=True)
class RecipeValues:
    """By noise, dataset and role."""

    setting: Setting
    cells: Mapping[str, Mapping[str, Mapping[str, CellSummary]]]

    def below_published(self, turn: str, role: str) -> int:
        """How many of the published quartiles are not exceeded."""
        return sum(
            mine is not None and mine <= published
            for name, cells in self.cells[turn].items()
            for quantity in _QUANTITIES
            for mine, published in zip(
                cells[role].quartiles(quantity), TABLE_1[name]["PlückerNet"][quantity], strict=True
            )
        )


def available(weights: Path | None) -> bool:
    """Whether the folder has the weights, which do not come with the package."""
    return weights is not None and all((weights / f"pluecker-paper-{name}.safetensors").is_file() for name in DATASETS)


def run(runner: Runner) -> RecipeValues:
    """Errors on the pairs of Table 1, with either noise."""
    predictions = _PLAN.predictions(runner)
    cells: dict[str, dict[str, dict[str, CellSummary]]] = {
        turn: {
            name: {role: summarise(made[place] or []) for role, made in methods.items()}
            for name, methods in predictions.items()
            if all(place < len(made) for made in methods.values())  # recorded pairs have one noise
        }
        for place, turn in enumerate(_NOISES)
    }
    return RecipeValues(_PLAN.setting(runner), cells)


def tables(values: RecipeValues) -> list[Table]:
    """One for each noise, with the paper's rows."""
    heads = ["dataset", "method", "rotation Q1 (°)", "median", "Q3", "translation Q1 (m)", "median", "Q3", "success"]
    made = []
    for turn, datasets in values.cells.items():
        rows = []
        for name, cells in datasets.items():
            for role, cell in cells.items():
                errors = [number(value) for value in (*cell.rotation, *cell.translation)]
                rows.append([name, ROLES[role], *errors, str(cell.success)])
            published = TABLE_1[name]["PlückerNet"]
            errors = [number(value) for value in (*published["rotation"], *published["translation"])]
            rows.append([name, "PlückerNet, in the paper", *errors, "–"])
        made.append(Table(f"Noise {turn}", heads, rows))
    return made


def figures(_values: RecipeValues) -> dict[str, Figure]:
    """None: the table says it."""
    return {}


def findings(values: RecipeValues) -> list[str]:
    """How many of the published numbers either training meets."""
    sentences = []
    for turn, datasets in values.cells.items():
        counts = [f"{ROLES[role]} {values.below_published(turn, role)}" for role in _ROLES]
        sentences.append(
            f"Noise {turn}: of {6 * len(datasets)} quartiles that the paper publishes for its method, at or below are "
            f"{', '.join(counts)}."
        )
    return sentences


RECIPES = Experiment(
    name="recipes",
    title="PlückerNet trained as in the paper",
    about="The same network trained with our settings (`pluecker-indoor`, `pluecker-outdoor`: batches of 64, warm-up, "
    "decay, an average of the weights, new scenes at every step) and with those of the paper (`pluecker-paper`: Adam, "
    "1e-3, batches of 12, a fixed set of scenes). The weights of the latter do not come with the package.",
    values=RecipeValues,
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)

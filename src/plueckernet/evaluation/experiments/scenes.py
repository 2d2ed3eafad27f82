"""Are the stand-ins as hard as the paper's data, and which noise fits? The paper's ICL baseline should err as much."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from plueckernet.data.noise import DirectionNoise
from plueckernet.data.protocols import Noise, PaperProtocol
from plueckernet.evaluation.datasets import Prepared, StandIn
from plueckernet.evaluation.documents import TableRow
from plueckernet.evaluation.experiments.base import Experiment
from plueckernet.evaluation.experiments.plan import PAIRS, Plan, Setting
from plueckernet.evaluation.paper import LINES, TABLE_1
from plueckernet.evaluation.plots import Figure
from plueckernet.evaluation.rates import percent
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.summary import Quartiles, summarise
from plueckernet.evaluation.tables import Table, number

COUNTED = 3000  # scenes per dataset whose lines are counted: few large ones make a mean of 500 uncertain
MAX_DEVIATION = 0.3  # of a quartile from the paper's, as a fraction
_NOISES: tuple[DirectionNoise, DirectionNoise] = ("random-axis", "each-axis")
_PLAN = Plan(("icl",), [PaperProtocol(noise=Noise(turn=turn)) for turn in _NOISES], PAIRS, recorded=True)


@dataclass(frozen=True)
class SceneDifficulty:
    """Errors of ICL and numbers of lines of one dataset."""

    rotation: Quartiles  # degrees
    translation: Quartiles  # m
    scenes: int  # whose lines were counted
    lines_mean: float
    lines_median: float

    def ratios(self, dataset: str) -> list[float | None]:
        """All six quartiles as multiples of the paper's."""
        paper = TABLE_1[dataset]["ICL"]
        pairs = [*zip(self.rotation, paper["rotation"], strict=True)]
        pairs += zip(self.translation, paper["translation"], strict=True)
        return [None if ours is None else ours / published for ours, published in pairs]

    def largest_deviation(self, dataset: str) -> float | None:
        """The ratio furthest from 1; None where ICL has no pose for more than a quarter of the pairs."""
        ratios = [ratio for ratio in self.ratios(dataset) if ratio is not None]
        return max(ratios, key=lambda ratio: abs(ratio - 1)) if len(ratios) == 6 else None

    def misfit(self, dataset: str) -> float | None:
        """Mean absolute logarithm of the six ratios: 0 if all quartiles are the paper's."""
        ratios = [ratio for ratio in self.ratios(dataset) if ratio]
        return sum(abs(math.log(ratio)) for ratio in ratios) / 6 if len(ratios) == 6 else None


@dataclass(frozen=True)
class SceneValues:
    """By dataset, under the two readings of the paper's noise."""

    setting: Setting
    cells: Mapping[str, SceneDifficulty]  # about a random axis
    each_axis: Mapping[str, SceneDifficulty] = field(default_factory=dict)

    def by_noise(self) -> dict[str, Mapping[str, SceneDifficulty]]:
        """Those that were measured."""
        return {turn: cells for turn, cells in zip(_NOISES, (self.cells, self.each_axis), strict=True) if cells}

    def misfits(self) -> dict[str, float | None]:
        """By noise, the mean over the datasets; None where ICL has no pose for more than a quarter of the pairs."""
        means: dict[str, float | None] = {}
        for turn, cells in self.by_noise().items():
            values = [cell.misfit(name) for name, cell in cells.items()]
            known = [value for value in values if value is not None]
            means[turn] = sum(known) / len(known) if len(known) == len(values) else None
        return means


def run(runner: Runner) -> SceneValues:
    """Quartiles of ICL on the pairs of Table 1, and line counts."""
    by_noise: list[dict[str, SceneDifficulty]] = [{}, {}]
    for name, methods in _PLAN.predictions(runner).items():
        counts = _line_counts(runner.datasets[name], runner.settings.limit)
        lines = len(counts), float(np.mean(counts)), float(np.median(counts))
        for cells, predictions in zip(by_noise, methods["icl"], strict=False):
            icl = summarise(predictions or [])
            cells[name] = SceneDifficulty(icl.rotation, icl.translation, *lines)
    return SceneValues(_PLAN.setting(runner), *by_noise)


def _line_counts(dataset: StandIn | Prepared, limit: int | None) -> list[int]:
    size = COUNTED if isinstance(dataset, StandIn) else dataset.scene_count()
    return [len(dataset.scene(index)) for index in range(min(size, limit or size))]


def tables(values: SceneValues) -> list[Table]:
    """Quartiles and line counts, ours and the paper's."""
    heads = ["", "rotation Q1 (°)", "median", "Q3", "translation Q1 (m)", "median", "Q3", "lines, mean", "median"]
    made = []
    for name, label in values.setting.datasets.items():
        cell, paper = values.cells[name], TABLE_1[name]["ICL"]
        lines = f"{cell.lines_mean:.1f}", f"{cell.lines_median:.0f}"
        rows = [
            [f"noise, {turn}", *(number(value) for value in (*cells[name].rotation, *cells[name].translation)), *lines]
            for turn, cells in values.by_noise().items()
            if name in cells
        ]
        published = (*paper["rotation"], *paper["translation"])
        rows.append(["in the paper", *map(number, published), *(str(LINES[name][key]) for key in ("mean", "median"))])
        title = f"ICL, {label}: {values.setting.pairs[name]} pairs; lines of {cell.scenes} scenes"
        made.append(Table(title, heads, rows))
    return made


def no_figures(_values: SceneValues) -> dict[str, Figure]:
    """The table is enough."""
    return {}


def findings(values: SceneValues) -> list[str]:
    """Whether all quartiles are close enough."""
    sentences = []
    for name, cell in values.cells.items():
        worst = cell.largest_deviation(name)
        if worst is None:
            sentences.append(f"{name}: ICL has no pose for more than a quarter of the pairs.")
            continue
        close = "within" if abs(worst - 1) <= MAX_DEVIATION else "not within"
        sentences.append(
            f"{name}: of the six error quartiles of ICL, the one furthest from the paper's is {worst:.2f} times the "
            f"paper's, {close} {percent(MAX_DEVIATION, 0)}."
        )
    misfits = {turn: value for turn, value in values.misfits().items() if value is not None}
    if len(misfits) == len(_NOISES):
        words = " and ".join(f"{percent(math.expm1(value), 0)} for {turn}" for turn, value in misfits.items())
        sentences.append(
            f"The quartiles of ICL differ from the published ones by {words} on average. The noise that fits the "
            f"published ICL best turns lines about {min(misfits, key=lambda turn: misfits[turn]).replace('-', ' ')}."
        )
    return sentences


def rows(values: SceneValues) -> list[TableRow]:
    """One row per dataset for the table of all numbers."""
    return [
        TableRow(
            f"ICL of the paper on {name} scenes, {values.setting.pairs[name]} pairs: the error quartile furthest from "
            "the paper's, of six",
            "–" if cell.largest_deviation(name) is None else f"{cell.largest_deviation(name):.2f} times the paper's",
            f"within {percent(MAX_DEVIATION, 0)}",
        )
        for name, cell in values.cells.items()
    ]


SCENES = Experiment(
    name="scenes",
    title="Difficulty of the stand-ins",
    about="The synthetic scenes stand in for the paper's datasets. The paper's ICL baseline is run on them under the "
    "paper's protocol; its errors and the numbers of lines are compared with those published. Both readings of "
    "the paper's noise on directions are measured.",
    values=SceneValues,
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=no_figures,
    findings=findings,
    rows=rows,
)

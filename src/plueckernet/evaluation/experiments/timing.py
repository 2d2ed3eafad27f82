"""Time of each stage: features, matching, pose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plueckernet.evaluation.experiments.base import Experiment
from plueckernet.evaluation.experiments.plan import ROLES, Setting, main_plan
from plueckernet.evaluation.paper import SECONDS
from plueckernet.evaluation.plots import Figure, finish, panels
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.summary import TIMED_STAGES, mean_seconds
from plueckernet.evaluation.tables import Table, number

_PLAN = main_plan("icl", "pluecker", "ours-without-weights", "ours")
_COLOURS = {"features": "#56b4e9", "matching": "#e69f00", "pose": "#555555"}


@dataclass(frozen=True)
class TimingValues:
    """Mean seconds by dataset, role and stage."""

    setting: Setting
    device: str
    processes: int
    seconds: Mapping[str, Mapping[str, Mapping[str, float]]]

    def with_paper(self, dataset: str) -> dict[str, Mapping[str, float]]:
        """Seconds by name of the method, those of the paper among them."""
        rows = {ROLES[role]: stages for role, stages in self.seconds[dataset].items()}
        return rows | {f"{method}, in the paper": stages for method, stages in SECONDS[dataset].items()}


def run(runner: Runner) -> TimingValues:
    """Mean seconds of each stage by dataset and role."""
    seconds = {
        name: {role: mean_seconds(predictions) for role, predictions in methods.items()}
        for name, methods in _PLAN.only(runner).items()
    }
    return TimingValues(_PLAN.setting(runner), runner.settings.device, runner.settings.workers, seconds)


def tables(values: TimingValues) -> list[Table]:
    """Seconds, and the total as a multiple of ICL in the same place."""
    heads = ["method", *(f"{stage} (s)" for stage in TIMED_STAGES), "total (s)", "times ICL"]
    made = []
    for name, label in values.setting.datasets.items():
        rows, all_rows = [], values.with_paper(name)
        for method, stages in all_rows.items():
            base = all_rows["ICL, in the paper" if method.endswith("in the paper") else "ICL"]
            ratio = _total(stages) / _total(base) if _total(base) else None
            texts = [number(stages.get(stage)) for stage in TIMED_STAGES]
            rows.append([method, *texts, number(_total(stages)), number(ratio, 1)])
        how = f"{values.setting.pairs[name]} pairs, {values.device}, {values.processes} processes of one thread"
        made.append(Table(f"{label}: mean of {how}", heads, rows))
    return made


def figures(values: TimingValues) -> dict[str, Figure]:
    """Stages stacked."""
    figure, axes = panels(1, len(values.setting.datasets), height=2.4, share_labels=True)
    for panel, (name, label) in zip(axes[0], values.setting.datasets.items(), strict=True):
        rows = values.with_paper(name)
        left = [0.0] * len(rows)
        for stage in TIMED_STAGES:
            widths = [stages.get(stage, 0.0) for stages in rows.values()]
            panel.barh(list(rows), widths, left=left, color=_COLOURS[stage], label=stage)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        panel.set_ylim(len(rows) - 0.5, -0.5)
        panel.set(xlabel="seconds per pair", title=label)
    return {"stages": finish(figure, axes)}


def findings(values: TimingValues) -> list[str]:
    """Relative to ICL, the one program that ran in both places."""
    sentences = []
    for name in values.setting.datasets:
        rows = values.with_paper(name)
        if not _total(rows["ICL"]):
            continue
        ours = _total(rows["ours"]) / _total(rows["ICL"])
        paper = _total(rows["PlückerNet, in the paper"]) / _total(rows["ICL, in the paper"])
        sentences.append(
            f"{name}: our whole registration takes {ours:.1f} times as long as ICL in the same run. The paper's takes "
            f"{paper:.1f} times as long as its ICL, with its network on a GPU. Seconds of two machines do not compare."
        )
    return sentences


def _total(stages: Mapping[str, float]) -> float:
    return sum(stages.values())


TIMING = Experiment(
    name="timing",
    title="Time",
    about="Mean time per pair of Table 1 by stage. On the CPU it is the CPU time of one thread. Features are part of "
    "matching in ours, which matches lines several times. The paper used a Titan XP and a RANSAC in Python.",
    values=TimingValues,
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)

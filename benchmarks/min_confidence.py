"""What ``min_confidence`` costs and gives on the pairs of the paper: ``python -m benchmarks.min_confidence FOLDER``.

FOLDER is that of :mod:`benchmarks.paper_experiments`. Nothing is registered: the evidence of all candidates was kept
and is judged again. A pose is given unless the registration failed. The others, ICL and PlückerNet, give a pose for
every pair; in every setting the better of both counts. A search that has to reach less may also end sooner; here it is
that of the default.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import save
from plueckernet.estimation.judgement import Calibration, JudgementSettings, Status
from plueckernet.evaluation.experiments import EXPERIMENTS
from plueckernet.evaluation.outcomes import is_right
from plueckernet.evaluation.paired import COMPARED, Duel, RightPoses
from plueckernet.evaluation.predictions import Prediction
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.rejudgement import kept_evidence, rejudge
from plueckernet.evaluation.runner import Runner, RunSettings
from plueckernet.matchers import load_matcher

LEVELS = (0.95, 0.9, 0.8, 0.7, 0.5)
NAMES = ("table1", "table1-each-axis", "overlap", "noise", "undirected", "rotation", "translation")
OTHERS = ("icl", "pluecker")


@dataclass(frozen=True)
class Setting:
    """One setting of an experiment: the predictions of ours and of the others."""

    where: str
    place: str
    ours: Sequence[Prediction]
    others: dict[str, Sequence[Prediction]]

    def duel(self, given: Sequence[bool]) -> Duel:
        """Ours where a pose is given against the better of the others."""
        right = [use and is_right(entry.best_error) for use, entry in zip(given, self.ours, strict=True)]
        others = [_right_poses(role, [is_right(p.error) for p in rows]) for role, rows in self.others.items()]
        best = max(others, key=lambda entry: entry.rate.fraction)
        return Duel(self.where, self.place, _right_poses("ours", right), best)


def _right_poses(role: str, right: list[bool]) -> RightPoses:
    return RightPoses(role, Rate.of(right), right)


def settings(runner: Runner) -> Iterator[Setting]:
    """All settings of the experiments that have been measured."""
    for name in NAMES:
        plan = EXPERIMENTS[name].plan
        assert plan is not None
        for dataset, roles in plan.predictions(runner).items():
            for i, ours in enumerate(roles["ours"]):
                others = {role: rows[i] for role, rows in roles.items() if role in OTHERS}
                known = {role: rows for role, rows in others.items() if rows is not None}
                if ours is not None and known:
                    yield Setting(f"{COMPARED[name]}, {dataset}", str(i), ours, known)


def is_given(prediction: Prediction, calibration: Calibration, min_confidence: float) -> bool:
    """Whether the kept evidence suffices for a pose."""
    groups = [candidate.group for candidate in prediction.candidates]
    asked = JudgementSettings(min_confidence=min_confidence).where(infinite=True)
    verdict = rejudge(kept_evidence(prediction.candidates), groups, calibration, settings=asked)
    return verdict.status is not Status.FAILED


def measured(made: Sequence[Setting], calibration: Calibration, level: float) -> dict[str, Any]:
    """Poses given, wrong ones among them, and the verdicts of all settings."""
    given = [[is_given(entry, calibration, level) for entry in setting.ours] for setting in made]
    poses = [entry for use, setting in zip(given, made, strict=True) for entry in _chosen(setting.ours, use)]
    duels = [setting.duel(use) for setting, use in zip(made, given, strict=True)]
    verdicts = Counter(duel.verdict for duel in duels)
    return {
        "min_confidence": level,
        "given": len(poses),
        "wrong": sum(not is_right(entry.best_error) for entry in poses),
        **{name: verdicts[name] for name in ("better", "level", "worse")},
        "worse_in": [str(duel) for duel in duels if duel.verdict == "worse"],
    }


def _chosen(rows: Sequence[Prediction], use: Sequence[bool]) -> list[Prediction]:
    return [row for row, chosen in zip(rows, use, strict=True) if chosen]


def main() -> None:
    """Judge all predictions again and write ``results/min_confidence.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="--out of benchmarks.paper_experiments")
    calibration = load_matcher("invariant").calibration
    assert calibration is not None
    with Runner(RunSettings(parser.parse_args().folder / "predictions")) as runner:
        made = list(settings(runner))
    rows = [measured(made, calibration.where(vertical_known=False, infinite=True), level) for level in LEVELS]
    others = {}
    for role in OTHERS:
        poses = [p for setting in made for p in setting.others.get(role, ()) if p.pose is not None]
        others[role] = {"given": len(poses), "wrong": sum(not is_right(p.error) for p in poses)}
    pairs = sum(len(setting.ours) for setting in made)
    save("min_confidence", {"settings": len(made), "pairs": pairs, "levels": rows, "others": others}, ["invariant"])
    for row in rows:
        print({key: value for key, value in row.items() if key != "worse_in"})
    print(others)


if __name__ == "__main__":
    main()

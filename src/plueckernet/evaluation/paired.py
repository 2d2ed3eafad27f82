"""Our default against ICL and PlückerNet on the same pairs, pair by pair; a section of docs/results.md.

ICL and PlückerNet judge nothing: each of their poses is given. Ours gives no pose whose confidence is too low, so two
things are counted. The poses themselves compare by the best pose of each method, given or not; that is the comparison
that a verdict is about. What a user gets compares by the poses given, where a right pose that is not accepted is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plueckernet.evaluation.experiments.plan import ROLES, CellsValues
from plueckernet.evaluation.experiments.recall import RecallValues
from plueckernet.evaluation.experiments.sweep import SweepValues
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.summary import CellSummary
from plueckernet.evaluation.tables import Table

Comparable = CellsValues | RecallValues | SweepValues
COMPARED = {  # experiments that count right poses
    "table1": "Table 1",
    "table1-each-axis": "Table 1, noise about each axis",
    "overlap": "overlap",
    "noise": "noise",
    "odometry": "consecutive views",
    "undirected": "directions",
    "rotation": "rotation in °",
    "translation": "translation in m",
    "wrong-matches": "fraction of wrong matches, RANSAC alone",
}
POSES = {"best": "best pose against best pose", "success": "only the poses given"}  # what is counted, the verdict first
VERDICTS = ("better", "level", "worse")
_OURS, _OTHERS = ("ours", "ransac-ours"), ("icl", "pluecker", "ransac-published")
_TWO_SIGMA = 0.0455  # probability of more, on both sides together


@dataclass(frozen=True)
class RightPoses:
    """The right poses of one method at one place."""

    role: str
    rate: Rate
    pairs: Sequence[bool] | None  # of each pair, whether it is right; None in results that did not record it


@dataclass(frozen=True)
class Duel:
    """Ours against the better of the others, on the pairs of one place of one experiment and dataset."""

    where: str  # experiment and dataset
    place: str
    ours: RightPoses
    other: RightPoses

    @property
    def verdict(self) -> str:
        """Of :data:`VERDICTS`, by two sigma; of older results as if the pairs of both methods were different ones."""
        mine, theirs = self.ours.rate, self.other.rate
        if self.ours.pairs is None or self.other.pairs is None:
            margin = 2 * math.hypot(sigma(mine.fraction, mine.total), sigma(theirs.fraction, theirs.total))
            differs = abs(mine.fraction - theirs.fraction) > margin
        else:
            differs = mcnemar(*self.only()) < _TWO_SIGMA
        return "level" if not differs else "better" if mine.fraction > theirs.fraction else "worse"

    def only(self) -> tuple[int, int]:
        """Pairs of which only ours, and only the other is right."""
        pairs = list(zip(self.ours.pairs or (), self.other.pairs or (), strict=True))
        return sum(mine and not theirs for mine, theirs in pairs), sum(theirs and not mine for mine, theirs in pairs)

    def __str__(self) -> str:
        mine, theirs = self.ours.rate, self.other.rate
        return (
            f"{self.where}, {self.place}: {mine.count} of {mine.total} right, {ROLES[self.other.role]} {theirs.count}"
        )


def mcnemar(first: int, second: int) -> float:
    """Exact two-sided p of McNemar's test, of the pairs that only the first and only the second method gets right."""
    count = first + second
    tail = sum(math.comb(count, k) for k in range(min(first, second) + 1))
    return min(1.0, 2 * tail / 2**count)


def sigma(fraction: float, count: int) -> float:
    """Of a fraction of ``count``; even where all are right there is no certainty."""
    smoothed = (fraction * count + 1) / (count + 2)
    return math.sqrt(smoothed * (1 - smoothed) / max(1, count))


def duels(documents: Mapping[str, Any], poses: str) -> Iterator[Duel]:
    """At every place of every experiment; ``poses`` is of `POSES`.

    In the experiment on RANSAC the paper's is the other. Results that did not record the best poses are left out
    where these are compared.
    """
    for key, title in COMPARED.items():
        if key not in documents:
            continue
        values: Comparable = documents[key]
        places = values.names if isinstance(values, SweepValues) else ("all",)
        for dataset in values.cells:
            rows = {role: _right(role, cells, poses) for role, cells in _steps(values, dataset).items()}
            for i, place in enumerate(places):
                entries = [row[i] for role, row in rows.items() if role in (*_OURS, *_OTHERS)]
                known = [entry for entry in entries if entry is not None]
                if len(known) < len(entries):
                    continue
                ours = next(entry for entry in known if entry.role in _OURS)
                others = [entry for entry in known if entry.role in _OTHERS]
                yield Duel(f"{title}, {dataset}", place, ours, max(others, key=lambda entry: entry.rate.fraction))


def _steps(values: Comparable, dataset: str) -> dict[str, Sequence[CellSummary | None]]:
    """By role, place by place."""
    if isinstance(values, SweepValues):
        return dict(values.cells[dataset])
    if isinstance(values, RecallValues):
        return {role: [cell.summary] for role, cell in values.cells[dataset].items()}
    return {role: [cell] for role, cell in values.cells[dataset].items()}


def _right(role: str, cells: Sequence[CellSummary | None], poses: str) -> list[RightPoses | None]:
    """Place by place; None where recorded pairs cannot show it, or where nothing is known."""
    rates = [None if cell is None else cell.best if poses == "best" else cell.success for cell in cells]
    return [
        None if cell is None or rate is None else RightPoses(role, rate, cell.right_pairs(poses))
        for cell, rate in zip(cells, rates, strict=True)
    ]


def counts(made: Sequence[Duel]) -> str:
    """``better at 20, level at 38, worse at 14``."""
    verdicts = [duel.verdict for duel in made]
    return ", ".join(f"{name} at {verdicts.count(name)}" for name in VERDICTS)


def summaries(documents: Mapping[str, Any]) -> list[str]:
    """One sentence for each way of counting."""
    sentences = []
    for poses, words in POSES.items():
        made = list(duels(documents, poses))
        if made:
            sentences.append(
                f"On the same pairs, {words}, ours against the better of ICL and PlückerNet trained here: of "
                f"{len(made)} settings it is {counts(made)} (see [below](#on-the-same-pairs))."
            )
    return sentences


def same_pairs(documents: Mapping[str, Any]) -> str:
    """Where our default is better, level or worse than the paper's method and its baseline on the same pairs."""
    parts = []
    for poses, words in POSES.items():
        made = list(duels(documents, poses))
        if made:
            parts += [f"{_table(words[0].upper() + words[1:], made).markdown()}\n", _worse(made)]
    return "\n".join(["## On the same pairs", "", _ABOUT, *parts]) if parts else ""


_ABOUT = (
    "Right poses of our default against those of the better of ICL and PlückerNet trained here. Both are given the "
    "directions of lines; ours is not. They give a pose for every pair, right or wrong, and do not judge it. Ours "
    "gives none whose confidence is too low; its best pose is then the first of the alternatives.\n\n"
    "The first table compares the poses themselves: the best pose of each method, given or not. The verdict on the "
    "methods is this one. The second table counts the poses given only, so that a right pose which ours does not "
    "accept is a failure, while the others lose nothing by wrong poses. Where every second best pose is wrong, as at "
    "an overlap of 0.1 indoors, few can be right with a probability of 0.9, and ours gives few. A lower "
    "`min_confidence` gives more of them, and few wrong ones: "
    "[what it costs](reliability.md#what-min_confidence-costs-and-gives). How many of the poses that are called a "
    "success are wrong is in the tables of the experiments.\n\n"
    "“Better” and “worse” are differences of more than two sigma in McNemar's exact test: of the pairs that only one "
    "of both methods gets right, one has so many more that chance makes it in less than 4.6 % of the cases. The rest "
    "is level. Of results that did not record the pairs, rates are compared as if they were of different pairs.\n"
)


def _table(title: str, made: Sequence[Duel]) -> Table:
    rows = []
    for where in dict.fromkeys(duel.where for duel in made):
        here = [duel for duel in made if duel.where == where]
        places = ([duel.place for duel in here if duel.verdict == name] for name in VERDICTS)
        rows.append([where, *("; ".join(names) or "–" for names in places)])
    return Table(title, ["", *(f"{name} at" for name in VERDICTS)], rows)


def _worse(made: Sequence[Duel]) -> str:
    """Every setting in which ours is worse, with the counts."""
    worse = [duel for duel in made if duel.verdict == "worse"]
    if not worse:
        return f"Ours is worse in none of these {len(made)} settings.\n"
    return "\n".join(
        [f"Ours is worse in {len(worse)} of these {len(made)} settings:", "", *(f"- {d}" for d in worse), ""]
    )

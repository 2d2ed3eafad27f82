"""Our numbers against the paper's and against its methods on the same pairs; the first sections of docs/results.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plueckernet.evaluation.experiments import EXPERIMENTS
from plueckernet.evaluation.experiments.ablations import component_claims
from plueckernet.evaluation.experiments.plan import CellsValues
from plueckernet.evaluation.experiments.recall import RecallValues
from plueckernet.evaluation.experiments.sweep import SweepValues
from plueckernet.evaluation.paper import QUARTILES, TABLE_1
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.summary import CellSummary
from plueckernet.evaluation.tables import Table

OUTCOMES = ("held", "refuted", "not decided", "not measured")  # of a claim of the paper
Comparable = CellsValues | RecallValues | SweepValues
TABLES_1 = {"table1": "a random axis", "table1-each-axis": "each axis"}  # experiments, and what noise turns lines about
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


def against_table_1(values: CellsValues, turn: str = TABLES_1["table1"]) -> str:
    """Every number of the paper's row beside ours; smaller ones are bold. Noise turns lines about ``turn``."""
    columns = {
        "ours": "our default",
        "pluecker": "PlückerNet trained here",
        "pluecker-refined": "its matches, our estimation",
    }
    below = dict.fromkeys(columns, 0)
    rows = []
    for name, paper in TABLE_1.items():
        cells = values.cells[name]
        for quantity, unit in (("rotation", "°"), ("translation", " m")):
            for i, which in enumerate(QUARTILES):
                published, row = paper["PlückerNet"][quantity][i], [f"{name}, {quantity}, {which}"]
                row.append(f"{published:.3f}{unit}")
                for role in columns:
                    mine = cells[role].quartiles(quantity)[i]
                    smaller = mine is not None and mine < published
                    below[role] += smaller
                    text = "no pose" if mine is None else f"{mine:.3f}{unit}"
                    row.append(f"**{text}**" if smaller else text)
                rows.append(row)
    counts = "; ".join(f"{columns[role]} is below {count} of the {len(rows)}" for role, count in below.items())
    title = f"Published for PlückerNet, and measured here with noise about {turn}"
    table = Table(title, ["", "published", *columns.values()], rows)
    sentence = (
        f"The paper publishes {len(rows)} numbers for its method: {counts}. Its data differ from ours (see below)."
    )
    head = f"## Against the published Table 1, noise about {turn}"
    return "\n".join([head, "", sentence, "", table.markdown(), ""])


@dataclass(frozen=True)
class Comparison:
    """Our success against that of the others on the same pairs, place by place of one experiment and dataset."""

    title: str
    places: Sequence[str]
    ours: Sequence[Rate]
    others: Sequence[Sequence[Rate]]

    def places_where(self, verdict: str) -> list[str]:
        """Places where ours is better, worse or level with the best of the others, by two sigma."""
        return [
            place
            for place, mine, others in zip(self.places, self.ours, zip(*self.others, strict=True), strict=True)
            if _verdict(mine, max(others, key=lambda rate: rate.fraction)) == verdict
        ]


def _verdict(mine: Rate, best: Rate) -> str:
    margin = 2 * math.hypot(sigma(mine.fraction, mine.total), sigma(best.fraction, best.total))
    difference = mine.fraction - best.fraction
    return "better" if difference > margin else "worse" if difference < -margin else "level"


POSES = {  # which of our poses are counted; ICL and PlückerNet give all of theirs
    "success": "the poses given",
    "best": "the best poses, given or not",
}


def comparisons(documents: Mapping[str, Any], poses: str = "success") -> Iterator[Comparison]:
    """Against ICL and PlückerNet, and in the experiment on RANSAC against the paper's; ``poses`` is of `POSES`.

    Results that did not record the best poses are left out where these are compared.
    """
    for key, title in COMPARED.items():
        if key not in documents:
            continue
        values: Comparable = documents[key]
        for name in values.cells:
            rates = {role: _right(steps, poses) for role, steps in _steps(values, name).items()}
            if any(rate is None for steps in rates.values() for rate in steps):
                continue
            known = {role: [rate for rate in steps if rate is not None] for role, steps in rates.items()}
            ours = known.get("ours", known.get("ransac-ours", []))
            others = [known[role] for role in ("icl", "pluecker", "ransac-published") if role in known]
            places = values.names if isinstance(values, SweepValues) else ("all",)
            yield Comparison(f"{title}, {name}", places, ours, others)


def _steps(values: Comparable, dataset: str) -> dict[str, Sequence[CellSummary | None]]:
    """By role, place by place."""
    if isinstance(values, SweepValues):
        return dict(values.cells[dataset])
    if isinstance(values, RecallValues):
        return {role: [cell.summary] for role, cell in values.cells[dataset].items()}
    return {role: [cell] for role, cell in values.cells[dataset].items()}


def _right(steps: Sequence[CellSummary | None], poses: str) -> list[Rate | None]:
    return [Rate(0, 0) if cell is None else cell.best if poses == "best" else cell.success for cell in steps]


def same_pairs(documents: Mapping[str, Any]) -> str:
    """Where our default is better, level or worse than the paper's method and its baseline on the same pairs."""
    verdicts = ("better", "level", "worse")
    tables = []
    for poses, words in POSES.items():
        rows = [
            [comparison.title, *("; ".join(comparison.places_where(verdict)) or "–" for verdict in verdicts)]
            for comparison in comparisons(documents, poses)
        ]
        if rows:
            tables.append(Table(f"Of {words}", ["", *(f"{verdict} at" for verdict in verdicts)], rows))
    if not tables:
        return ""
    about = (
        "Right poses of our default against those of the better of ICL and PlückerNet trained here. Both are given the "
        "directions of lines; ours is not. “Better” and “worse” are differences of more than two sigma; the rest is "
        "level. ICL and PlückerNet give a pose for every pair, right or wrong. Ours gives none whose confidence is too "
        "low, as with few lines in common; its best candidate is then the first of the alternatives, and the second "
        "table counts it.\n"
    )
    return "\n".join(["## On the same pairs", "", about, *(f"{table.markdown()}\n" for table in tables)])


def in_short(documents: Mapping[str, Any]) -> str:
    """The verdicts in a few lines."""
    lines = []
    if "table1" in documents:
        better = relative_to_icl(documents["table1"])
        lines.append(
            f"Median errors as multiples of ICL on the same data: ours are smaller than the paper's in "
            f"{sum(better.values())} of {len(better)} cases{_except([name for name, so in better.items() if not so])}."
        )
    for name, place in (("scenes", -1), ("error-sources", 0)):  # which noise, and why PlückerNet errs as it does
        if name in documents:
            lines.append(EXPERIMENTS[name].findings(documents[name])[place])
    for poses, which in POSES.items():
        compared = list(comparisons(documents, poses))
        counts = {
            verdict: sum(len(comparison.places_where(verdict)) for comparison in compared)
            for verdict in ("better", "level", "worse")
        }
        words = ", ".join(f"{verdict} at {count}" for verdict, count in counts.items())
        if compared:
            lines.append(
                f"On the same pairs, counting {which}, ours against the better of ICL and PlückerNet trained here: of "
                f"{sum(counts.values())} settings it is {words} (see [below](#on-the-same-pairs))."
            )
    if "timing" in documents:
        lines += [f"Time, {sentence}" for sentence in EXPERIMENTS["timing"].findings(documents["timing"])]
    if "ablations" in documents:
        outcomes = [entry.outcome for entry in component_claims(documents["ablations"])]
        words = ", ".join(f"{count} {name}" for name in OUTCOMES if (count := outcomes.count(name)))
        lines.append(f"Of {len(outcomes)} claims of the paper about components of its network: {words}.")
    return "\n".join(["## In short", "", *(f"- {line}" for line in lines), ""])


def relative_to_icl(values: CellsValues) -> dict[str, bool]:
    """Whether ours errs less, as a multiple of ICL on the same data, than the paper's method in the paper."""
    better = {}
    for name, paper in TABLE_1.items():
        cells = values.cells[name]
        for quantity in ("rotation", "translation"):
            mine, icl = (cells[role].median(quantity) for role in ("ours", "icl"))
            published = paper["PlückerNet"][quantity][1] / paper["ICL"][quantity][1]
            better[f"{name} {quantity}"] = mine is not None and (icl is None or mine / icl < published)
    return better


def sigma(fraction: float, count: int) -> float:
    """Of a fraction of ``count``; even where all are right there is no certainty."""
    smoothed = (fraction * count + 1) / (count + 2)
    return math.sqrt(smoothed * (1 - smoothed) / max(1, count))


def _except(exceptions: list[str]) -> str:
    return f", but not for {', '.join(exceptions)}" if exceptions else ""

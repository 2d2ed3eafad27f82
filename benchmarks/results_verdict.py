"""Where we beat the paper and where not, from what `plueckernet reproduce` wrote; the first part of docs/results.md."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from plueckernet.evaluation.experiments import EXPERIMENTS, Document
from plueckernet.evaluation.paper import QUARTILES, TABLE_1
from plueckernet.evaluation.tables import Table

COMPARED = {  # experiments that count right poses
    "table1": "Table 1",
    "overlap": "overlap",
    "noise": "noise",
    "odometry": "consecutive views",
    "undirected": "directions",
    "rotation": "rotation in °",
    "translation": "translation in m",
    "wrong-matches": "share of wrong matches, RANSAC alone",
}


def against_table_1(table1: Document) -> str:
    """Every number of the paper's row beside ours; what is below it is bold."""
    who = {"ours": "our default", "pluecker": "PlückerNet trained here"}
    below = dict.fromkeys(who, 0)
    rows = []
    for name, paper in TABLE_1.items():
        cells = table1["cells"][name]
        for quantity, unit in (("rotation", "°"), ("translation", " m")):
            for i, which in enumerate(QUARTILES):
                published, row = paper["PlückerNet"][quantity][i], [f"{name}, {quantity}, {which}"]
                row.append(f"{published:.3f}{unit}")
                for role in who:
                    mine = cells[role][quantity][i]
                    good = mine is not None and mine < published
                    below[role] += good
                    text = "no pose" if mine is None else f"{mine:.3f}{unit}"
                    row.append(f"**{text}**" if good else text)
                rows.append(row)
    counts = "; ".join(f"{who[role]} is below {count} of the {len(rows)}" for role, count in below.items())
    table = Table("Published for PlückerNet, and measured here", ["", "published", *who.values()], rows)
    sentence = f"Of the numbers that the paper publishes for its method, {counts}. They are of other data: see below."
    return "\n".join(["## Against the published Table 1", "", sentence, "", table.markdown(), ""])


@dataclass(frozen=True)
class Duel:
    """Our success against that of the others on the same pairs, place by place of one experiment and dataset."""

    title: str
    places: list[str]
    ours: list[float]
    others: list[list[float]]
    pairs: int  # at each place

    def won(self, verdict: str) -> list[str]:
        """Places where ours is better, worse or level with the best of the others, by two sigma."""
        found = []
        for place, mine, best in zip(self.places, self.ours, map(max, zip(*self.others, strict=True)), strict=True):
            margin = 2 * math.hypot(sigma(mine, self.pairs), sigma(best, self.pairs))
            is_so = "better" if mine - best > margin else "worse" if best - mine > margin else "level"
            found += [place] * (is_so == verdict)
        return found


def duels(found: dict[str, Document]) -> Iterator[Duel]:
    """Against ICL and PlückerNet, and in the experiment on RANSAC against the paper's."""
    for key, title in COMPARED.items():
        for name, methods in found[key]["cells"].items() if key in found else ():
            many = {role: cells if isinstance(cells, list) else [cells] for role, cells in methods.items()}
            rates = {role: [cell["success"] for cell in cells] for role, cells in many.items()}
            ours = rates.get("ours", rates.get("ransac-ours", []))
            others = [rates[role] for role in ("icl", "pluecker", "ransac-published") if role in rates]
            yield Duel(f"{title}, {name}", found[key].get("names", ["all"]), ours, others, found[key]["pairs"][name])


def same_pairs(found: dict[str, Document]) -> str:
    """Where our default is better, level or worse than the paper's method and its baseline on the same pairs."""
    verdicts = ("better", "level", "worse")
    rows = [[duel.title, *("; ".join(duel.won(one)) or "–" for one in verdicts)] for duel in duels(found)]
    if not rows:
        return ""
    about = (
        "Success of our default against the better of ICL and PlückerNet trained here, which are given the directions "
        "of lines. Better or worse is what differs by more than two sigma; the rest is level.\n"
    )
    table = Table("Where we are better, and where not", ["", *(f"{one} at" for one in verdicts)], rows)
    return "\n".join(["## On the same pairs", "", about, table.markdown(), ""])


def in_short(found: dict[str, Document]) -> str:
    """The verdicts in a few lines."""
    lines = []
    if "table1" in found:
        better = relative_to_icl(found["table1"])
        lines.append(
            f"Relative to ICL on the same data, our median errors are smaller than the paper's method's in "
            f"{sum(better.values())} of {len(better)} cases{_but([name for name, so in better.items() if not so])}."
        )
    for verdict, than in (("better", "both ICL and PlückerNet trained here"), ("worse", "the better of the two")):
        places = [f"{duel.title} ({'; '.join(won)})" for duel in duels(found) if (won := duel.won(verdict))]
        lines.append(f"On the same pairs, {verdict} than {than}: {', '.join(places) or 'nowhere'}.")
    if "timing" in found:
        lines += [f"Time, {sentence}" for sentence in EXPERIMENTS["timing"].findings(found["timing"])]
    if "ablations" in found:
        said = EXPERIMENTS["ablations"].findings(found["ablations"])[1:]
        held, contrary = (sum(end in one for one in said) for end in ("the claim held", "the contrary was seen"))
        lines.append(
            f"Of the paper's {len(said)} claims about parts of its network, {held} held in short trainings, of "
            f"{contrary} the contrary was seen, {len(said) - held - contrary} were not decided."
        )
    return "\n".join(["## In short", "", *(f"- {line}" for line in lines), ""])


def relative_to_icl(table1: Document) -> dict[str, bool]:
    """Whether ours errs less, as a multiple of ICL on the same data, than the paper's method in the paper."""
    better = {}
    for name, paper in TABLE_1.items():
        cells = table1["cells"][name]
        for quantity in ("rotation", "translation"):
            mine, icl = (cells[role][quantity][1] for role in ("ours", "icl"))
            published = paper["PlückerNet"][quantity][1] / paper["ICL"][quantity][1]
            better[f"{name} {quantity}"] = mine is not None and (icl is None or mine / icl < published)
    return better


def sigma(share: float, count: int) -> float:
    """Of a share of so many, which even where all are right is no certainty."""
    kept = (share * count + 1) / (count + 2)
    return math.sqrt(kept * (1 - kept) / count)


def _but(exceptions: list[str]) -> str:
    return f", but not of {', '.join(exceptions)}" if exceptions else ""

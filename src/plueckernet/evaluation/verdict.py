"""Our numbers against the paper's: the first sections of docs/results.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plueckernet.evaluation.experiments import EXPERIMENTS
from plueckernet.evaluation.experiments.ablations import component_claims
from plueckernet.evaluation.experiments.plan import CellsValues
from plueckernet.evaluation.paired import summaries
from plueckernet.evaluation.paper import QUARTILES, TABLE_1
from plueckernet.evaluation.tables import Table

OUTCOMES = ("held", "refuted", "not decided", "not measured")  # of a claim of the paper
TABLES_1 = {"table1": "a random axis", "table1-each-axis": "each axis"}  # experiments, and what noise turns lines about


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
    lines += summaries(documents)
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


def _except(exceptions: list[str]) -> str:
    return f", but not for {', '.join(exceptions)}" if exceptions else ""

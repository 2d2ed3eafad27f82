"""The page of results of the paper's experiments, made from what `plueckernet reproduce` wrote.

The page says nothing that is not computed from the documents: change the numbers there, never here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plueckernet.evaluation.claims import claims_section
from plueckernet.evaluation.crop_results import CropValues
from plueckernet.evaluation.documents import ResultDocument, read_result
from plueckernet.evaluation.experiments import EXPERIMENTS, Experiment
from plueckernet.evaluation.paired import same_pairs, sigma
from plueckernet.evaluation.provenance import mark
from plueckernet.evaluation.reproduce import read_document, write_figures
from plueckernet.evaluation.result_rows import combined, compared_crops
from plueckernet.evaluation.verdict import TABLES_1, against_table_1, in_short

IMAGES = Path("images", "results")  # from the folder of the page
INTRODUCTION = """# Results

This page is made by `python -m benchmarks.pages` from `benchmarks/results`. Every table and figure comes from one
`plueckernet reproduce EXPERIMENT --out DIR` (see [experiments.md](experiments.md)). *Success* counts the poses that a
method gives and whose error is below 5° and 0.5 m; a pair without a pose is a failure, whatever the reason. *Wrong and
called a success*, or *false*, counts the wrong ones among the poses that a method accepts, of how many; methods that do
not judge their poses accept all of them. “Given” marks older runs, which did not record the poses called a success: the
ambiguous ones count, too. Stars in figures are numbers that the paper publishes.
"""
COMPARABLE = """## What can be compared and what cannot

- **The data differ.** The paper's datasets are not available here. The stand-ins are synthetic houses and towns, made
  so that the paper's ICL baseline errs on them about as much as in the paper. Errors in degrees and metres on different
  data are not a comparison; ratios to ICL on the same data are closer to one.
- **The same code ran on the same pairs** for all methods of a table: those rows compare with one another.
- **PlückerNet and the regression baseline** are the published networks, implemented again and trained on the stand-ins
  for some minutes of a GPU, the paper's for a day. In PlückerNet's RANSAC the rotation from two lines is corrected.
- **Ours does not use line directions.** ICL and PlückerNet are given them, except where a table says undirected.
- **The noise on directions** has two readings, about a random axis and about each axis
  ([experiments.md](experiments.md)). Table 1 is measured with both.
- **Seconds** of different machines do not compare.
"""


def results_page(folder: Path, crops: Path | None = None) -> str:
    """The whole page; experiments without a result are named as missing. ``crops`` has the documents of crops."""
    documents = {
        name: read_document(experiment, folder)
        for name, experiment in EXPERIMENTS.items()
        if (folder / f"{name}.json").exists()
    }
    values = {name: document.values for name, document in documents.items()}
    sections = [INTRODUCTION + certainty(values) + _marks(documents), in_short(values)]
    sections += [against_table_1(values[name], turn) for name, turn in TABLES_1.items() if name in values]
    sections += [claims_section(values), same_pairs(values), COMPARABLE]
    sections += [section(EXPERIMENTS[name], document) for name, document in documents.items()]
    sections.append(crop_section(crops or folder))
    missing = [experiment.title for name, experiment in EXPERIMENTS.items() if name not in documents]
    if missing:
        sections.append("## Not measured yet\n\n" + "\n".join(f"- {title}" for title in missing) + "\n")
    return "\n".join(text for text in sections if text)


def _marks(documents: Mapping[str, ResultDocument[Any]]) -> str:
    """Which results are not of the present sources."""
    marks = {name: text for name, document in documents.items() if (text := mark(document.to_dict()))}
    said = "; ".join(f"{EXPERIMENTS[name].title} {text}" for name, text in marks.items())
    return f"\nMeasured with earlier sources: {said}.\n" if said else ""


def certainty(values: Mapping[str, Any]) -> str:
    """How many pairs the numbers rest on, and how uncertain that makes them."""
    counts = {name: min(entry.setting.pairs.values()) for name, entry in values.items() if hasattr(entry, "setting")}
    if not counts:
        return ""
    fewest, most = min(counts.values()), counts.get("table1", max(counts.values()))
    return (
        f"Table 1 and what follows from it use at least {most} pairs per dataset, other numbers at least {fewest}. "
        f"A rate of 90 % is then uncertain by {100 * sigma(0.9, most):.1f} and {100 * sigma(0.9, fewest):.1f} points "
        "(one sigma).\n"
    )


def crop_section(folder: Path) -> str:
    """Neighbouring crops of real maps: ours, and what a user would pick today, if both have been measured."""
    paths = {"ours": folder / "crops_invariant.json", "Open3D": folder / "crops_open3d.json"}
    if not all(path.exists() for path in paths.values()):
        return ""
    documents = {name: read_result(path, path.stem, CropValues) for name, path in paths.items()}
    values = {name: document.values for name, document in documents.items()}
    false = combined([cell.summary for cell in values["ours"].totals]).false_success_text
    about = (
        "Beyond the paper: neighbouring crops of real line maps, by the fraction of lines in common (`plueckernet "
        "evaluate crops`). The table counts right poses: the error of the best pose, accepted or not, is below 5° and "
        "0.5 m. Open3D (FPFH, RANSAC and ICP on points sampled along the lines, `python -m benchmarks.crops_open3d`) "
        "is given neither the lines nor their directions; its settings were chosen on synthetic pairs. It was run on "
        "some of the pairs.\n\n"
        f"Of our poses, {false} are wrong; Open3D does not judge its poses.\n"
    )
    marks = "; ".join(f"{name}: {text}" for name, document in documents.items() if (text := mark(document.to_dict())))
    lines = ["## Crops of real maps", "", *([f"*Measured {marks}.*", ""] if marks else []), about]
    return "\n".join([*lines, "**ours / Open3D**", "", *compared_crops(values), ""])


def section(experiment: Experiment[Any], document: ResultDocument[Any]) -> str:
    """One experiment: what it is, what was found, figures, tables."""
    measured = mark(document.to_dict())
    lines = [f"## {experiment.title}", "", *([f"*Measured {measured}.*", ""] if measured else []), experiment.about, ""]
    lines += [f"- {sentence}" for sentence in experiment.findings(document.values)]
    lines.append("")
    for name in experiment.figures(document.values):
        stem = f"{experiment.name}-{name}"
        lines += [f"![{experiment.title}: {stem}]({(IMAGES / stem).as_posix()}.png)", ""]
    lines += [f"{table.markdown()}\n" for table in experiment.tables(document.values)]
    return "\n".join(lines)


def write_page_figures(folder: Path, docs: Path) -> None:
    """Write the figures of the page as PNG below ``docs``."""
    for name, experiment in EXPERIMENTS.items():
        if (folder / f"{name}.json").exists():
            for stem in write_figures(experiment, read_document(experiment, folder).values, docs / IMAGES):
                (docs / IMAGES / f"{stem}.svg").unlink()  # the page shows PNG

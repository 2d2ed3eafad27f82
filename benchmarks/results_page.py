"""docs/results.md and its figures, made from what `plueckernet reproduce` wrote.

    plueckernet reproduce all --out OUT --workers 2 --data ablations=trained/ablations.json
    cp OUT/*.json benchmarks/results/experiments/
    python -m benchmarks.results_page

The page says nothing that is not computed from the committed JSON: change the numbers there, never here.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.crops_table import beside
from benchmarks.harness import RESULTS
from benchmarks.results_verdict import against_table_1, in_short, same_pairs, sigma
from plueckernet.evaluation.experiments import EXPERIMENTS, Document, Experiment
from plueckernet.evaluation.reproduce import read_document, write_figures

FOLDER = RESULTS / "experiments"
DOCS = Path(__file__).parents[1] / "docs"
IMAGES = Path("images", "results")  # from the folder of the page
INTRODUCTION = """# Results

Made by `python -m benchmarks.results_page` from `benchmarks/results/experiments`; every table and figure comes from one
`plueckernet reproduce EXPERIMENT --out DIR` (see [experiments.md](experiments.md)). Success is a pose within 5° and
0.5 m. A pair without a pose, because a method gave up or could not use the input, counts as a failure everywhere.
Stars in figures are numbers that the paper publishes.
"""
COMPARABLE = """## What can be compared and what cannot

- **The data differ.** The paper's datasets cannot be had here; the stand-ins are synthetic houses and towns, made so
  that the paper's ICL baseline errs on them about as far as it does in the paper. Errors in degrees and metres of two
  columns of different data are not a comparison; ratios to ICL on the same data are closer to one.
- **The same code ran on the same pairs** for all methods of a table here: those rows compare with one another.
- **PlückerNet and the regression baseline here** are the published networks, written anew and trained on the stand-ins,
  briefly where the paper trained for a day. PlückerNet's RANSAC has the rotation of two lines mended.
- **Ours does not use line directions**, ICL and PlückerNet are given them (except where a table says undirected).
- **Seconds** of different machines do not compare.
"""


def page(folder: Path = FOLDER) -> str:
    """The whole page; experiments without a result are named as missing."""
    found = {
        name: read_document(one, folder) for name, one in EXPERIMENTS.items() if (folder / f"{name}.json").exists()
    }
    parts = [INTRODUCTION + certainty(found), in_short(found)]
    if "table1" in found:
        parts.append(against_table_1(found["table1"]))
    parts += [same_pairs(found), COMPARABLE]
    parts += [section(EXPERIMENTS[name], document) for name, document in found.items()]
    parts.append(crops(RESULTS if folder == FOLDER else folder))
    missing = [one.title for name, one in EXPERIMENTS.items() if name not in found]
    if missing:
        parts.append("## Not there yet\n\n" + "\n".join(f"- {title}" for title in missing) + "\n")
    return "\n".join(part for part in parts if part)


def certainty(found: dict[str, Document]) -> str:
    """How many pairs the numbers rest on, and what that means."""
    counts = {name: min(document["pairs"].values()) for name, document in found.items() if "pairs" in document}
    if not counts:
        return ""
    fewest, most = min(counts.values()), counts.get("table1", max(counts.values()))
    return (
        f"Table 1 and what follows from it rest on {most} pairs of either dataset, every other number on at least "
        f"{fewest}: a share of 90 % of so many is uncertain by {100 * sigma(0.9, most):.1f} and "
        f"{100 * sigma(0.9, fewest):.1f} points (one sigma).\n"
    )


def crops(folder: Path) -> str:
    """Neighbouring crops of real maps: ours, and what a user would pick today, where both have been measured."""
    paths = {"ours": folder / "crops_invariant.json", "Open3D": folder / "crops_open3d.json"}
    if not all(path.exists() for path in paths.values()):
        return ""
    results = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    about = (
        "Beyond the paper: neighbouring crops of real line maps, by the share of lines that two have in common "
        "(`python -m benchmarks.crops`). Right poses of our default, whatever its status, and of Open3D's FPFH, RANSAC "
        "and ICP on points sampled along the lines (`python -m benchmarks.crops_open3d`), which is given neither the "
        "lines nor their directions; its settings were chosen on synthetic pairs.\n"
    )
    return "\n".join(["## Crops of real maps", "", about, "**ours / Open3D**", "", *beside(results), ""])


def section(experiment: Experiment, document: Document) -> str:
    """One experiment: what it is, what was found, figures, tables."""
    lines = [f"## {experiment.title}", "", experiment.about, ""]
    lines += [f"- {sentence}" for sentence in experiment.findings(document)]
    lines.append("")
    for name in figure_names(experiment, document):
        lines += [f"![{experiment.title}: {name}]({(IMAGES / name).as_posix()}.png)", ""]
    lines += [f"{table.markdown()}\n" for table in experiment.tables(document)]
    return "\n".join(lines)


def figure_names(experiment: Experiment, document: Document) -> list[str]:
    """Names of its figures, without suffix."""
    return [f"{experiment.name}-{name}" for name in experiment.figures(document)]


def main() -> None:
    """Write the page, and its figures unless told not to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the JSON is")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where the page goes")
    a = parser.parse_args()
    a.docs.mkdir(parents=True, exist_ok=True)
    (a.docs / "results.md").write_text(page(a.folder), encoding="utf-8")
    for name, experiment in EXPERIMENTS.items():
        if (a.folder / f"{name}.json").exists():
            for stem in write_figures(experiment, read_document(experiment, a.folder), a.docs / IMAGES):
                (a.docs / IMAGES / f"{stem}.svg").unlink()  # the page shows PNG; reproduce writes both


if __name__ == "__main__":
    main()

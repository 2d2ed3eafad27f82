"""Everything in README and docs that is made from results: ``python -m benchmarks.pages`` writes it.

Tables stand between two markers of their page; docs/results.md is made as a whole. A number that was measured with
other sources than the present ones is marked with the commit it belongs to. ``--figures`` also draws the figures anew.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import confidence_page, page_tables
from benchmarks.harness import RESULTS, table_rows
from plueckernet.evaluation.acceptance_rows import acceptance_rows
from plueckernet.evaluation.acceptance_values import AcceptanceValues
from plueckernet.evaluation.confidence import ConfidenceValues
from plueckernet.evaluation.crop_results import CropValues
from plueckernet.evaluation.documents import TableRow, from_json, read_json
from plueckernet.evaluation.experiments import EXPERIMENTS
from plueckernet.evaluation.invariance import InvarianceValues
from plueckernet.evaluation.outcomes import MIN_COMMON, RIGHT_MEANS
from plueckernet.evaluation.provenance import mark
from plueckernet.evaluation.result_rows import confidence_rows, crop_rows, invariance_rows, synthetic_rows
from plueckernet.evaluation.results_page import results_page, write_page_figures
from plueckernet.evaluation.synthetic import SyntheticValues

ROOT = Path(__file__).parents[1]
EXPERIMENT_RESULTS = RESULTS / "experiments"
LEGEND = (
    f"*Right*: {RIGHT_MEANS}. *Called a success*: the status says so. Pairs of random parts and of surveys count if "
    f"they have {MIN_COMMON} lines in common. *Bound*: maximum likelihood with known matches and noise. A result "
    "marked “at” a commit was measured with the sources of that commit."
)


@dataclass(frozen=True)
class Kind:
    """How a family of documents becomes rows."""

    prefix: str  # of the names
    values: type[Any]
    rows: Callable[[Any], list[TableRow]]


KINDS = (
    Kind("synthetic_", SyntheticValues, synthetic_rows),
    Kind("crops_", CropValues, crop_rows),
    Kind("confidence_", ConfidenceValues, confidence_rows),
    Kind("acceptance_", AcceptanceValues, acceptance_rows),
    Kind("invariance", InvarianceValues, invariance_rows),
)
OTHERS: dict[str, Callable[[dict[str, Any]], list[TableRow]]] = {
    "sensors": lambda _values: page_tables.scan_rows(),
    "networks_cpu": page_tables.cpu_rows,
    "networks_gpu": page_tables.gpu_rows,
}
ORDER = (
    "synthetic_invariant", "synthetic_pluecker-indoor", "synthetic_pluecker-outdoor", "crops_invariant", "crops_open3d",
    "acceptance_invariant", "acceptance_descriptors", "sensors", "synthetic_descriptors", "invariance",
    "confidence_invariant", "confidence_descriptors", "scenes",
    "estimation", "speed", "cold_start", "networks_cpu", "networks_gpu", "extraction",
)  # fmt: skip


def rows_of(path: Path) -> list[TableRow]:
    """The rows of one result; none for results that have none."""
    content, name = read_json(path), path.stem
    if name in OTHERS:
        return OTHERS[name](content)
    if path.parent.name == EXPERIMENT_RESULTS.name:
        experiment = EXPERIMENTS[name]
        return experiment.rows(from_json(experiment.values, content["values"], path))
    for kind in KINDS:
        if name.startswith(kind.prefix):
            return kind.rows(from_json(kind.values, content["values"], path))
    return table_rows(content.get("table", []))


def numbers(folder: Path = RESULTS) -> str:
    """All results as one Markdown table with its legend."""
    paths = sorted([*folder.glob("*.json"), *folder.glob("experiments/*.json")], key=_place)
    lines = []
    for path in paths:
        source = " ".join(filter(None, (f"`{path.name}`", mark(read_json(path)))))
        lines += [f"| {row.what} | {row.goal or '–'} | {row.measured} | {source} |" for row in rows_of(path)]
    if not lines:
        return "No benchmark has been run yet: `make bench`."
    return "\n".join([LEGEND, "", "| what | goal | measured | result |", "|---|---|---|---|", *lines])


def _place(path: Path) -> tuple[int, str]:
    return (ORDER.index(path.stem) if path.stem in ORDER else len(ORDER), path.stem)


def filled(page: str, name: str, content: str) -> str:
    """The page with the content between the markers of that name."""
    begin, end = f"<!-- {name}: written by python -m benchmarks.pages -->", f"<!-- end of {name} -->"
    before, opened, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise ValueError(f"the page has no {begin!r} followed by {end!r}")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


_DOCS_PAGES = (
    "numbers.md", "results.md", "extraction.md", "odometry.md", "networks.md", "registration.md", "reliability.md",
    "batch.md", "start.md",
)  # fmt: skip
PAGES = (ROOT / "README.md", *(ROOT / "docs" / name for name in _DOCS_PAGES))


def rendered() -> dict[Path, str]:
    """Every page with results on it, as it should be."""
    docs = ROOT / "docs"
    tables = [(docs / "numbers.md", "numbers", numbers())]
    tables += [
        ((docs / page).resolve(), name, page_tables.marked_table(name))
        for name, (page, *_) in page_tables.TABLES.items()
    ]
    pages: dict[Path, str] = {}
    for path, name, content in tables:
        pages[path] = filled(pages.get(path) or path.read_text(encoding="utf-8"), name, content)
    return pages | {docs / "results.md": results_page(EXPERIMENT_RESULTS, RESULTS)}


def write() -> None:
    """Write all pages."""
    for path, text in rendered().items():
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Write all pages and, if asked for, figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--figures", action="store_true", help="draw the figures of docs/results.md and docs/reliability.md, too"
    )
    if parser.parse_args().figures:
        write_page_figures(EXPERIMENT_RESULTS, ROOT / "docs")
        confidence_page.draw(ROOT / "docs")
    write()


if __name__ == "__main__":
    main()

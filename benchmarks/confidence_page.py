"""Tables and the figure of docs/reliability.md, made from ``confidence_*.json`` and ``acceptance_*.json``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import RESULTS
from plueckernet.estimation.judgement import Calibration
from plueckernet.evaluation.acceptance_rows import acceptance_rows, offender_lines
from plueckernet.evaluation.acceptance_values import AcceptanceValues
from plueckernet.evaluation.confidence import ConfidenceValues, RealReliability
from plueckernet.evaluation.confidence_figure import LABELS, reliability_figure
from plueckernet.evaluation.crop_results import OVERLAPS, CropValues
from plueckernet.evaluation.documents import read_result
from plueckernet.evaluation.plots import save_figure, style
from plueckernet.evaluation.rates import percent
from plueckernet.evaluation.reliability import Reliability
from plueckernet.evaluation.result_rows import combined

MATCHERS = ("invariant", "descriptors", "pluecker-indoor", "pluecker-outdoor")
FIGURE = Path("images", "confidence")  # from the folder of the page
FRESH = "fresh/crops_invariant"  # crops that nothing was designed on
_NOT_MEASURED = "Not measured yet."


def confidences() -> dict[str, ConfidenceValues]:
    """The calibrations that were measured, by matcher."""
    names = {matcher: f"confidence_{matcher}" for matcher in MATCHERS}
    return {
        matcher: read_result(RESULTS / f"{name}.json", name, ConfidenceValues).values
        for matcher, name in names.items()
        if (RESULTS / f"{name}.json").exists()
    }


def fresh_crops() -> Iterator[str]:
    """Crops of another draw by the fraction of lines in common."""
    totals = read_result(RESULTS / f"{FRESH}.json", Path(FRESH).name, CropValues).values.totals
    bands = {f"{low:g} to {high:g}": cell.summary for (low, high), cell in zip(OVERLAPS, totals, strict=True)}
    yield "| in common | right | right and called a success | wrong and called a success |"
    yield "|:---|---:|---:|---:|"
    for name, summary in (bands | {"all": combined(list(bands.values()))}).items():
        yield f"| {name} | {summary.right} | {summary.right_and_accepted} | {summary.false_success_text} |"


def calibration() -> Iterator[str]:
    """Expected calibration errors by matcher."""
    yield "| matcher | fitted to | crops of real maps, map left out | all real pairs, map left out | synthetic scenes |"
    yield "|:---|:---|---:|---:|---:|"
    for matcher, values in confidences().items():
        for label, (calibration, real) in _measured(matcher, values).items():
            errors = [None] * 3 if real is None else [real.crops, real.all_kinds, real.synthetic]
            cells = [label, calibration.fitted_on, *map(_error_text, errors)]
            yield f"| {' | '.join(cells)} |"


def _measured(matcher: str, values: ConfidenceValues) -> dict[str, tuple[Calibration, RealReliability | None]]:
    """The calibrations of a matcher, by what they are for."""
    label, whole = LABELS.get(matcher, matcher), values.calibration
    special = {"vertical known": (whole.upright, values.upright), "infinite lines": (whole.infinite, values.infinite)}
    known = {f"{label}, {name}": (own, real) for name, (own, real) in special.items() if own is not None}
    return {label: (whole, values.real), **known}


def kinds() -> Iterator[str]:
    """Right and called a success by kind of pair, for matchers that were calibrated on real maps."""
    by_matcher = (_measured(name, values) for name, values in confidences().items())
    measured = {label: real for own in by_matcher for label, (_, real) in own.items() if real is not None}
    if not measured:
        yield _NOT_MEASURED
        return
    yield "| matcher | pairs | right | right and called a success | wrong and called a success | ambiguous |"
    yield "|:---|:---|---:|---:|---:|---:|"
    for matcher, real in measured.items():
        for kind in real.kinds:
            counts = (str(kind.right), str(kind.right_and_called), f"{kind.wrong_and_called} of {kind.called}")
            cells = (matcher, f"{kind.kind}, {kind.pairs}", *counts, str(kind.ambiguous))
            yield f"| {' | '.join(cells)} |"


def accepted() -> Iterator[str]:
    """Every goal of acceptance, and every wrong success."""
    names = [f"acceptance_{matcher}" for matcher in MATCHERS if (RESULTS / f"acceptance_{matcher}.json").exists()]
    if not names:
        yield _NOT_MEASURED
        return
    documents = [read_result(RESULTS / f"{name}.json", name, AcceptanceValues).values for name in names]
    yield "| what | goal | measured |"
    yield "|:---|:---|:---|"
    for values in documents:
        yield from (f"| {row.what} | {row.goal or '–'} | {row.measured} |" for row in acceptance_rows(values))
    for values in documents:
        yield from ("", f"Called a success and not to be, {LABELS.get(values.matcher, values.matcher)}:", "")
        yield from offender_lines(values)


def draw(docs: Path) -> None:
    """Write the reliability diagram as PNG."""
    with style():
        save_figure(reliability_figure(confidences()), docs / FIGURE)
    (docs / FIGURE).with_suffix(".svg").unlink()  # the page shows PNG


def _error_text(entry: Reliability | None) -> str:
    return "–" if entry is None or not entry.pairs else f"{percent(entry.ece)} ({entry.pairs})"

"""Results as rows of the tables of numbers and as lines of Markdown: the words beside the numbers."""

from __future__ import annotations

from collections.abc import Mapping

from plueckernet.errors import InputError
from plueckernet.estimation.judgement import Calibration
from plueckernet.evaluation.confidence import ConfidenceValues, RealReliability
from plueckernet.evaluation.crop_results import OVERLAPS, CropCell, CropValues
from plueckernet.evaluation.documents import TableRow
from plueckernet.evaluation.invariance import InvarianceValues
from plueckernet.evaluation.outcomes import FALSE_SUCCESS, OutcomeSummary
from plueckernet.evaluation.rates import Rate, percent
from plueckernet.evaluation.synthetic import BOUNDED, PAPER, SyntheticCell, SyntheticValues

MIN_SHOWN = 20  # pairs below which a rate says too little for the table
SYNTHETIC_GOALS = {
    ("invariant", "indoor", "keep 70 %"): 0.999,
    ("invariant", "indoor", "keep 50 %"): 0.995,
    ("invariant", "indoor", "keep 30 %"): 0.98,
    ("invariant", "indoor and outdoor", "keep 70 %"): 0.995,
    ("invariant", "indoor and outdoor", "keep 50 %"): 0.98,
    ("invariant", "indoor and outdoor", "keep 30 %"): 0.92,
    ("pluecker-indoor", "indoor", PAPER): 0.99,
    ("pluecker-outdoor", "outdoor", PAPER): 0.97,
    ("descriptors", "indoor", "keep 70 %"): 0.97,
    ("descriptors", "outdoor", "keep 70 %"): 0.90,
}
BOUND_GOALS = {"keep 70 %": 1.10, PAPER: 1.15}
CROP_GOALS = (0.98, 0.93, 0.88, 0.70)  # of the learned matcher, by overlap
MAX_UNRELATED = 0.01
MAX_CALIBRATION_ERROR = 0.03
CONFIDENT = 0.9  # confidence from which a pose is accepted


def synthetic_rows(values: SyntheticValues) -> list[TableRow]:
    """Right poses by cell, errors over the bound, false successes, unrelated maps."""
    rows = []
    for protocol in dict.fromkeys(cell.protocol for cell in values.cells):
        cells = [cell for cell in values.cells if cell.protocol == protocol]
        for cell in cells:
            rows += _cell_rows(values, cell.scenes, protocol, cell.summary)
            rows += _bound_rows(values, cell) if cell.protocol in BOUNDED else []
        if len(cells) > 1:
            scenes = " and ".join(cell.scenes for cell in cells)
            rows += _cell_rows(values, scenes, protocol, *(cell.summary for cell in cells))
    rows += _squared_error_rows(values)
    rows.append(_false_success_row(values))
    if values.unrelated is not None:
        rows.append(
            TableRow(
                f"{_named(values.matcher)}, unrelated maps: called a success",
                str(values.unrelated),
                f"≤ {_goal(MAX_UNRELATED)}",
            )
        )
    return rows


def _cell_rows(values: SyntheticValues, scenes: str, protocol: str, *summaries: OutcomeSummary) -> list[TableRow]:
    total = combined(list(summaries))
    if total.pairs < MIN_SHOWN:
        return []
    goal = SYNTHETIC_GOALS.get((values.matcher, scenes, protocol))
    what = f"{_named(values.matcher)}, {scenes}, {protocol}{'' if values.min_common else ', all pairs'}"
    return [TableRow(what, right_text(total), "" if goal is None else f"≥ {_goal(goal)} right")]


def right_text(summary: OutcomeSummary) -> str:
    """How many poses are right, and how many of the pairs are right and called a success."""
    accepted = summary.right_and_accepted
    return f"right: {summary.right}; right and called a success: {accepted.count:,} ({accepted.percent})"


def _bound_rows(values: SyntheticValues, cell: SyntheticCell) -> list[TableRow]:
    if cell.over_bound is None:
        return []
    where = f"{_named(values.matcher)}, {cell.scenes}, {cell.protocol}"
    what = f"{where}: median rotation and translation error over the bound"
    return [TableRow(what, "{:.2f} and {:.2f}".format(*cell.over_bound), f"≤ {BOUND_GOALS[cell.protocol]:.2f}")]


def _squared_error_rows(values: SyntheticValues) -> list[TableRow]:
    cells = [cell for cell in values.cells if cell.protocol == BOUNDED[0] and cell.squared_error is not None]
    if not cells:
        return []
    scenes = " / ".join(cell.scenes for cell in cells)
    what = f"{_named(values.matcher)}, {BOUNDED[0]}, {scenes}: squared error of the pose normalised by its covariance"
    return [TableRow(what, " / ".join(f"{cell.squared_error:.1f}" for cell in cells), "5.4 to 6.6")]


def _false_success_row(values: SyntheticValues) -> TableRow:
    total = combined([cell.summary for cell in values.cells])
    return TableRow(f"{_named(values.matcher)}, all these: {FALSE_SUCCESS}", total.false_success_text)


def combined(summaries: list[OutcomeSummary]) -> OutcomeSummary:
    """The counts of several groups."""
    called = [summary.accepted for summary in summaries]
    known = [count for count in called if count is not None]
    return OutcomeSummary(
        registered=sum(summary.registered for summary in summaries),
        right=sum((summary.right for summary in summaries), Rate(0, 0)),
        right_and_accepted=sum((summary.right_and_accepted for summary in summaries), Rate(0, 0)),
        false_successes=sum(summary.false_successes for summary in summaries),
        accepted=sum(known) if len(known) == len(called) else None,
    )


def crop_rows(values: CropValues) -> list[TableRow]:
    """One row for each overlap, and false successes."""
    name = f"crops of real maps, {_named(values.method)}"
    rows = []
    for (low, high), least, cell in zip(OVERLAPS, CROP_GOALS, values.totals, strict=True):
        what = f"{name}, {100 * low:.0f} to {100 * high:.0f} % of lines in common"
        goal = f"≥ {_goal(least)} right" if values.method == "invariant" else ""
        text = f"right: {cell.summary.right}" if values.method == "open3d" else right_text(cell.summary)
        rows.append(TableRow(what, text, goal))
    total = combined([cell.summary for cell in values.totals])
    if values.method == "open3d":  # which does not judge its poses
        return rows
    return [*rows, TableRow(f"{name}, all: {FALSE_SUCCESS}", total.false_success_text)]


def crop_lines(values: CropValues) -> list[str]:
    """By map and overlap: right and called a success; in brackets right, accepted or not, of how many pairs."""
    lines = ["| map | " + " | ".join(_overlaps()) + " |", "|---" * (len(OVERLAPS) + 1) + "|"]
    for place in [*values.places, None]:
        cells = " | ".join(map(_crop_text, values.cells(place)))
        lines += [f"| {place or '**all**'} | {cells} |"]
    wrong = " / ".join(cell.summary.false_success_text for cell in values.totals)
    return [*lines, "", f"Wrong and called a success, by overlap: {wrong}."]


def compared_crops(results: Mapping[str, CropValues]) -> list[str]:
    """Right poses of several methods on the same pairs as a Markdown table, a row per map; other pairs are refused."""
    if len({values.fingerprint for values in results.values()}) > 1:
        raise InputError(f"{' and '.join(results)} were measured on different pairs")
    lines = [f"| map | {' | '.join(_overlaps())} |", "|:---" + "|---:" * len(OVERLAPS) + "|"]
    first = next(iter(results.values()))
    for place in [*first.places, None]:
        rows = zip(*(values.cells(place) for values in results.values()), strict=True)
        cells = [" / ".join(_right_text(cell) for cell in row) for row in rows]
        lines.append(f"| {place or '**all**'} | {' | '.join(cells)} |")
    return lines


def _overlaps() -> list[str]:
    return [f"{low:g}–{high:g}" for low, high in OVERLAPS]


def _right_text(cell: CropCell) -> str:
    right = cell.summary.right
    return f"{right.count} of {right.total}" if right.total else "–"


def _crop_text(cell: CropCell) -> str:
    summary = cell.summary
    return f"{summary.right_and_accepted.count} ({summary.right.count} of {summary.pairs})" if summary.pairs else "–"


def confidence_rows(values: ConfidenceValues) -> list[TableRow]:
    """How many of the confident results are right, and the expected calibration errors."""
    rows = []
    sure = values.at_least(CONFIDENT)
    if sure is not None:
        what = f"{_named(values.matcher)}: right of the held-out pairs with a confidence of {CONFIDENT} or more"
        rows.append(TableRow(what, str(sure[1]), f"mean confidence {percent(sure[0])}"))
    if values.real is not None:
        named = {"real crops, their map left out": values.real.crops, "synthetic scenes": values.real.synthetic}
        for pairs, entry in named.items():
            what = f"{_named(values.matcher)}: expected calibration error, {entry.pairs} {pairs}"
            rows.append(TableRow(what, percent(entry.ece), f"≤ {_goal(MAX_CALIBRATION_ERROR)}"))
    return rows


def reliability_lines(values: ConfidenceValues) -> list[str]:
    """Weights and reliability as text."""
    calibration = values.calibration
    lines = [f"{values.matcher}: right {values.right}; Brier score on the held-out half {values.brier}"]
    lines += _model_lines(calibration)
    lines.append("confidence on the held-out half, and how many are right:")
    lines += [f"  {b.low:g} to {b.high:g}: mean {b.confidence:.3f}, right {b.right}" for b in values.reliability]
    lines += [] if values.real is None else real_reliability_lines(values.real)
    special = {
        "where the vertical is known": (calibration.upright, values.upright),
        "of lines without ends": (calibration.infinite, values.infinite),
    }
    for name, (own, real) in special.items():
        if own is not None and real is not None:
            lines += ["", f"{name}:", *_model_lines(own), *real_reliability_lines(real)]
    return lines


def _model_lines(calibration: Calibration) -> list[str]:
    lines = _weight_lines("whether a candidate is right, by the evidence of the preferred", calibration.presence)
    return [*lines, *_weight_lines("which candidate is right", calibration.choice)]


def _weight_lines(model: str, weights: Mapping[str, float]) -> list[str]:
    return [f"{model}:", *(f"  {name}: {weight}" for name, weight in weights.items())]


def real_reliability_lines(real: RealReliability) -> list[str]:
    """Expected calibration errors, and a table of the kinds of pairs."""
    named = {"neighbouring crops": real.crops, "all kinds": real.all_kinds, "synthetic scenes": real.synthetic}
    lines = [
        f"{what}, {entry.pairs} pairs: expected calibration error {percent(entry.ece)}, "
        f"in bins of equal count {percent(entry.adaptive_ece)}"
        for what, entry in named.items()
    ]
    lines += ["", "| pairs | right | right and called a success | wrong and called a success | ambiguous |"]
    lines.append("|:---|---:|---:|---:|---:|")
    for kind in real.kinds:
        wrong = f"{kind.wrong_and_called} of {kind.called}"
        cells = (f"{kind.kind}, {kind.pairs}", str(kind.right), str(kind.right_and_called), wrong, str(kind.ambiguous))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def invariance_rows(values: InvarianceValues) -> list[TableRow]:
    """Changes with unit and place, and moved real maps."""
    changes = " / ".join(f"{change:.0e}" for change in values.changes.values())
    what = f"change of the pose for maps {', '.join(values.changes)} (degrees or metres)"
    rows = [TableRow(what, changes, "none")]
    for matcher, maps in values.real.items():
        rows.append(
            TableRow(
                f"{_named(matcher)}, Line3D++ versions of one reconstruction under {maps.reconstruction.total} poses: "
                "within 1° and 1 % of the extent",
                str(maps.reconstruction),
                "all",
            )
        )
        error = "no pose" if maps.city is None else f"{1000 * maps.city[1]:.1g} mm"
        what = f"{_named(matcher)}, CityJSON in national-grid coordinates against itself moved: error at the centre"
        rows.append(TableRow(what, error, "1 mm"))
    return rows


def _named(matcher: str) -> str:
    """How a matcher is called in tables."""
    return {"invariant": "default", "descriptors": "without weights", "open3d": "Open3D"}.get(matcher, matcher)


def _goal(fraction: float) -> str:
    return f"{100 * fraction:g} %"

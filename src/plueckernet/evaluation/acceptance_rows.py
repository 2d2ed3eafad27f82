"""Acceptance as rows of the tables of numbers and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from plueckernet.evaluation.acceptance_values import AcceptanceValues, GroupCount, ShapeCount
from plueckernet.evaluation.crop_results import OVERLAPS, band_name
from plueckernet.evaluation.documents import TableRow
from plueckernet.evaluation.rates import Rate, percent

_BANDS = tuple(band_name(low, high) for low, high in OVERLAPS)
_RIGHT_AND_CALLED = ((1.0, 0.96), (0.99, 0.93), (0.96, 0.84), (0.88, 0.64))
_OWN_RIGHT_AND_CALLED = ((0.99, 0.97), (0.99, 0.94), (0.96, 0.85), (0.88, 0.65))
CROP_GOALS = dict(zip(_BANDS, _RIGHT_AND_CALLED, strict=True))  # right, and right and called, by band
OWN_CROP_GOALS = dict(zip(_BANDS, _OWN_RIGHT_AND_CALLED, strict=True))
PARALLEL_GOALS = dict(zip(_BANDS, (0.9, 0.7, 0.5, 0.4), strict=True))  # right, by band
MAX_WRONG = 0.007  # of all crops that are called a success
MIN_MAPS = 0.95  # right and called, of sparse maps in dense ones
MAX_UNRELATED = 0.001
MAX_CALIBRATION_ERROR = 0.03
MIN_INLIERS = 6  # of unrelated maps that are called a success
AMBIGUOUS_GROUP = "FZK house, LoD 2 in LoD 3"  # fits in two ways


def acceptance_rows(values: AcceptanceValues) -> list[TableRow]:
    """One row for each goal."""
    name = {"invariant": "default", "descriptors": "without weights"}.get(values.matcher, values.matcher)
    rows = []
    crops = [("crops", group, CROP_GOALS[group.name]) for group in values.crops]
    crops += [("own crops", group, OWN_CROP_GOALS[group.name]) for group in values.own_crops]
    for pairs, group, (right, called) in crops:
        goal = f"≥ {100 * right:g} % right, {100 * called:g} % called"
        rows.append(_group_row(f"{name}, {pairs}, {group.name}", group, goal))
    for group in values.parallel_crops:
        goal = f"≥ {100 * PARALLEL_GOALS[group.name]:g} % right, 0 wrong called"
        rows.append(_group_row(f"{name}, crops of nearly parallel lines, {group.name}", group, goal))
    rows.append(_wrong_row(name, (*values.crops, *values.parallel_crops, *values.own_crops)))
    rows.append(_missed_row(name, values))
    rows += [_map_row(name, group) for group in values.maps]
    least = "" if values.unrelated.min_inliers is None else f"; fewest inliers {values.unrelated.min_inliers}"
    goal = f"≤ {100 * MAX_UNRELATED:g} %, none below {MIN_INLIERS} inliers"
    rows.append(TableRow(f"{name}, unrelated real maps: called a success", f"{values.unrelated.called}{least}", goal))
    rows += [_shape_row(name, shape) for shape in values.shapes]
    rows += _left_out_rows(name, values)
    error = values.crop_reliability
    what = f"{name}, {error.pairs} crops: expected calibration error of the calibration in use"
    return [*rows, TableRow(what, f"{percent(error.ece)}, in bins of equal count {percent(error.adaptive_ece)}")]


def _left_out_rows(name: str, values: AcceptanceValues) -> list[TableRow]:
    """Crops judged by calibrations that do not know their maps."""
    if values.left_out is None:
        return []
    rows = []
    for group in values.left_out.bands:
        goal = f"≥ {100 * CROP_GOALS[group.name][1]:g} % called"
        rows.append(_group_row(f"{name}, crops, {group.name}, calibrated without their map", group, goal))
    error = values.left_out.reliability
    what = f"{name}, {error.pairs} crops: expected calibration error, calibrated without their map"
    text = f"{percent(error.ece)}, in bins of equal count {percent(error.adaptive_ece)}"
    return [*rows, TableRow(what, text, f"≤ {100 * MAX_CALIBRATION_ERROR:g} %")]


def acceptance_lines(values: AcceptanceValues) -> list[str]:
    """All rows, the time of a registration, and every wrong success."""
    lines = [f"{row.what}: {row.measured}" + (f" ({row.goal})" if row.goal else "") for row in acceptance_rows(values)]
    if values.crop_seconds is not None:
        lines.append(f"median CPU time of a crop: {values.crop_seconds:.3f} s")
    return [*lines, *offender_lines(values)]


def offender_lines(values: AcceptanceValues) -> list[str]:
    """Wrong successes as a Markdown table; none if there are none."""
    if not values.offenders:
        return ["wrong and called a success: none"]
    lines = [
        "| pairs | number | place | band | error | confidence | inliers | lines |",
        "|:---|---:|:---|:---|---:|---:|---:|---:|",
    ]
    for entry in values.offenders:
        error = "–" if entry.error is None else f"{entry.error[0]:.1f}°, {entry.error[1]:.2f} m"
        cells = (
            entry.pairs, str(entry.index), ", ".join(entry.places), entry.band, error, f"{entry.confidence:.3f}",
            str(entry.inliers), f"{entry.lines[0]}, {entry.lines[1]}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _group_row(what: str, group: GroupCount, goal: str) -> TableRow:
    called = group.right_and_called
    text = f"right: {group.right}; right and called a success: {called.count} ({called.percent})"
    return TableRow(what, f"{text}; wrong and called: {group.wrong_and_called}", goal)


def _map_row(name: str, group: GroupCount) -> TableRow:
    if group.name != AMBIGUOUS_GROUP:
        return _group_row(f"{name}, {group.name}", group, f"≥ {100 * MIN_MAPS:g} % called, 0 wrong called")
    ambiguous = Rate(group.ambiguous, group.right.total)
    text = f"ambiguous: {ambiguous}; right pose listed: {group.listed}; called a success: {group.called}"
    return TableRow(f"{name}, {group.name}", text, "all ambiguous, all listed")


def _wrong_row(name: str, groups: Sequence[GroupCount]) -> TableRow:
    wrong, called = sum(group.wrong_and_called for group in groups), sum(group.called for group in groups)
    return TableRow(
        f"{name}, all crops: wrong and called a success", f"{Rate(wrong, called)}", f"≤ {100 * MAX_WRONG:g} %"
    )


def _missed_row(name: str, values: AcceptanceValues) -> TableRow:
    """How many wrong best poses the search is to blame for: with all others, a wrong pose explains the maps better."""
    crops = (*values.crops, *values.parallel_crops, *values.own_crops)
    missed = Rate(len(values.missed), sum(group.right.total for group in crops))
    listed = sum(entry.listed for entry in values.missed)
    preferred = sum(entry.preferred for entry in values.missed)
    text = f"{missed}; right one listed: {listed}; right one best where the search is given it: {preferred}"
    return TableRow(f"{name}, all crops: best pose wrong, accepted or not", text)


def _shape_row(name: str, shape: ShapeCount) -> TableRow:
    text = f"{shape.success}; ambiguous: {shape.ambiguous}; best pose of the family: {shape.in_family}"
    what = f"{name}, symmetric {shape.name}: called a success"
    return TableRow(what, f"{text}; members of the families listed: {shape.listed}", "never")

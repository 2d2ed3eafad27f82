"""The cards of the report, which the viewer shows as well: verdict, poses, residuals, evidence."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import torch

from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import Status
from plueckernet.report.histogram import histogram_svg
from plueckernet.report.scene import ShownPose, colour_range, ellipsoid_axes
from plueckernet.report.words import (
    IN_REPORT,
    Medium,
    as_sentence,
    confidence_digits,
    matrix_rows,
    noise_words,
    percent,
    required_confidence,
    rotation_words,
    sigma_words,
    translation_digits,
    two_digits,
    verdict,
)
from plueckernet.result import RegistrationResult
from plueckernet.version import __version__

_ROUNDING = 1e-9  # a smaller distance, in map units, or angle, in degrees, is shown as 0
_TABLE_NOTE = (
    "The score is the number of explained lines times the explained fraction; a poor fit counts less than one line."
    " Distance and angle are medians of the pairs in the picture: the inliers of the first pose; for the others, pairs"
    " within the inlier threshold."
)


@dataclass(frozen=True)
class About:
    """What a report shows beside the result."""

    source: str = "source"  # name of the source map
    target: str = "target"  # name of the target map
    command: str | None = None  # repeats the registration
    notes: tuple[str, ...] = ()  # from reading the maps


def cards_html(result: RegistrationResult, shown: Sequence[ShownPose], about: About, place: Medium = IN_REPORT) -> str:
    """All cards of a result, the most important first."""
    cards = [("verdict", _verdict(result, about, place)), *_sections(result, shown, about)]
    return "\n".join(f'<section class="card {kind}">{text}</section>' for kind, text in cards)


def _sections(result: RegistrationResult, shown: Sequence[ShownPose], about: About) -> Iterator[tuple[str, str]]:
    """CSS class and content of each card below the verdict."""
    if len(shown) > 1 and not result.ok:
        yield "alternatives", poses_table(shown)
    if result.target_T_source is not None:
        yield "pose", _pose(result)
    if shown and len(shown[0].residuals):
        yield "residuals", _residuals(shown[0], colour_range(result))
    if shown and result.ok:
        yield "alternatives", poses_table(shown)
    yield "evidence", _evidence(result, about)
    yield "time", _time(result)
    if about.command is not None:
        yield "repeat", _repeat(about.command)
    yield "settings", _settings(result)


def _verdict(result: RegistrationResult, about: About, place: Medium) -> str:
    text = verdict(result, place)
    warnings = "".join(f'<p class="warning">{escape(sentence)}</p>' for sentence in text.warnings)
    advice = f'<p class="advice"><b>Next:</b> {_options_marked(text.advice)}</p>' if text.advice else ""
    return (
        f'<span class="badge">{escape(text.headline)}</span>'
        f'<h1><span class="source-name">{escape(about.source)}</span> <span class="arrow">→</span>'
        f' <span class="target-name">{escape(about.target)}</span></h1>'
        f"{_confidence_bar(result) if text.shows_confidence else ''}<p><strong>{escape(text.summary)}</strong></p>"
        f"<p>{escape(as_sentence(result.reason))}</p>{warnings}{advice}"
    )


def _options_marked(text: str) -> str:
    """The text as HTML, with options of the command line that do not break at their hyphens."""
    return re.sub(r"--[a-z-]+", lambda option: f"<code>{option[0]}</code>", escape(text))


def _confidence_bar(result: RegistrationResult) -> str:
    """A bar in the colour of the status; a <meter> would choose its colour by the number alone.

    A mark shows the required confidence where it decided the status.
    """
    value, required = f"{result.confidence:.4f}", required_confidence(result)
    decisive = result.status is not Status.AMBIGUOUS and (result.confidence >= required) == result.ok
    mark = f'<i style="left:calc(100% * {required:.4f})"></i>' if decisive else ""
    return (
        f'<div class="confidence" role="meter" aria-label="confidence" aria-valuemin="0" aria-valuemax="1"'
        f' aria-valuenow="{value}" aria-valuetext="{confidence_digits(result.confidence)}">'
        f'<span style="width:calc(100% * {value})"></span>{mark}</div>'
    )


def _pose(result: RegistrationResult) -> str:
    pose, sigmas, axes = result.target_T_source, result.sigmas(), ellipsoid_axes(result)
    if pose is None or sigmas is None or axes is None:
        return ""
    rows = [
        *([("scale", f"{result.scale:.6g}")] if result.scale != 1 else []),
        ("rotation", rotation_words(pose)),
        ("translation", f"({', '.join(translation_digits(pose, sigmas[1]))})"),
        ("one sigma", sigma_words(sigmas)),
        ("3σ ellipsoid", " × ".join(two_digits(float(np.linalg.norm(axis))) for axis in axes) + " (semi-axes)"),
    ]
    return (
        _headed("Pose: target_T_source, from the source frame to the target frame", "matrix")
        + f'<pre id="matrix" data-text="{escape(json.dumps(pose.matrix().tolist()))}">'
        + escape("\n".join(matrix_rows(pose, sigmas[1])))
        + f"</pre>{_list(rows)}"
    )


def _residuals(shown: ShownPose, threshold: float) -> str:
    distance, angle = shown.residuals.T
    return (
        f"<h2>Residuals of the {len(distance):,} inliers ({escape(shown.name)})</h2>"
        "<figure><figcaption>distance, coloured as in the picture</figcaption>"
        f"{histogram_svg(distance, 'distance of matched lines', '', threshold)}</figure>"
        f"<figure><figcaption>angle</figcaption>{histogram_svg(angle, 'angle of matched lines', '°')}</figure>"
    )


def poses_table(shown: Sequence[ShownPose]) -> str:
    """A table of the poses with what speaks for each, and a button that shows it."""
    rows = "".join(
        f'<tr><td><button type="button" data-pose="{index}" aria-pressed="{str(index == 0).lower()}"'
        f' aria-label="Show {escape(pose.name)}">{escape(pose.name)}</button></td>'
        f"{_judged_cells(pose)}{_residual_cells(pose)}</tr>"
        for index, pose in enumerate(shown)
    )
    names = ("confidence", "score", "inliers", "distance", "angle")
    head = "".join(f"<th class=number>{name}" for name in names)
    note = "No other pose was found." if len(shown) == 1 else _TABLE_NOTE
    return (
        f'<h2>Poses compared</h2><div class="rows" tabindex="0"><table><tr><th>pose{head}</tr>{rows}</table></div>'
        f"<p class=soft>{note}</p>"
    )


def _judged_cells(pose: ShownPose) -> str:
    """Confidence, score and number of inliers; a pose that was never judged has none."""
    values = ["–"] * 3
    if pose.evidence is not None:
        sure = "–" if pose.confidence is None else _short(confidence_digits(pose.confidence))
        values = [sure, f"{pose.evidence.score:.1f}", f"{pose.evidence.inliers:,}"]
    return "".join(f"<td class=number>{value}</td>" for value in values)


def _short(words: str) -> str:
    """A confidence in a narrow column."""
    return words.replace("below ", "&lt;").replace("above ", "&gt;")


def _residual_cells(pose: ShownPose) -> str:
    """The median distance and angle of the pairs."""
    medians = np.median(pose.residuals, axis=0) if len(pose.residuals) else None
    values = ("–", "–") if medians is None else (_beyond_rounding(medians[0]), f"{_beyond_rounding(medians[1])}°")
    return "".join(f"<td class=number>{value}</td>" for value in values)


def _beyond_rounding(value: float) -> str:
    """Two digits; exact drawings have residuals that are only rounding."""
    return "0" if value < _ROUNDING else two_digits(value)


def _evidence(result: RegistrationResult, about: About) -> str:
    evidence = result.evidence
    rows = [
        ("lines", f"{result.num_lines[0]:,} in the source, {result.num_lines[1]:,} in the target"),
        ("putative matches", f"{len(result.matches):,}"),
        ("inliers", f"{len(result.inliers):,} pairs of lines that coincide"),
        ("score above chance", f"{evidence.stand_out:.1f} standard deviations of the score of shifted poses"),
        ("explained fraction", f"{percent(evidence.explained_fraction)} of the lines where the maps overlap"),
        ("runner-up score ratio", _runner_up(evidence)),
        ("lateral support", f"{evidence.lateral_support:.1f} lines across the main direction"),
        ("rotation", f"{math.degrees(evidence.rotation_deviation):.2g}° standard deviation about the weakest axis"),
        ("matcher agreement", f"{percent(evidence.matcher_agreement)} of the match probability is on inliers"),
    ]
    if evidence.whole_lines:  # none of lines without ends
        rows.append(("whole lines", f"{evidence.whole_lines:,} of the inliers coincide from end to end"))
    if evidence.volume_lines:  # likewise
        fraction = percent(evidence.volume_explained / evidence.volume_lines)
        rows.append(("shared volume", f"{fraction} of the length of the lines inside it is explained"))
    if len(result.inliers):
        rows.append(("noise", noise_words(result.noise)))
    rows += [("note", note) for note in about.notes]
    return f"<h2>Evidence</h2>{_list(rows)}"


def _runner_up(evidence: Evidence) -> str:
    if evidence.runner_up_ratio is None:
        return "no other pose was found"
    return f"{evidence.runner_up_ratio:.2f} (score of the second-best pose relative to the best)"


def _time(result: RegistrationResult) -> str:
    total = sum(result.timings.values())
    bars = "".join(
        f'<span style="flex:{max(seconds / max(total, 1e-9), 1e-3):.4f}"></span>' for seconds in result.timings.values()
    )
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in result.timings.items())
    return (
        f'<h2>Time: {total:.2f} s</h2><div class="stages" aria-hidden="true">{bars}</div>'
        f'<div class="soft">{escape(stages)}</div>'
    )


def _repeat(command: str) -> str:
    return f'{_headed("Command", "command")}<pre class="command" id="command">{escape(command)}</pre>'


def _settings(result: RegistrationResult) -> str:
    versions = {"plueckernet": __version__, "torch": torch.__version__, "numpy": np.__version__}
    rows = [
        *((name, json.dumps(value)) for name, value in result.settings.items()),
        ("seed", str(result.seed)),
        *versions.items(),
        ("python", platform.python_version()),
    ]
    return f"<details><summary>Settings and versions</summary>{_list(rows)}</details>"


def _headed(title: str, copied: str) -> str:
    """A heading with a button that copies the text below it."""
    return f'<header><h2>{title}</h2><button type="button" data-copy="{copied}">copy</button></header>'


def _list(rows: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows) + "</dl>"

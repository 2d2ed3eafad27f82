"""The report: one HTML file with the maps, the pose, its uncertainty and the evidence."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import Status
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.io import atomic_write
from plueckernet.report.frame import MAX_DRAWN_LINES
from plueckernet.report.histogram import histogram_svg
from plueckernet.report.scene import ShownPose, colour_range, ellipsoid_axes, scene, shown_poses
from plueckernet.report.words import (
    IN_REPORT,
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

_MIN_MOVING_LINES = 1500  # per map; a slow machine draws no fewer while the view moves; as in page.js


@dataclass(frozen=True)
class About:
    """What a report shows beside the result."""

    source: str = "source"  # name of the source map
    target: str = "target"  # name of the target map
    command: str | None = None  # repeats the registration
    notes: tuple[str, ...] = ()  # from reading the maps


def write_report(
    path: str | Path, result: RegistrationResult, source: LineSet, target: LineSet, about: About = About()
) -> None:
    """Write the registration of two maps as one HTML file that works offline; an existing file is replaced."""
    page = report_html(result, source, target, about)
    with atomic_write(path) as stream:
        stream.write(page)


def report_html(result: RegistrationResult, source: LineSet, target: LineSet, about: About = About()) -> str:
    """The page that :func:`write_report` writes."""
    if result.scale != 1:  # the page shows the source as large as it is in the target
        source = Similarity.from_pose(Pose.identity(), result.scale) @ source
    shown = shown_poses(result, source, target)
    sections = _sections(result, shown, about)
    fields = {
        "version": escape(__version__),
        "title": escape(f"{verdict(result).label}: {about.source} to {about.target}"),
        "status": str(result.status),
        "style": _asset("page.css"),
        "view_label": escape(f"Lines of {about.source} and {about.target}; the view can be turned, moved and zoomed"),
        "after": re.sub(r" \d+", "", shown[0].name) if shown else "after",
        "no_ellipsoid": "" if result.covariance is not None else " hidden",
        "no_choice": "" if len(shown) > 1 else " hidden",
        "pose_options": "".join(f'<option value="{i}">{escape(pose.name)}</option>' for i, pose in enumerate(shown)),
        "range": two_digits(colour_range(result)),
        "drawn_note": _drawn_note(result),
        "sections": "\n".join(f'<section class="card {kind}">{text}</section>' for kind, text in sections),
        "footer": escape(f"plueckernet {__version__}. Lengths are in the unit of the maps."),
        # "<" is the only character that could end the script early.
        "scene": json.dumps(scene(result, source, target, shown), allow_nan=False).replace("<", "\\u003c"),
        "script": _asset("page.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fields[match[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return (files("plueckernet.report") / name).read_text(encoding="utf-8")


def _drawn_note(result: RegistrationResult) -> str:
    """Which lines are not drawn, if any."""
    sides = zip(("source", "target"), result.num_lines, strict=True)
    large = [(side, count) for side, count in sides if count > MAX_DRAWN_LINES]
    drawn = [f"the longest {MAX_DRAWN_LINES:,} of {count:,} lines of the {side}" for side, count in large]
    note = f" The picture shows {' and '.join(drawn)}." if drawn else ""
    thinned = max(result.num_lines) > _MIN_MOVING_LINES
    return note + (" Short lines may be hidden while the view moves." if thinned else "")


def _sections(result: RegistrationResult, shown: Sequence[ShownPose], about: About) -> Iterator[tuple[str, str]]:
    """CSS class and content of each card, the most important first."""
    yield "verdict", _verdict(result, about)
    if len(shown) > 1 and not result.ok:
        yield "alternatives", _alternatives(shown)
    if result.target_T_source is not None:
        yield "pose", _pose(result)
    if shown and len(shown[0].residuals):
        yield "residuals", _residuals(shown[0], colour_range(result))
    if shown and result.ok:
        yield "alternatives", _alternatives(shown)
    yield "evidence", _evidence(result, about)
    yield "time", _time(result)
    if about.command is not None:
        yield "repeat", _repeat(about.command)
    yield "settings", _settings(result)


def _verdict(result: RegistrationResult, about: About) -> str:
    text = verdict(result, IN_REPORT)
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
        f"<h2>Residuals of the {len(distance)} inliers ({escape(shown.name)})</h2>"
        "<figure><figcaption>distance, coloured as in the picture</figcaption>"
        f"{histogram_svg(distance, 'distance of matched lines', '', threshold)}</figure>"
        f"<figure><figcaption>angle</figcaption>{histogram_svg(angle, 'angle of matched lines', '°')}</figure>"
    )


def _alternatives(shown: Sequence[ShownPose]) -> str:
    """A table of the poses, with a button that shows each."""
    best = max(shown[0].score, 1e-9)
    rows = "".join(
        f"<tr><td>{escape(pose.name)}</td><td class=number>{pose.score:.1f}</td>"
        f"<td class=number>{percent(pose.score / best)}</td><td class=number>{len(pose.pairs)}</td>"
        f'<td class=number><button type="button" data-pose="{index}" aria-pressed="{str(index == 0).lower()}"'
        f' aria-label="Show {escape(pose.name)}">Show</button></td></tr>'
        for index, pose in enumerate(shown)
    )
    note = (
        "<p class=soft>No other pose was found.</p>"
        if len(shown) == 1
        else "<p class=soft>The score is the number of explained lines times the explained fraction; a poor fit counts"
        " less than one line."
        " The pairs of the first pose are its inliers. The pairs of the others are the lines within the inlier"
        " threshold.</p>"
    )
    head = "<tr><th>pose<th class=number>score<th class=number>of the best<th class=number>pairs<th></tr>"
    return f"<h2>Poses compared</h2><table>{head}{rows}</table>{note}"


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
        ("matcher agreement", f"{percent(evidence.matcher_agreement)} of the match probability is on inliers"),
    ]
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

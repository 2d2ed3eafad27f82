"""The report: one HTML file with the maps, the pose and everything that speaks for and against it."""

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

from plueckernet.estimation.judgement import Evidence
from plueckernet.geometry import LineSet
from plueckernet.io import atomic_write
from plueckernet.report.frame import MOST_DRAWN
from plueckernet.report.histogram import histogram_svg
from plueckernet.report.scene import Look, colour_range, ellipsoid_axes, looks, scene
from plueckernet.report.words import belief, digits, matrix_rows, rotation_words, translation_digits
from plueckernet.result import RegistrationResult
from plueckernet.version import __version__

_STATUS = {"success": "Registered", "ambiguous": "Ambiguous", "failed": "Not registered"}
_MANY = 1500  # lines of a map, from which a slow machine draws fewer while things move; as in page.js
_ADVICE = {
    "ambiguous": "Several poses explain the maps about as well. Look at the alternatives below: where the place looks"
    " the same from several sides, something outside the maps has to decide.",
    "failed": "Nothing was found that deserves belief. The poses below came closest. If one of them looks right, it can"
    " be refined in the viewer (plueckernet view); if none does, the maps may share too little, differ in unit, or be"
    " coarser than the tolerance.",
}


@dataclass(frozen=True)
class About:
    """What a report says beyond the result."""

    source: str = "source"  # names of the maps
    target: str = "target"
    command: str | None = None  # that repeats it
    notes: tuple[str, ...] = ()  # about how the maps were read


def write_report(
    path: str | Path, result: RegistrationResult, source: LineSet, target: LineSet, about: About = About()
) -> None:
    """Write the registration of two maps as one HTML file that works offline; a file that was there is replaced."""
    page = report_html(result, source, target, about)
    with atomic_write(path) as stream:
        stream.write(page)


def report_html(result: RegistrationResult, source: LineSet, target: LineSet, about: About = About()) -> str:
    """The page that :func:`write_report` writes."""
    shown = looks(result, source, target)
    sections = _sections(result, shown, about)
    parts = {
        "version": escape(__version__),
        "title": escape(f"{_STATUS[result.status]}: {about.source} to {about.target}"),
        "status": str(result.status),
        "style": _part("page.css"),
        "view_words": escape(f"Lines of {about.source} and {about.target}, which can be turned, moved and zoomed"),
        "after": "registered" if result.target_T_source is not None else "tried pose",
        "no_ellipsoid": "" if result.covariance is not None else " hidden",
        "no_choice": "" if len(shown) > 1 else " hidden",
        "pose_options": "".join(f'<option value="{i}">{escape(look.name)}</option>' for i, look in enumerate(shown)),
        "range": digits(colour_range(result)),
        "drawn_note": _drawn_note(result),
        "sections": "\n".join(f'<section class="card {kind}">{text}</section>' for kind, text in sections),
        "footer": escape(f"plueckernet {__version__}. Lengths are in the unit of the maps."),
        # The only sign that could end the script early is escaped.
        "scene": json.dumps(scene(result, source, target, shown), allow_nan=False).replace("<", "\\u003c"),
        "script": _part("page.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _part("page.html"))


def _part(name: str) -> str:
    return (files("plueckernet.report") / name).read_text(encoding="utf-8")


def _drawn_note(result: RegistrationResult) -> str:
    """What is left out of the picture, if anything is."""
    sides = zip(("source", "target"), result.num_lines, strict=True)
    large = [(side, count) for side, count in sides if count > MOST_DRAWN]
    left = [f"the longest {MOST_DRAWN:,} of {count:,} lines of the {side}" for side, count in large]
    note = f" Drawn are {' and '.join(left)}." if left else ""
    return note + (" While it moves, short lines may be left out." if max(result.num_lines) > _MANY else "")


def _sections(result: RegistrationResult, shown: Sequence[Look], about: About) -> Iterator[tuple[str, str]]:
    """Class and content of each card, in the order of what people ask."""
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
    number, words = belief(result)
    advice = f'<p class="soft">{escape(_ADVICE[result.status])}</p>' if result.status in _ADVICE else ""
    sure = (
        f'<meter min="0" max="1" low="0.4" high="0.7" optimum="1" value="{result.confidence:.4f}"'
        f' aria-label="confidence">{number}</meter>'
        f"<p><strong>{escape(words[0].upper() + words[1:])}</strong>: confidence {number}.</p>"
        if len(result.inliers)
        else ""
    )
    return (
        f'<span class="badge">{_STATUS[result.status]}</span>'
        f'<h1><span class="source-name">{escape(about.source)}</span> <span class="arrow">→</span>'
        f' <span class="target-name">{escape(about.target)}</span></h1>'
        f"{sure}<p>{escape(result.reason[0].upper() + result.reason[1:])}.</p>{advice}"
    )


def _pose(result: RegistrationResult) -> str:
    pose, sigmas, axes = result.target_T_source, result.sigmas(), ellipsoid_axes(result)
    if pose is None or sigmas is None or axes is None:
        return ""
    pose = pose.to("cpu")
    rows = [
        ("rotation", rotation_words(pose)),
        ("translation", f"({', '.join(translation_digits(pose, sigmas[1]))})"),
        ("one sigma", f"{digits(sigmas[0])}° and {digits(sigmas[1])} at the middle of the common lines"),
        ("3σ ellipsoid", " × ".join(digits(float(np.linalg.norm(axis))) for axis in axes) + ", half axes there"),
    ]
    return (
        _headed("Pose: from the source's frame to the target's", "matrix")
        + f'<pre id="matrix" data-text="{escape(json.dumps(pose.matrix().tolist()))}">'
        + escape("\n".join(matrix_rows(pose, sigmas[1])))
        + f"</pre>{_list(rows)}"
    )


def _residuals(look: Look, full: float) -> str:
    distance, angle = look.residuals.T
    return (
        f"<h2>How far the {len(distance)} matched pairs are apart ({escape(look.name)})</h2>"
        "<figure><figcaption>distance, coloured as in the picture</figcaption>"
        f"{histogram_svg(distance, 'distance of matched lines', '', full)}</figure>"
        f"<figure><figcaption>angle</figcaption>{histogram_svg(angle, 'angle of matched lines', '°')}</figure>"
    )


def _alternatives(shown: Sequence[Look]) -> str:
    """The poses to switch between."""
    best = max(shown[0].score, 1e-9)
    rows = "".join(
        f"<tr><td>{escape(look.name)}</td><td class=number>{look.score:.1f}</td>"
        f"<td class=number>{look.score / best:.0%}</td><td class=number>{len(look.pairs)}</td>"
        f'<td class=number><button type="button" data-pose="{place}" aria-pressed="{str(place == 0).lower()}"'
        f' aria-label="Look at {escape(look.name)}">Look</button></td></tr>'
        for place, look in enumerate(shown)
    )
    note = (
        "<p class=soft>No other pose was worth a look.</p>"
        if len(shown) == 1
        else "<p class=soft>Explained: lines of either map that lie on one of the other, a poor fit counting less."
        " Pairs of the first pose are its inliers; of the others, the lines within tolerance.</p>"
    )
    head = "<tr><th>pose<th class=number>explained<th class=number>of the best<th class=number>pairs<th></tr>"
    return f"<h2>Poses that were considered to the end</h2><table>{head}{rows}</table>{note}"


def _evidence(result: RegistrationResult, about: About) -> str:
    position, direction = result.noise
    rows = [
        ("lines", f"{result.num_lines[0]:,} in the source, {result.num_lines[1]:,} in the target"),
        ("inliers", f"{len(result.inliers):,} pairs that coincide"),
        ("matches", f"{len(result.matches):,} putative ones to start from"),
        ("score", f"{result.evidence.share:.2f} for each line of the smaller map"),
        ("borne out", f"{result.evidence.borne_out:.0%} of the lines that come to lie where the other map has lines"),
        ("best other pose", _rival(result.evidence)),
    ]
    if result.evidence.agreement is not None:
        rows.append(("agreement", f"with {result.evidence.agreement:.0%} of what the matcher proposed"))
    if len(result.inliers):
        rows.append(("noise", f"a line is off by {digits(position)} and {digits(direction)}° (one sigma, estimated)"))
    rows += [("note", note) for note in about.notes]
    return f"<h2>What it rests on</h2>{_list(rows)}"


def _rival(evidence: Evidence) -> str:
    if not evidence.inliers:
        return "none was found"
    share = f"{evidence.rival:.0%} as much"
    return f"none was found; one that explains {share} is assumed" if evidence.unrivalled else f"explains {share}"


def _time(result: RegistrationResult) -> str:
    total = sum(result.timings.values())
    bars = "".join(
        f'<span style="flex:{max(seconds / max(total, 1e-9), 1e-3):.4f}"></span>' for seconds in result.timings.values()
    )
    words = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in result.timings.items())
    return (
        f'<h2>Time: {total:.2f} s</h2><div class="stages" aria-hidden="true">{bars}</div>'
        f'<div class="soft">{escape(words)}</div>'
    )


def _repeat(command: str) -> str:
    return f'{_headed("To repeat it", "command")}<pre class="command" id="command">{escape(command)}</pre>'


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
    """A heading with a button that copies what is below."""
    return f'<header><h2>{title}</h2><button type="button" data-copy="{copied}">copy</button></header>'


def _list(rows: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows) + "</dl>"

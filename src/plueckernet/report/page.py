"""The report: one HTML file with the maps, the pose, its uncertainty and the evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from plueckernet.geometry import LineSet
from plueckernet.io import atomic_write
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.report.cards import About, cards_html
from plueckernet.report.frame import MAX_DRAWN_LINES
from plueckernet.report.scene import as_large_as_target, colour_range, scene, shown_poses
from plueckernet.report.words import two_digits, verdict
from plueckernet.result import RegistrationResult
from plueckernet.version import __version__

FOOTER = f"plueckernet {__version__}. Lengths are in the unit of the maps."
_MIN_MOVING_LINES = 1500  # per map; a slow machine draws no fewer while the view moves; as in scene_view.js
_STAGE_SCRIPTS = "view.js", "scene_view.js", "stage.js"


def write_report(
    path: str | Path, result: RegistrationResult, source: LinesLike, target: LinesLike, about: About = About()
) -> None:
    """Write the registration of two maps as one HTML file that works offline; an existing file is replaced.

    The maps are given as in :func:`plueckernet.register`.
    """
    page = report_html(result, as_lines(source), as_lines(target), about)
    with atomic_write(path) as stream:
        stream.write(page)


def report_html(result: RegistrationResult, source: LineSet, target: LineSet, about: About = About()) -> str:
    """The page that :func:`write_report` writes."""
    source = as_large_as_target(result, source)
    shown = shown_poses(result, source, target)
    stage = {
        "view_label": escape(f"Lines of {about.source} and {about.target}; the view can be turned, moved and zoomed"),
        "after": re.sub(r" \d+", "", shown[0].name) if shown else "after",
        "no_ellipsoid": "" if result.covariance is not None else " hidden",
        "no_choice": "" if len(shown) > 1 else " hidden",
        "pose_options": pose_options([pose.name for pose in shown]),
        "range": two_digits(colour_range(result)),
        "drawn_note": drawn_note(result.num_lines),
    }
    fields = {
        "version": escape(__version__),
        "title": escape(f"{verdict(result).label}: {about.source} to {about.target}"),
        "status": str(result.status),
        "style": asset("page.css"),
        "stage": filled(asset("stage.html"), stage),
        "sections": cards_html(result, shown, about),
        "footer": escape(FOOTER),
        # "<" is the only character that could end the script early.
        "scene": json.dumps(scene(result, source, target, shown), allow_nan=False).replace("<", "\\u003c"),
        "script": stage_script() + asset("page.js"),
    }
    return filled(asset("page.html"), fields)


def filled(template: str, fields: Mapping[str, str]) -> str:
    """A template with its fields, such as ``{{title}}``, replaced."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fields[match[1]], template)


def stage_script() -> str:
    """The scripts that draw the maps."""
    return "".join(map(asset, _STAGE_SCRIPTS))


def asset(name: str, package: str = "plueckernet.report") -> str:
    """The text of a file that comes with the package."""
    return (files(package) / name).read_text(encoding="utf-8")


def pose_options(names: Sequence[str]) -> str:
    """The options of a list of poses."""
    return "".join(f'<option value="{index}">{escape(name)}</option>' for index, name in enumerate(names))


def drawn_note(num_lines: tuple[int, int]) -> str:
    """Which lines are not drawn, if any."""
    sides = zip(("source", "target"), num_lines, strict=True)
    large = [(side, count) for side, count in sides if count > MAX_DRAWN_LINES]
    drawn = [f"the longest {MAX_DRAWN_LINES:,} of {count:,} lines of the {side}" for side, count in large]
    note = f" The picture shows {' and '.join(drawn)}." if drawn else ""
    thinned = max(num_lines) > _MIN_MOVING_LINES
    return note + (" Short lines may be hidden while the view moves." if thinned else "")

"""The report of an alignment: one HTML file with the maps of each group, the graph, its edges and its cycles."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from jaxtyping import Float64

from plueckernet.io import atomic_write
from plueckernet.merging.alignment import AlignedEdge, AlignedGroup, Alignment
from plueckernet.merging.control import WorldTie
from plueckernet.merging.fusion import MergedMap
from plueckernet.report.frame import bounding_ball, longest_first
from plueckernet.report.picture import as_segments, level_axes
from plueckernet.version import __version__

_WIDTH, _HEIGHT, _MARGIN = 440, 300, 24  # of the drawing of a graph
_MAX_ROWS = 200  # of a table


@dataclass(frozen=True, eq=False)
class _DrawnGroup:
    """A group in a level frame about its middle."""

    segments: dict[str, Float64[np.ndarray, "_ 2 3"]]
    axes: Float64[np.ndarray, "3 3"]
    centre: Float64[np.ndarray, "3"]
    radius: float

    @classmethod
    def of(cls, alignment: Alignment, group: AlignedGroup) -> _DrawnGroup:
        segments = {name: as_segments(pose @ alignment.maps[name]) for name, pose in group.poses.items()}
        together = np.concatenate(list(segments.values()))
        middle = np.median(together.reshape(-1, 3), axis=0)
        axes = level_axes(together - middle)
        level = {name: (ends - middle) @ axes.T for name, ends in segments.items()}
        centre, radius = bounding_ball(*level.values())
        return _DrawnGroup(
            {name: ends - centre for name, ends in level.items()}, axes, middle @ axes.T + centre, radius
        )

    def level(self, ends: Float64[np.ndarray, "_ 2 3"]) -> Float64[np.ndarray, "_ 2 3"]:
        """Other segments of the group in the frame of the drawing."""
        return np.asarray(ends @ self.axes.T - self.centre)

    def places(self) -> dict[str, Float64[np.ndarray, "2"]]:
        """The middle of each map from above."""
        return {name: ends.reshape(-1, 3).mean(0)[:2] for name, ends in self.segments.items()}


def write_alignment_report(
    path: str | Path,
    alignment: Alignment,
    merged: Mapping[int, MergedMap] | None = None,
    ties: Mapping[int, WorldTie] | None = None,
) -> None:
    """Write the alignment as one HTML file that works offline; an existing file is replaced."""
    page = alignment_html(alignment, merged or {}, ties or {})
    with atomic_write(path) as stream:
        stream.write(page)


def alignment_html(alignment: Alignment, merged: Mapping[int, MergedMap], ties: Mapping[int, WorldTie]) -> str:
    """The page that :func:`write_alignment_report` writes."""
    drawn = [_DrawnGroup.of(alignment, group) for group in alignment.groups]
    sections = _sections(alignment, drawn, ties)
    headline = _headline(alignment)
    fields = {
        "version": escape(__version__),
        "title": escape(headline),
        "status": "success" if alignment.ok else "ambiguous",
        "style": _asset("page.css"),
        "group_options": "".join(
            f'<option value="{number}">{number + 1}: {len(group.maps)} maps</option>'
            for number, group in enumerate(alignment.groups)
        ),
        "sections": "\n".join(f'<section class="card {kind}">{text}</section>' for kind, text in sections),
        "footer": escape(f"plueckernet {__version__}. Lengths are in the unit of the maps."),
        "scene": json.dumps(_scene(alignment, drawn, merged), allow_nan=False).replace("<", "\\u003c"),
        "script": _asset("alignment.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fields[match[1]], _asset("alignment.html"))


def _asset(name: str) -> str:
    return (files("plueckernet.report") / name).read_text(encoding="utf-8")


def _headline(alignment: Alignment) -> str:
    maps, groups = len(alignment.maps), len(alignment.groups)
    return f"{maps} maps in one frame" if alignment.ok else f"{maps} maps in {groups} groups"


def _colours(alignment: Alignment) -> dict[str, str]:
    """A hue for each map, spread within its group."""
    return {
        name: f"hsl({round(360 * (number + 0.5) / len(group.maps)) % 360} 70% 45%)"
        for group in alignment.groups
        for number, name in enumerate(group.maps)
    }


def _scene(alignment: Alignment, drawn: list[_DrawnGroup], merged: Mapping[int, MergedMap]) -> dict[str, Any]:
    colours = _colours(alignment)
    groups = []
    for number, group in enumerate(drawn):
        maps = [
            {"name": name, "colour": colours[name], "segments": _packed(ends[longest_first(ends)])}
            for name, ends in group.segments.items()
        ]
        groups.append({"radius": group.radius, "maps": maps, "merged": _merged(group, merged.get(number))})
    return {"groups": groups}


def _merged(group: _DrawnGroup, merged: MergedMap | None) -> dict[str, Any] | None:
    if merged is None:
        return None
    ends = group.level(as_segments(merged.lines))
    rows = longest_first(ends)
    views = merged.lines.views
    counts = [1] * len(rows) if views is None else views.numpy()[rows].tolist()
    return {"segments": _packed(ends[rows]), "views": counts}


def _packed(values: Float64[np.ndarray, "_ 2 3"]) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def _sections(
    alignment: Alignment, drawn: list[_DrawnGroup], ties: Mapping[int, WorldTie]
) -> Iterator[tuple[str, str]]:
    """CSS class and content of each card."""
    yield "verdict", _verdict(alignment)
    for number, group in enumerate(alignment.groups):
        if len(group.maps) > 1 or number in ties:
            yield "group", _group_card(alignment, number, group, drawn[number], ties.get(number))
    single = [group.maps[0] for group in alignment.groups if len(group.maps) == 1]
    if single:
        names = "".join(f"<li>{escape(name)}</li>" for name in single)
        yield "single", f"<h2>Maps on their own</h2><ul>{names}</ul>"
    yield "edges", _edges(alignment)
    if alignment.missing:
        rows = [[escape(first), escape(second)] for first, second in alignment.missing]
        yield "missing", "<h2>Overlaps that were not registered</h2>" + _table(["map", "map"], rows)


def _verdict(alignment: Alignment) -> str:
    accepted = sum(edge.accepted for edge in alignment.edges)
    contradicted = sum(not edge.accepted and edge.status == "success" for edge in alignment.edges)
    sentence = f"Of {len(alignment.edges)} registered pairs, {accepted} hold the groups together."
    if contradicted:
        sentence += f" {contradicted} that were confident on their own are rejected."
    return (
        f'<span class="badge">{"one group" if alignment.ok else f"{len(alignment.groups)} groups"}</span>'
        f"<h1>{escape(_headline(alignment))}</h1><p>{sentence}</p>"
    )


def _group_card(
    alignment: Alignment, number: int, group: AlignedGroup, drawn: _DrawnGroup, tie: WorldTie | None
) -> str:
    colours = _colours(alignment)
    boxes = "".join(
        f'<label><input type="checkbox" data-map="{escape(name)}" checked>'
        f'<span class="dot" style="background:{colours[name]}"></span>{place + 1}. {escape(name)}</label>'
        for place, name in enumerate(group.maps)
    )
    text = (
        f"<header><h2>Group {number + 1}: {len(group.maps)} maps, in the frame of {escape(group.maps[0])}</h2>"
        f'<button type="button" data-group="{number}">Show</button></header>'
        f"{_graph_svg(alignment, drawn, colours)}"
        '<p class="key"><span><b class="accepted-word">—</b> accepted</span>'
        '<span><b class="rejected-word">- -</b> rejected</span><span><b>···</b> overlap, not registered</span></p>'
        f'<div class="maps">{boxes}</div>'
    )
    return text + _cycles(group) + ("" if tie is None else _world(tie))


def _graph_svg(alignment: Alignment, drawn: _DrawnGroup, colours: Mapping[str, str]) -> str:
    """The maps from above and the edges between them."""
    place = _on_page(drawn.places())
    inside = [edge for edge in alignment.edges if edge.source in place and edge.target in place]
    shapes = [
        _line(place, pair, "missing", "overlap, not registered") for pair in alignment.missing if pair[0] in place
    ]
    for edge in sorted(inside, key=lambda edge: edge.accepted):
        if edge.accepted or edge.target_T_source is not None:
            kind = "accepted" if edge.accepted else "rejected"
            shapes.append(_line(place, (edge.source, edge.target), kind, f"{edge.verdict}, {edge.confidence:.2f}"))
    for number, (name, (x, y)) in enumerate(place.items()):
        shapes.append(
            f'<g><title>{escape(name)}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="10" stroke="{colours[name]}"/>'
            f'<text x="{x:.1f}" y="{y:.1f}">{number + 1}</text></g>'
        )
    label = f"Graph of {len(place)} maps and {len(inside)} registered pairs, from above"
    return (
        f'<svg class="graph" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(shapes)}</svg>'
    )


def _on_page(places: Mapping[str, Float64[np.ndarray, "2"]]) -> dict[str, tuple[float, float]]:
    points = np.stack(list(places.values()))
    low, high = points.min(0), points.max(0)
    room = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN
    scale = float((room / np.maximum(high - low, 1e-9)).min()) if len(points) > 1 else 1.0
    moved = (points - (low + high) / 2) * min(scale, 1e9) * [1, -1] + [_WIDTH / 2, _HEIGHT / 2]
    return {name: (float(x), float(y)) for name, (x, y) in zip(places, moved, strict=True)}


def _line(place: Mapping[str, tuple[float, float]], pair: tuple[str, str], kind: str, title: str) -> str:
    (x, y), (to_x, to_y) = place[pair[0]], place[pair[1]]
    ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    text = escape(f"{pair[0]} – {pair[1]}: {title}")
    return f'<line class="{kind}" {ends}><title>{text}</title></line>'


def _cycles(group: AlignedGroup) -> str:
    if not group.cycles:
        return '<p class="soft">No cycle: every edge is needed, and none is checked by others.</p>'
    numbers = {name: str(number + 1) for number, name in enumerate(group.maps)}
    rows = [
        [
            " – ".join(numbers[name] for name in cycle.maps),
            f"{cycle.angle:.3f}°",
            f"{cycle.distance:.3g}",
            f"{cycle.sigmas:.1f}",
        ]
        for cycle in group.cycles[:_MAX_ROWS]
    ]
    title = f"Residuals of {len(group.cycles)} cycles, the largest first"
    return f"<details><summary>{title}</summary>{_table(['maps', 'angle', 'distance', 'sigmas'], rows, 1)}</details>"


def _world(tie: WorldTie) -> str:
    rows = [
        [escape(point.name), f"{point.distance:.4f}", "–" if point.left_out is None else f"{point.left_out:.4f}"]
        for point in tie.residuals
    ]
    offset = ", ".join(f"{value:.0f}" for value in tie.offset.tolist())
    return (
        f"<h2>World coordinates: {tie.rms:.4f} RMS, offset ({offset})</h2>"
        f"{_table(['control point', 'residual', 'if left out'], rows, 1)}"
    )


def _edges(alignment: Alignment) -> str:
    order = sorted(alignment.edges, key=lambda edge: (edge.accepted, edge.status != "success", -edge.confidence))
    rows = [_edge_row(edge) for edge in order[:_MAX_ROWS]]
    more = f'<p class="soft">The first {_MAX_ROWS} of {len(order)}.</p>' if len(order) > _MAX_ROWS else ""
    table = _table(["source", "target", "status", "confidence", "verdict", "residual"], rows)
    return f'<h2>Registered pairs, the rejected first</h2><div class="wide">{table}</div>{more}'


def _edge_row(edge: AlignedEdge) -> list[str]:
    kind = "accepted" if edge.accepted else "rejected" if edge.verdict.startswith("rejected") else "unused"
    residual = "" if edge.residual is None else f"{edge.residual[0]:.2f}°, {edge.residual[1]:.3g}"
    return [
        escape(PurePath(edge.source).name),
        escape(PurePath(edge.target).name),
        escape(str(edge.status)),
        f"{edge.confidence:.2f}",
        f'<span class="{kind}-word">{escape(edge.verdict)}</span>',
        residual,
    ]


def _table(names: list[str], rows: list[list[str]], numbers_from: int = 99) -> str:
    """Cells are HTML; columns from ``numbers_from`` on are aligned right."""
    kinds = [' class="number"' if place >= numbers_from else "" for place in range(len(names))]
    head = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, names, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

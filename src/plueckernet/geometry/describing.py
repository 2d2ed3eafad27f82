"""Values in one line of text, and as HTML for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable

from jaxtyping import Float
from torch import Tensor

_MAX_DRAWN = 3000  # segments of a picture; a page with more is slow
_PICTURE_SIZE = 300  # pixels


def point_text(point: Float[Tensor, "3"]) -> str:
    """Three coordinates to a thousandth."""
    return f"({', '.join(f'{value:.3f}' for value in point.tolist())})"


def table_html(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A title and a table of names and values; all text is escaped."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows
    )
    return f"<div><b>{html.escape(title)}</b><table>{cells}</table></div>"


def segments_html(title: str, endpoints: Float[Tensor, "n 2 3"] | None) -> str:
    """A title and, for segments, their picture from above."""
    head = f"<div><code>{html.escape(title)}</code></div>"
    if endpoints is None or not len(endpoints):
        return head
    step = -(-len(endpoints) // _MAX_DRAWN)
    flat = endpoints[::step, :, :2].detach().cpu().double()
    low, high = flat.amin((0, 1)), flat.amax((0, 1))
    width, height = (high - low).clamp_min(1e-12).tolist()
    scale = _PICTURE_SIZE / max(width, height)
    shown = ((flat - low) * scale).tolist()
    path = "".join(f"M{a[0]:.1f} {height * scale - a[1]:.1f}L{b[0]:.1f} {height * scale - b[1]:.1f}" for a, b in shown)
    return (
        f"{head}<svg width='{width * scale:.0f}' height='{height * scale:.0f}'>"
        f"<path d='{path}' stroke='currentColor' stroke-width='0.7' fill='none'/></svg>"
    )

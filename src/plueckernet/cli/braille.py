"""Line drawings in a terminal, with eight braille dots per character."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float64, UInt8

from plueckernet.report.picture import Panel, Strokes

if TYPE_CHECKING:
    from rich.text import Text

_DOTS = np.array(
    [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.uint8
)  # bit of each dot of a character
_BLANK = 0x2800
_STYLES = ("", "blue", "dark_orange", "bold white")  # nothing, target, source, both


def braille_text(panel: Panel, bounds: Float64[np.ndarray, "2 2"], columns: int) -> Text:
    """The panel as text of the given width: target blue, source orange, white where they overlap."""
    from rich.text import Text

    low, high = bounds
    step = (high[0] - low[0]) / (2 * columns - 1)  # a dot is about square: 2 by 4 in a character
    rows = max(1, int(np.ceil((high[1] - low[1]) / step / 4 + 0.25)))
    target, source = (_characters(_raster(side, low, step, rows, columns)) for side in (panel.target, panel.source))
    text = Text(no_wrap=True)
    for row in reversed(range(rows)):
        for column in range(columns):
            style = _STYLES[int(target[row, column] > 0) + 2 * int(source[row, column] > 0)]
            text.append(chr(_BLANK + int(target[row, column] | source[row, column])), style)
        text.append("\n")
    return text


def _raster(
    strokes: Strokes, low: Float64[np.ndarray, "2"], step: float, rows: int, columns: int
) -> Bool[np.ndarray, "h w"]:
    """The dots that the strokes cover; row 0 is at the bottom."""
    dots = np.zeros((4 * rows, 2 * columns), dtype=bool)
    for start, end in (strokes - low) / step:
        count = int(np.abs(end - start).max()) + 2
        x, y = np.round(np.linspace(start, end, count)).astype(int).T
        inside = (x >= 0) & (x < dots.shape[1]) & (y >= 0) & (y < dots.shape[0])
        dots[y[inside], x[inside]] = True
    return dots


def _characters(dots: Bool[np.ndarray, "h w"]) -> UInt8[np.ndarray, "r c"]:
    """The braille pattern of each character; its first row of dots is the lowest."""
    height, width = dots.shape
    cells = dots.reshape(height // 4, 4, width // 2, 2)
    return (cells * _DOTS[::-1][None, :, None, :]).sum((1, 3)).astype(np.uint8)

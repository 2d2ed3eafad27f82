"""Histograms as SVG, for a page that loads nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import Float64

_WIDTH, _HEIGHT, _RIGHT, _BOTTOM, _TOP = 420, 150, 24, 24, 18


@dataclass(frozen=True)
class _Axes:
    step: float  # width of a bin, in the unit of the values
    count: int
    tallest: int
    unit: str

    @property
    def left(self) -> int:
        """Left margin: room for the count of the tallest bar."""
        return 9 + 7 * max(3, len(str(self.tallest)))

    @property
    def floor(self) -> int:
        return _HEIGHT - _BOTTOM

    def x(self, bins: float | int) -> float:
        return self.left + bins * (_WIDTH - self.left - _RIGHT) / self.count

    def y(self, height: int) -> float:
        return self.floor - height * (self.floor - _TOP) / max(self.tallest, 1)


def histogram_svg(values: Float64[np.ndarray, " n"], title: str, unit: str, full: float | None = None) -> str:
    """A histogram of the values with the median marked; the last bar also counts the largest 1 %.

    With ``full`` each bar gets one of the page's colour classes ``r0`` to ``r4``, by its value as a fraction of
    ``full``.
    """
    step, count = _bins(float(np.quantile(values, 0.99)))
    heights, _ = np.histogram(values.clip(max=step * count * (1 - 1e-9)), bins=count, range=(0.0, step * count))
    axes = _Axes(step, count, int(heights.max()), unit)
    shapes = [_bar(axes, index, int(height), full) for index, height in enumerate(heights)]
    shapes += [_tick(axes, index) for index in range(0, count + 1, max(1, count // 5))]
    shapes.append(f'<text class="tick" x="{axes.left - 5}" y="{_TOP + 4}" text-anchor="end">{axes.tallest}</text>')
    median = float(np.median(values))
    shapes.append(_median(axes, median))
    description = f"{title}: {len(values)} pairs, median {median:.2g}{unit}, largest {float(values.max()):.2g}{unit}"
    opening = f'<svg class="histogram" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(description)}">'
    return f"{opening}{''.join(shapes)}</svg>"


def _bins(high: float) -> tuple[float, int]:
    """A round bin width and the number of bins up to ``high``, about twenty."""
    rough = max(high, 1e-12) / 20
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * decade for factor in (1, 2, 5, 10) if factor * decade >= rough * 0.999)
    return step, max(5, math.ceil(high / step))


def _bar(axes: _Axes, index: int, height: int, full: float | None) -> str:
    shade = "" if full is None else f" r{min(4, int(5 * (index + 0.5) * axes.step / full))}"
    upper = "more" if index == axes.count - 1 else f"{(index + 1) * axes.step:.4g}"
    left, top = axes.x(index) + 0.5, axes.y(height)
    return (
        f'<rect class="bar{shade}" x="{left:.1f}" y="{top:.1f}" width="{axes.x(index + 1) - 0.5 - left:.1f}"'
        f' height="{axes.floor - top:.1f}">'
        f"<title>{index * axes.step:.4g} to {upper}{escape(axes.unit)}: {height} pairs</title></rect>"
    )


def _tick(axes: _Axes, index: int) -> str:
    x = axes.x(index)
    return f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{index * axes.step:.3g}</text>'


def _median(axes: _Axes, median: float) -> str:
    x = axes.x(median / axes.step)
    return (
        f'<line class="median" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{axes.floor}"/>'
        f'<text class="median" x="{x + 4:.1f}" y="{_TOP - 5}">median {median:.2g}{escape(axes.unit)}</text>'
    )

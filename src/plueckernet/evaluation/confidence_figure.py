"""The reliability diagram: of the results with some confidence, how many are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plueckernet.evaluation.confidence import ConfidenceValues
from plueckernet.evaluation.plots import Axes, Figure, finish, panels, plot_style, style
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.reliability import ReliabilityBin

METHODS = {"invariant": "ours", "descriptors": "ours-without-weights"}  # matcher -> style
LABELS = {"invariant": "default matcher", "descriptors": "without weights"}
CROPS, REAL, SYNTHETIC = "neighbouring crops, map left out", "all real pairs, map left out", "synthetic scenes"
_QUANTILE = 1.96  # of the 95 % interval


def reliability_panels(values: ConfidenceValues) -> dict[str, tuple[ReliabilityBin, ...]]:
    """Bins by the name of their panel; a calibration without real maps has synthetic scenes only."""
    if values.real is None:
        return {SYNTHETIC: values.reliability}
    return {CROPS: values.real.crops.bins, REAL: values.real.all_kinds.bins, SYNTHETIC: values.real.synthetic.bins}


def reliability_figure(results: Mapping[str, ConfidenceValues]) -> Figure:
    """A panel for each group of pairs, a curve for each matcher, with 95 % intervals."""
    drawn = {name: reliability_panels(values) for name, values in results.items() if name in METHODS}
    names = [name for name in (CROPS, REAL, SYNTHETIC) if any(name in bins for bins in drawn.values())]
    with style():
        figure, axes = panels(1, max(1, len(names)), height=2.9)
        for panel, name in zip(axes[0], names, strict=False):
            panel.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle=":")
            for matcher, bins in drawn.items():
                _curve(panel, bins.get(name, ()), matcher)
            panel.set_title(name)
            panel.set_xlabel("confidence")
            panel.set_aspect("equal")
        axes[0][0].set_ylabel("fraction right")
        return finish(figure, axes)


def _curve(axes: Axes, bins: Sequence[ReliabilityBin], matcher: str) -> None:
    """Fraction right over mean confidence."""
    look, right = plot_style(METHODS[matcher]), [entry.right.fraction for entry in bins]
    bounds = [interval(entry.right) for entry in bins]
    lengths = [[value - low for value, (low, _) in zip(right, bounds, strict=True)]]
    lengths.append([high - value for value, (_, high) in zip(right, bounds, strict=True)])
    axes.errorbar(
        [entry.confidence for entry in bins],
        right,
        yerr=lengths,
        color=look.colour,
        marker=look.marker,
        linestyle=look.dash,
        elinewidth=0.8,
        label=LABELS[matcher],
    )


def interval(rate: Rate) -> tuple[float, float]:
    """Wilson's 95 % interval of a fraction."""
    if not rate.total:
        return 0.0, 1.0
    n, p, z = rate.total, rate.fraction, _QUANTILE
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5 / (1 + z * z / n)
    return max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half))

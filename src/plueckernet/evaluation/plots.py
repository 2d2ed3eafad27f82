"""Figures for print: vector and raster, told apart by marker and dash as well as by colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plueckernet.errors import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Figure
else:  # matplotlib is an extra
    Axes = Axis = Figure = Any

_RC: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.hashsalt": "plueckernet",  # the same figure gives the same file
}
_RESOLUTION = 130  # dots an inch of PNG
_WIDTH = 100  # letters of a legend's row


@dataclass(frozen=True)
class PlotStyle:
    """How a method is drawn wherever it appears."""

    colour: str
    marker: str
    dash: str = "-"


# Colours that people who see few still tell apart (Okabe and Ito).
PLOT_STYLES = {
    "ours": PlotStyle("#d55e00", "o"),
    "ours-network": PlotStyle("#d55e00", "o"),
    "ours-told": PlotStyle("#cc79a7", "h", "--"),
    "ours-without-weights": PlotStyle("#e69f00", "v", "--"),
    "pluecker": PlotStyle("#0072b2", "s"),
    "pluecker-cross": PlotStyle("#0072b2", "D", ":"),
    "pluecker-refined": PlotStyle("#56b4e9", "P", "--"),
    "icl": PlotStyle("#555555", "^"),
    "icl-undirected": PlotStyle("#555555", "x", "--"),
    "regression": PlotStyle("#009e73", "d"),
    "bound": PlotStyle("#000000", "", ":"),
    "ransac-published": PlotStyle("#0072b2", "s"),
    "ransac-ours": PlotStyle("#d55e00", "o"),
}
PAPER_MARKER = "*"  # of numbers that the paper publishes, in the colour of the method


def plot_style(method: str) -> PlotStyle:
    """The style of a method by its key."""
    return PLOT_STYLES[method]


def style() -> AbstractContextManager[None]:
    """Within it, figures are made and saved."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "plot") from error
    return matplotlib.rc_context(_RC)


def panels(
    rows: int, columns: int, height: float = 2.4, *, share_labels: bool = False
) -> tuple[Figure, list[list[Axes]]]:
    """A figure as wide as a page, of equal panels; those of a row may share the labels on the left."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, height * rows + 0.35), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey="row" if share_labels else False)
    return figure, [list(row) for row in axes]


def draw(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float | None],
    method: str,
    label: str,
    *,
    markers: bool = True,
    dotted: bool = False,
) -> None:
    """One curve; points that are None are left out. Dotted: something else about the same method, without markers."""
    known = [(a, b) for a, b in zip(x, y, strict=True) if b is not None]
    drawn = plot_style(method)
    axes.plot(
        [a for a, _ in known],
        [b for _, b in known],
        color=drawn.colour,
        marker=drawn.marker if markers and not dotted else "",
        linestyle=":" if dotted else drawn.dash,
        label=label,
    )


def draw_paper(axes: Axes, x: Sequence[float], y: Sequence[float], method: str, label: str) -> None:
    """Numbers that the paper publishes, as stars."""
    axes.plot(x, y, color=plot_style(method).colour, marker=PAPER_MARKER, markersize=10, linestyle="", label=label,
              markeredgecolor="white", markeredgewidth=0.6, zorder=5)  # fmt: skip


def draw_range(axes: Axes, place: int, quartiles: Sequence[float | None], method: str, *, paper: bool = False) -> None:
    """Quartiles at a place of the vertical axis: a bar from the first to the third and the median on it."""
    first, median, third = quartiles
    colour = plot_style(method).colour
    if first is not None and third is not None:
        axes.plot([first, third], [place, place], color=colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
    if median is not None:
        marker, size = (PAPER_MARKER, 10) if paper else ("o", 5)
        axes.plot([median], [place], color=colour, marker=marker, markersize=size, linestyle="")


def draw_bars(
    axes: Axes, groups: Sequence[str], values: Mapping[str, Sequence[float | None]], labels: Mapping[str, str]
) -> None:
    """Bars of every method, side by side in each group."""
    width = 0.8 / max(1, len(values))
    for i, (method, heights) in enumerate(values.items()):
        places = [group - 0.4 + (i + 0.5) * width for group in range(len(groups))]
        known = [0.0 if height is None else height for height in heights]
        axes.bar(places, known, width=0.92 * width, color=plot_style(method).colour, label=labels[method],
                 hatch="//" if plot_style(method).dash == "--" else "", edgecolor="white", linewidth=0)  # fmt: skip
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(visible=False, axis="x")


def plain_logarithm(axis: Axis) -> None:
    """A logarithmic axis with numbers as people write them, as many as there is room for."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    wide = high > 200 * low
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def finish(figure: Figure, axes: Sequence[Sequence[Axes]], *, legend: bool = True) -> Figure:
    """One legend above all panels, each method in it once."""
    if not legend:
        return figure
    entries: dict[str, Any] = {}
    for panel in (panel for row in axes for panel in row):
        handles, labels = panel.get_legend_handles_labels()
        entries |= {label: handle for label, handle in zip(labels, handles, strict=True) if label not in entries}
    columns = _WIDTH // (max(map(len, entries), default=0) + 6)  # letters of the longest label, and its handle
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=max(1, min(4, columns)))
    return figure


def save_figure(figure: Figure, stem: Path) -> None:
    """Write STEM.png and STEM.svg, without a date in them."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(stem.with_suffix(".png"), dpi=_RESOLUTION, metadata={"Software": None})
    figure.set_layout_engine(None)  # it has been laid out
    figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})

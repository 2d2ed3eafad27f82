"""Tables as Markdown and as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_LATEX = {
    "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "°": r"$^\circ$", "–": "--", "×": r"$\times$", "<": "$<$",
    "±": r"$\pm$", "≤": r"$\leq$",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Cells of text below a row of headings; the first column is aligned to the left, the others to the right."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """For documentation."""
        rule = "|".join([":---", *["---:"] * (len(self.heads) - 1)])
        lines = [f"| {' | '.join(cells)} |" for cells in (self.heads, *self.rows)]
        return "\n".join([f"**{self.title}**", "", lines[0], f"|{rule}|", *lines[1:]])

    def latex(self) -> str:
        """For papers that use booktabs."""
        rows = [f"{' & '.join(map(_escaped, cells))} \\\\" for cells in (self.heads, *self.rows)]
        body = ["\\toprule", rows[0], "\\midrule", *rows[1:], "\\bottomrule"]
        columns = "l" + "r" * (len(self.heads) - 1)
        inside = [f"\\begin{{tabular}}{{{columns}}}", *body, "\\end{tabular}"]
        return "\n".join(
            ["\\begin{table}", "\\centering", f"\\caption{{{_escaped(self.title)}}}", *inside, "\\end{table}"]
        )


def number(value: float | None, digits: int = 3) -> str:
    """Some digits after the point; a dash for a missing value."""
    return "–" if value is None else f"{value:.{digits}f}"


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)

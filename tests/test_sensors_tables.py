"""The tables of the pages on extraction and odometry say what was measured."""

from __future__ import annotations

import pytest
from benchmarks.harness import filled
from benchmarks.sensors_tables import DOCS, TABLES


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_current(name: str) -> None:
    """After a benchmark: python -m benchmarks.sensors_tables."""
    page, rows = TABLES[name]
    text = (DOCS / page).read_text(encoding="utf-8")
    assert filled(text, name, "sensors_tables", "\n".join(rows())) == text


def test_only_what_is_between_the_markers_changes() -> None:
    begin, end = "<!-- a: written by python -m benchmarks.sensors_tables -->", "<!-- end of a -->"
    page = f"before\n{begin}\nold\n{end}\nafter\n"
    assert filled(page, "a", "sensors_tables", "| 1\\2 |") == f"before\n{begin}\n\n| 1\\2 |\n\n{end}\nafter\n"
    with pytest.raises(ValueError, match="end of b"):
        filled(page, "b", "sensors_tables", "")

"""The result of a registration as one self-contained HTML file, or as a picture.

Names are loaded when first used: a command that only says what it found imports `report.words` and no page.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plueckernet.report.cards import About
    from plueckernet.report.page import report_html, write_report
    from plueckernet.report.plot import save_plot

_HOMES = {"About": "cards", "report_html": "page", "save_plot": "plot", "write_report": "page"}

__all__ = ["About", "report_html", "save_plot", "write_report"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'plueckernet.report' has no attribute {name!r}")
    return getattr(importlib.import_module(f"plueckernet.report.{_HOMES[name]}"), name)

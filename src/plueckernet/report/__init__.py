"""The result of a registration as one self-contained HTML file, or as a picture."""

from plueckernet.report.cards import About
from plueckernet.report.page import report_html, write_report
from plueckernet.report.plot import save_plot

__all__ = ["About", "report_html", "save_plot", "write_report"]

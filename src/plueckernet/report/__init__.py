"""The result of a registration as one HTML file that needs nothing else."""

from plueckernet.report.page import About, report_html, write_report

__all__ = ["About", "report_html", "write_report"]

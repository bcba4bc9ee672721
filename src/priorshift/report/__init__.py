"""Reports: one self-contained HTML page about an estimate, or about a stream over time."""

from priorshift.report._monitor import render_monitor_report, write_monitor_report
from priorshift.report._page import render_report, require_packages, write_report

__all__ = [
    "render_monitor_report",
    "render_report",
    "require_packages",
    "write_monitor_report",
    "write_report",
]

"""Reports: one self-contained HTML page about an estimate."""

from priorshift.report._render import render_report, write_report

__all__ = ["render_report", "write_report"]

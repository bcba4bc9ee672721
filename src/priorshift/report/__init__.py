"""Reports: one self-contained HTML page about an estimate, or about a stream over time."""

from priorshift.report._monitor import render_monitor_report as render_monitor_report
from priorshift.report._monitor import write_monitor_report as write_monitor_report
from priorshift.report._page import render_report as render_report
from priorshift.report._page import require_packages as require_packages
from priorshift.report._page import write_report as write_report

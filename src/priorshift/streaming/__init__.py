"""Streams: priors that follow the batches, and alarms that are rarely false however long."""

from priorshift.streaming._history import MonitorHistory
from priorshift.streaming._monitor import PriorMonitor
from priorshift.streaming._step import MonitorStep

__all__ = ["MonitorHistory", "MonitorStep", "PriorMonitor"]

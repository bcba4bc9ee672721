"""Streams: priors that follow the batches, and alarms with a bounded chance of being false."""

from priorshift.streaming._monitor import PriorMonitor
from priorshift.streaming._past import ONLINE
from priorshift.streaming._steps import MonitorHistory, MonitorStep, describe

__all__ = ["ONLINE", "MonitorHistory", "MonitorStep", "PriorMonitor", "describe"]

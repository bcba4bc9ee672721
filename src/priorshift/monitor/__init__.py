"""Streams: priors that follow the batches, and alarms with a bounded chance of being false."""

from priorshift.monitor._monitor import PriorMonitor
from priorshift.monitor._past import ONLINE
from priorshift.monitor._steps import MonitorHistory, MonitorStep, Record, describe
from priorshift.monitor._windows import PERIODS, cut_windows

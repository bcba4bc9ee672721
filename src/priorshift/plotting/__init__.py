"""Plots of priors, confusion, calibration, sample size and methods, as scikit-learn's displays.

Each display has `from_*` class methods that compute and plot, a constructor that takes the computed
numbers, `plot(ax=None)` and `frame()`. Matplotlib is needed by `plot` alone.
"""

from priorshift.plotting._comparison import ComparisonDisplay
from priorshift.plotting._confusion import ConfusionDisplay
from priorshift.plotting._groups import GroupsDisplay
from priorshift.plotting._monitor import MonitorDisplay
from priorshift.plotting._priors import PriorsDisplay
from priorshift.plotting._reliability import ReliabilityDisplay
from priorshift.plotting._sample_size import SampleSizeDisplay

__all__ = [
    "ComparisonDisplay",
    "ConfusionDisplay",
    "GroupsDisplay",
    "MonitorDisplay",
    "PriorsDisplay",
    "ReliabilityDisplay",
    "SampleSizeDisplay",
]

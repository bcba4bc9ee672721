"""Plot priors, confusion matrices, calibration, costs, sample sizes and methods.

As in scikit-learn, each display has `from_*` class methods that compute and plot, a constructor
that accepts the computed numbers, `plot(ax=None)` and `frame()`. Only `plot` needs Matplotlib.
"""

from priorshift.plotting._labelled import ConfusionDisplay, CostDisplay, ReliabilityDisplay
from priorshift.plotting._shares import (
    ComparisonDisplay,
    GroupsDisplay,
    MonitorDisplay,
    PriorsDisplay,
    SampleSizeDisplay,
)

__all__ = [
    "ComparisonDisplay",
    "ConfusionDisplay",
    "CostDisplay",
    "GroupsDisplay",
    "MonitorDisplay",
    "PriorsDisplay",
    "ReliabilityDisplay",
    "SampleSizeDisplay",
]

"""Plot priors, confusion matrices, calibration, costs and methods.

As in scikit-learn, each display has `from_*` class methods that compute and plot, a constructor
that accepts the computed numbers, which stay its attributes, and `plot(ax=None)`. Only `plot` needs
Matplotlib.
"""

from priorshift.plotting._labelled import ConfusionDisplay, CostDisplay, ReliabilityDisplay
from priorshift.plotting._shares import (
    ComparisonDisplay,
    GroupsDisplay,
    MonitorDisplay,
    PriorsDisplay,
)

__all__ = [
    "ComparisonDisplay",
    "ConfusionDisplay",
    "CostDisplay",
    "GroupsDisplay",
    "MonitorDisplay",
    "PriorsDisplay",
    "ReliabilityDisplay",
]

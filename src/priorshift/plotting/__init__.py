"""Plot priors, confusion matrices, calibration, costs, sample sizes and methods.

As in scikit-learn, each display has `from_*` class methods that compute and plot, a constructor
that accepts the computed numbers, `plot(ax=None)` and `frame()`. Only `plot` needs Matplotlib.
"""

from priorshift.plotting._comparison import ComparisonDisplay
from priorshift.plotting._confusion import ConfusionDisplay
from priorshift.plotting._costs import CostDisplay
from priorshift.plotting._groups import GroupsDisplay
from priorshift.plotting._monitor import MonitorDisplay
from priorshift.plotting._priors import PriorsDisplay
from priorshift.plotting._reliability import ReliabilityDisplay
from priorshift.plotting._sample_size import SampleSizeDisplay

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

"""All public names: `priorshift` imports them from here when the first is asked for."""

from priorshift import datasets as datasets
from priorshift import plotting as plotting
from priorshift._version import __version__
from priorshift.adapt import (
    Adapter,
    ProbaInterval,
    adapt_proba,
    adapt_proba_interval,
    decide,
    priors_from_labels,
    priors_from_predictions,
    renormalise,
    sample_indices,
    sample_weights,
)
from priorshift.assessment import Assessment, assess
from priorshift.border import TopK, join_labels
from priorshift.calibration import BCTS, TemperatureScaling, VectorScaling
from priorshift.conformal import ConformalSets
from priorshift.counts import Confusion, DecisionCounts
from priorshift.estimators import (
    PriorEstimate,
    PriorEstimator,
    available_estimators,
    get_estimator,
    register_estimator,
    registry,
)
from priorshift.estimators.labelled import labels_needed
from priorshift.estimators.registry import *  # noqa: F403
from priorshift.evidence import (
    AssumptionTest,
    Backtest,
    Diagnostics,
    ShiftTest,
    backtest,
    check_assumption,
    detect_shift,
    diagnose,
    expected_accuracy,
)
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning
from priorshift.groups import GroupCounts, GroupEstimates, estimate_groups
from priorshift.monitor import MonitorHistory, MonitorStep, PriorMonitor
from priorshift.sklearn import PriorAdaptedClassifier

__all__ = [
    "BCTS",
    "Adapter",
    "Assessment",
    "AssumptionTest",
    "Backtest",
    "ConformalSets",
    "Confusion",
    "ConvergenceWarning",
    "DecisionCounts",
    "Diagnostics",
    "GroupCounts",
    "GroupEstimates",
    "MonitorHistory",
    "MonitorStep",
    "PriorAdaptedClassifier",
    "PriorEstimate",
    "PriorEstimator",
    "PriorMonitor",
    "PriorShiftWarning",
    "ProbaInterval",
    "ShiftTest",
    "TemperatureScaling",
    "TopK",
    "VectorScaling",
    "__version__",
    "adapt_proba",
    "adapt_proba_interval",
    "assess",
    "available_estimators",
    "backtest",
    "check_assumption",
    "decide",
    "detect_shift",
    "diagnose",
    "estimate_groups",
    "expected_accuracy",
    "get_estimator",
    "join_labels",
    "labels_needed",
    "priors_from_labels",
    "priors_from_predictions",
    "register_estimator",
    "renormalise",
    "sample_indices",
    "sample_weights",
]
__all__ += registry.__all__

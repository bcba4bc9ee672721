"""priorshift: estimate, judge and adapt to a shift of class priors."""

from priorshift import datasets as datasets
from priorshift import plotting as plotting
from priorshift._version import __version__
from priorshift.adaptation import adapt_proba, priors_from_labels, priors_from_predictions
from priorshift.calibration import BCTS, TemperatureScaling, VectorScaling
from priorshift.classifier import PriorAdaptedClassifier
from priorshift.estimators import (
    BBSE,
    BBSES,
    CM,
    CML,
    CMM,
    EM,
    MAP,
    RLLS,
    SCM,
    SCML,
    SCMM,
    NoAdaptation,
    PriorEstimate,
    PriorEstimator,
    available_estimators,
    get_estimator,
)
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning
from priorshift.resampling import sample_indices, sample_weights
from priorshift.statistics import Confusion, DecisionCounts

__all__ = [
    "BBSE",
    "BBSES",
    "BCTS",
    "CM",
    "CML",
    "CMM",
    "EM",
    "MAP",
    "RLLS",
    "SCM",
    "SCML",
    "SCMM",
    "Confusion",
    "ConvergenceWarning",
    "DecisionCounts",
    "NoAdaptation",
    "PriorAdaptedClassifier",
    "PriorEstimate",
    "PriorEstimator",
    "PriorShiftWarning",
    "TemperatureScaling",
    "VectorScaling",
    "__version__",
    "adapt_proba",
    "available_estimators",
    "get_estimator",
    "priors_from_labels",
    "priors_from_predictions",
    "sample_indices",
    "sample_weights",
]

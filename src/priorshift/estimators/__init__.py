"""Estimators of target priors: each builds the data of a solver and wraps its solution."""

from priorshift.estimators.base import PriorEstimator
from priorshift.estimators.references import Reference
from priorshift.estimators.registry import *  # noqa: F403
from priorshift.estimators.registry import (
    FIRST,
    as_estimator,
    available_estimators,
    decision_methods,
    get_estimator,
    register_estimator,
    traits_of,
)
from priorshift.estimators.result import PriorEstimate

"""Estimators of target priors: each builds the data of a solver and wraps its solution."""

from priorshift.estimators._base import PriorEstimator
from priorshift.estimators._inversion import BBSE, BBSES, CM, RLLS, SCM, NoAdaptation
from priorshift.estimators._likelihood import CML, CMM, EM, MAP, SCML, SCMM
from priorshift.estimators._registry import available_estimators, get_estimator
from priorshift.estimators._result import PriorEstimate

__all__ = [
    "BBSE",
    "BBSES",
    "CM",
    "CML",
    "CMM",
    "EM",
    "MAP",
    "RLLS",
    "SCM",
    "SCML",
    "SCMM",
    "NoAdaptation",
    "PriorEstimate",
    "PriorEstimator",
    "available_estimators",
    "get_estimator",
]

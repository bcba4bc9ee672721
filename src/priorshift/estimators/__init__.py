"""Estimators of target priors: each builds the data of a solver and wraps its solution."""

from priorshift.estimators._auto import Auto
from priorshift.estimators._base import PriorEstimator
from priorshift.estimators._calibrated import CalibratedEM
from priorshift.estimators._elsa import ELSA
from priorshift.estimators._inversion import BBSE, BBSES, CM, RLLS, SCM, NoAdaptation
from priorshift.estimators._joint import JointLikelihood
from priorshift.estimators._likelihood import CML, CMM, EM, MAP, SCML, SCMM
from priorshift.estimators._mapls import MAPLS
from priorshift.estimators._moments import GLS
from priorshift.estimators._references import Reference
from priorshift.estimators._registry import (
    available_estimators,
    get_estimator,
    register_estimator,
    traits_of,
)
from priorshift.estimators._result import PriorEstimate
from priorshift.estimators._semi_supervised import SemiSupervisedEM
from priorshift.estimators._shrunk import ShrunkSCML

__all__ = [
    "BBSE",
    "BBSES",
    "CM",
    "CML",
    "CMM",
    "ELSA",
    "EM",
    "GLS",
    "MAP",
    "MAPLS",
    "RLLS",
    "SCM",
    "SCML",
    "SCMM",
    "Auto",
    "CalibratedEM",
    "JointLikelihood",
    "NoAdaptation",
    "PriorEstimate",
    "PriorEstimator",
    "Reference",
    "SemiSupervisedEM",
    "ShrunkSCML",
    "available_estimators",
    "get_estimator",
    "register_estimator",
    "traits_of",
]

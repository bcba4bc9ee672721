"""All methods of the library: a new one is a class in a file, and its name here.

Everything else follows: the registry, `priorshift.estimators`, `priorshift` itself, the choices of
the command line, and what reports say.
"""

from priorshift.estimators.auto import Auto
from priorshift.estimators.confusion_likelihood import (
    CML,
    CMM,
    SCML,
    SCMM,
    JointLikelihood,
    ShrunkSCML,
)
from priorshift.estimators.em import EM, MAP, MAPLS, CalibratedEM
from priorshift.estimators.inversion import BBSE, BBSES, CM, SCM, NoAdaptation
from priorshift.estimators.least_squares import ELSA, GLS, RLLS
from priorshift.estimators.semi_supervised import SemiSupervisedEM

__all__ = [  # noqa: RUF022 - in the order in which methods are listed everywhere
    "NoAdaptation",
    "Auto",
    "CM",
    "SCM",
    "CML",
    "SCML",
    "CMM",
    "SCMM",
    "EM",
    "MAP",
    "BBSE",
    "BBSES",
    "RLLS",
    "ELSA",
    "MAPLS",
    "JointLikelihood",
    "GLS",
    "SemiSupervisedEM",
    "CalibratedEM",
    "ShrunkSCML",
]

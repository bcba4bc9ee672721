"""Estimators by name, for the command line and for loops over methods."""

from difflib import get_close_matches
from typing import Any

from priorshift.estimators._adaptive import Auto
from priorshift.estimators._base import PriorEstimator
from priorshift.estimators._calibrated import CalibratedEM
from priorshift.estimators._elsa import ELSA
from priorshift.estimators._inversion import BBSE, BBSES, CM, RLLS, SCM, NoAdaptation
from priorshift.estimators._joint import JointLikelihood
from priorshift.estimators._likelihood import CML, CMM, EM, MAP, SCML, SCMM
from priorshift.estimators._mapls import MAPLS
from priorshift.estimators._moments import GLS
from priorshift.estimators._semi_supervised import SemiSupervisedEM
from priorshift.estimators._shrunk import ShrunkSCML

_ESTIMATORS: dict[str, type[PriorEstimator]] = {
    cls.name: cls
    for cls in (
        *(NoAdaptation, Auto),
        *(CM, SCM, CML, SCML, CMM, SCMM, EM, MAP, BBSE, BBSES, RLLS),
        *(ELSA, MAPLS, JointLikelihood, GLS, SemiSupervisedEM, CalibratedEM, ShrunkSCML),
    )
}


def available_estimators() -> list[str]:
    """Return the names that `get_estimator` takes.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.available_estimators()[:4]
    ['na', 'auto', 'cm', 'scm']
    """
    return list(_ESTIMATORS)


def get_estimator(name: str, **params: Any) -> PriorEstimator:
    """Make an estimator by name.

    Parameters
    ----------
    name : str
        One of `available_estimators()`.
    **params
        Passed on to the estimator.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.get_estimator("map", alpha=2.0)
    MAP(alpha=2.0)
    """
    if name not in _ESTIMATORS:
        near = get_close_matches(name.lower().replace("_", "-"), _ESTIMATORS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"there is no estimator {name!r}; choose from {', '.join(_ESTIMATORS)}.{hint}"
        )
    return _ESTIMATORS[name](**params)

"""Estimators by name, for the command line and for loops over methods."""

from difflib import get_close_matches
from typing import Any

from priorshift.estimators._base import PriorEstimator
from priorshift.estimators._inversion import BBSE, BBSES, CM, RLLS, SCM, NoAdaptation
from priorshift.estimators._likelihood import CML, CMM, EM, MAP, SCML, SCMM

_ESTIMATORS: dict[str, type[PriorEstimator]] = {
    cls.name: cls
    for cls in (NoAdaptation, CM, SCM, CML, SCML, CMM, SCMM, EM, MAP, BBSE, BBSES, RLLS)
}


def available_estimators() -> list[str]:
    """Return the names that `get_estimator` takes.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.available_estimators()[:4]
    ['na', 'cm', 'scm', 'cm-l']
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

"""All estimators by name, for the command line and for loops over methods.

A new method of the library is a class in a file, and its name in `__all__` here. Everything else
follows: `priorshift.estimators`, `priorshift` itself, the choices of the command line, and what
reports say. Your own joins them by `register_estimator`, or, so that the command `priorshift` knows
it too, by an entry point of the group `priorshift.estimators` in your package.
"""

from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from sklearn.base import clone

from priorshift.border import some
from priorshift.estimators.auto import Auto
from priorshift.estimators.base import PriorEstimator
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
from priorshift.estimators.labelled import PPI, SemiSupervisedEM
from priorshift.estimators.least_squares import ELSA, GLS, RLLS
from priorshift.estimators.mean import CalibratedMean
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.text import brief

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
    "CalibratedMean",
    "PPI",
]

FIRST = {"auto": "Auto", "em": "EM", "scm-l": "SCM-L"}
"""The methods to look at first where many are compared, and what to call them there."""

Estimator = TypeVar("Estimator", bound=type[PriorEstimator])

_ESTIMATORS: dict[str, type[PriorEstimator]] = {
    cls.name: cls for cls in (globals()[name] for name in __all__)
}


def register_estimator(cls: Estimator) -> Estimator:
    """Make an estimator known by its `name`, to every function and command that takes names.

    Parameters
    ----------
    cls : subclass of PriorEstimator
        With a `name` that no other estimator has. A class that is defined again, as in a
        notebook, replaces its old version.

    Returns
    -------
    cls
        So that it can be a decorator.

    Examples
    --------
    >>> import priorshift as ps
    >>> @ps.register_estimator  # doctest: +SKIP
    ... class Halfway(ps.SCML):
    ...     name = "halfway"

    Doing it twice does no harm:

    >>> ps.register_estimator(ps.SCML) is ps.SCML
    True
    """
    thing: Any = cls  # users do not all check types
    if not (isinstance(thing, type) and issubclass(thing, PriorEstimator)):
        raise ValueError(f"an estimator is a subclass of PriorEstimator; this is {cls!r}.")
    name = vars(cls).get("name")
    if not isinstance(name, str) or not name or name != "-".join(name.lower().split()):
        raise ValueError(
            f"{cls.__name__} needs a name of its own, in lower case and without spaces, such as "
            f"name = {cls.__name__.lower()!r}; it has {name!r}."
        )
    known = _ESTIMATORS.get(name)
    if known is not None and _origin(known) != _origin(cls):
        raise ValueError(f"the name {name!r} is taken by {'.'.join(_origin(known))}.")
    _ESTIMATORS[name] = cls
    return cls


def available_estimators(*, target_labels: bool = False) -> list[str]:
    """Return the names of the methods that a loop can fit on validation and run on a target.

    By default, ``get_estimator(name).fit(y_proba_val, y_val).estimate(y_proba)`` works for every
    name. "ppi" is not among them: it needs labels of some target rows, `y_target`.

    Parameters
    ----------
    target_labels : bool, default=False
        Whether you have labels of the target: adds the methods that need them. The names are then
        all that `get_estimator` accepts.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.available_estimators()[:4]
    ['na', 'auto', 'cm', 'scm']
    >>> set(ps.available_estimators(target_labels=True)) - set(ps.available_estimators())
    {'ppi'}
    """
    _load_entry_points()
    return [
        name
        for name, cls in _ESTIMATORS.items()
        if target_labels or cls.target_labels != "required"
    ]


def as_estimator(method: str | PriorEstimator) -> PriorEstimator:
    """Make an estimator by name, or a copy of one that is not fitted."""
    if isinstance(method, PriorEstimator):
        copied: PriorEstimator = clone(method)
        return copied
    return get_estimator(method)


def get_estimator(name: str, **params: Any) -> PriorEstimator:
    """Make an estimator by name.

    Parameters
    ----------
    name : str
        One of `available_estimators(target_labels=True)`, which are all names.
    **params
        Passed on to the estimator.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.get_estimator("map", alpha=2.0)
    MAP(alpha=2.0)
    """
    _load_entry_points()
    thing: Any = name  # users do not all check types
    if not isinstance(thing, str) or name not in _ESTIMATORS:
        near = get_close_matches(brief(name).strip("'").lower().replace("_", "-"), _ESTIMATORS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"there is no estimator {brief(name)}; choose from {', '.join(_ESTIMATORS)}.{hint}"
        )
    cls = _ESTIMATORS[name]
    known = cls._get_param_names()
    if strange := sorted(params.keys() - set(known)):
        raise TypeError(
            f"{cls.__name__} has no parameter {some(strange)}; "
            + (f"it has {some(known)}." if known else "leave params out.")
        )
    return cls(**params)


def traits_of(name: str) -> PriorEstimator:
    """Return the method that results call `name`, with default parameters, to ask for its traits.

    A name that is not registered, such as "known" for priors that were given, has the traits of
    `PriorEstimator` itself: no summary, no reference, nothing special.

    Examples
    --------
    >>> from priorshift.estimators import traits_of
    >>> traits_of("em-ts").summary
    'calibrates the probabilities, then maximises their likelihood'
    >>> traits_of("known").summary
    ''
    """
    _load_entry_points()
    # results of em-bcts carry the name of their calibrator
    cls = _ESTIMATORS.get("em-bcts" if name in ("em-ts", "em-vs") else name)
    return PriorEstimator() if cls is None else cls()


def decision_methods(*, target_labels: bool = False) -> list[str]:
    """Return the names of the methods that need no probabilities, decisions being enough.

    Parameters
    ----------
    target_labels : bool, default=False
        As for `available_estimators`.

    Examples
    --------
    >>> from priorshift.estimators.registry import decision_methods
    >>> decision_methods()
    ['cm', 'cm-l', 'cm-m', 'bbse', 'rlls', 'joint']
    >>> decision_methods(target_labels=True)[-1]
    'ppi'
    """
    methods = {name: traits_of(name) for name in available_estimators(target_labels=target_labels)}
    return [
        name
        for name, method in methods.items()
        if not (method.outputs == "ignored" or method.needs_probabilities)
    ]


def label_methods() -> list[str]:
    """Return the names of the methods that can use labels of some target rows.

    Examples
    --------
    >>> from priorshift.estimators.registry import label_methods
    >>> label_methods()
    ['em-labels', 'ppi']
    """
    _load_entry_points()
    return [name for name, cls in _ESTIMATORS.items() if cls.target_labels != "unused"]


@cache  # once per process
def _load_entry_points() -> None:
    """Register the estimators of other packages; one that fails is named and left out."""
    for point in entry_points(group="priorshift.estimators"):
        try:
            register_estimator(point.load())
        except Exception as error:
            warn_user(
                f"the estimator {point.name!r} of {point.value} is left out: {error}",
                PriorShiftWarning,
            )


def _origin(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__

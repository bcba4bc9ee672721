"""A fitted estimator as names, numbers and arrays, and back."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift.estimators import PriorEstimator, get_estimator
from priorshift.estimators.counts import ValidationCounts
from priorshift.statistics import Confusion, DecisionCounts

SAVED = ("cm", "scm", "cm-l", "scm-l", "cm-m", "scm-m", "bbse", "bbse-s", "rlls")
"""Methods whose fit is no more than counts."""

PARTS = tuple(field.name for field in fields(ValidationCounts))
"""What evidence may consist of."""

Arrays = dict[str, NDArray[Any]]


def estimator_state(estimator: PriorEstimator) -> tuple[dict[str, Any], Arrays]:
    """Take a fitted estimator apart into what JSON holds, and arrays."""
    _require_savable(estimator)
    arrays: Arrays = {
        "classes": estimator.classes_,
        "source_priors": estimator.source_priors_,
        "source_label_priors": estimator.source_label_priors_,
    }
    parts = {name: getattr(estimator._counts, name) for name in PARTS}
    parts = {name: part for name, part in parts.items() if part is not None}
    for name, part in parts.items():
        arrays[f"{name}.counts"] = part.counts
        if isinstance(part, Confusion):
            arrays[f"{name}.class_weights"] = part.class_weights
    described = {
        "method": estimator.name,
        "params": {name: _plain(value) for name, value in estimator.get_params().items()},
        "given": [value is not None for value in estimator._given],
        "source_priors_from": estimator.source_priors_from_,
        "evidence": {name: [part.decision, part.n_samples] for name, part in parts.items()},
    }
    return described, arrays


def restored_estimator(described: dict[str, Any], arrays: Arrays) -> PriorEstimator:
    """Put an estimator together again, with what its fit had found."""
    parts: dict[str, Any] = dict.fromkeys(PARTS)
    for name, (decision, n_samples) in described["evidence"].items():
        counts, weights = arrays[f"{name}.counts"], arrays.get(f"{name}.class_weights")
        parts[name] = (
            DecisionCounts(counts, decision, n_samples)
            if weights is None
            else Confusion(counts, weights, decision, n_samples)
        )
    sources = arrays["source_priors"], arrays["source_label_priors"]
    given = [p if known else None for p, known in zip(sources, described["given"], strict=True)]
    estimator = get_estimator(described["method"], **described["params"])
    estimator._settle(arrays["classes"], (given[0], given[1]), ValidationCounts(**parts))
    # settling scales them to sum 1 once more: they shall be the same to the last bit
    estimator.source_priors_, estimator.source_label_priors_ = sources
    estimator.source_priors_from_ = described["source_priors_from"]
    return estimator


def _require_savable(estimator: PriorEstimator) -> None:
    if estimator.name not in SAVED or type(get_estimator(estimator.name)) is not type(estimator):
        raise ValueError(
            f"a monitor with {type(estimator).__name__} cannot be saved: its fit is more than "
            f"counts. Use one of {', '.join(SAVED)}."
        )


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value

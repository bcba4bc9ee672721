"""Checks at the border: the only place that judges inputs and settles the order of classes.

Everything behind it works on clean arrays: probabilities as a float32 or float64 matrix
`(n_samples, n_classes)` in the order of `classes`, labels as indices into `classes`. Predictions
are checked once: see `Predictions`. Their type follows one rule: see `float_type`.
"""

from priorshift._validation._classes import (
    NO_PRIOR,
    check_classes,
    check_indices,
    check_priors,
    check_source_mass,
    classes_of_labels,
    classes_of_priors,
    encode_labels,
    in_class_order,
    ordered,
    read_labels,
    settle_classes,
)
from priorshift._validation._predictions import (
    Predictions,
    check_logits,
    check_matrix,
    check_outputs,
    check_proba,
)
from priorshift._validation._reading import (
    SUM_TOLERANCE,
    as_array,
    check_alpha,
    check_choice,
    check_count,
    check_fraction,
    check_level,
    check_numbers,
    check_positive,
    check_resamples,
    check_sample_weight,
    is_missing,
    require_keys,
    some,
)
from priorshift._validation._target_labels import known_labels

__all__ = [
    "NO_PRIOR",
    "SUM_TOLERANCE",
    "Predictions",
    "as_array",
    "check_alpha",
    "check_choice",
    "check_classes",
    "check_count",
    "check_fraction",
    "check_indices",
    "check_level",
    "check_logits",
    "check_matrix",
    "check_numbers",
    "check_outputs",
    "check_positive",
    "check_priors",
    "check_proba",
    "check_resamples",
    "check_sample_weight",
    "check_source_mass",
    "classes_of_labels",
    "classes_of_priors",
    "encode_labels",
    "in_class_order",
    "is_missing",
    "known_labels",
    "ordered",
    "read_labels",
    "require_keys",
    "settle_classes",
    "some",
]

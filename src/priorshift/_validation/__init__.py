"""Checks at the border: the only place where inputs are judged and class order is settled.

Everything behind it works on clean arrays: probabilities as a float32 or float64 matrix
`(n_samples, n_classes)` in the order of `classes`, labels as indices into `classes`.
"""

from priorshift._validation._classes import (
    check_classes,
    check_indices,
    classes_of_labels,
    classes_of_priors,
    encode_labels,
    in_class_order,
    read_labels,
    settle_classes,
)
from priorshift._validation._parameters import (
    check_alpha,
    check_choice,
    check_count,
    check_fraction,
    check_level,
    check_positive,
    check_resamples,
    check_sample_weight,
)
from priorshift._validation._predictions import (
    Predictions,
    check_logits,
    check_matrix,
    check_outputs,
    check_proba,
)
from priorshift._validation._priors import NO_PRIOR, check_priors, check_source_mass
from priorshift._validation._reading import as_array, is_missing, some

__all__ = [
    "NO_PRIOR",
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
    "read_labels",
    "settle_classes",
    "some",
]

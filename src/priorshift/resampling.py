"""Moved to `priorshift.adaptation`; this import path works until version 0.3."""

import warnings

from priorshift.adaptation import RandomState, sample_indices, sample_weights

__all__ = ["RandomState", "sample_indices", "sample_weights"]

warnings.warn(
    "priorshift.resampling is now priorshift.adaptation; import from there, or from priorshift.",
    FutureWarning,
    stacklevel=2,
)

"""Moved to `priorshift.adaptation`; this import path works until version 0.3."""

import warnings

from priorshift.adaptation import ProbaInterval, adapt_proba_interval

__all__ = ["ProbaInterval", "adapt_proba_interval"]

warnings.warn(
    "priorshift.uncertain_priors is now priorshift.adaptation; import from there, or from "
    "priorshift.",
    FutureWarning,
    stacklevel=2,
)

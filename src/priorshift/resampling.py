"""Moved to `priorshift.adapt`; this module will be removed in priorshift 0.3."""

from priorshift.exceptions import moved

__getattr__ = moved(__name__, "priorshift.adapt", removed_in="0.3")

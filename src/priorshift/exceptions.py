"""Warnings that priorshift raises, so that users can filter them by name."""

import sys
import warnings

from sklearn.exceptions import ConvergenceWarning

__all__ = ["ConvergenceWarning", "PriorShiftWarning", "warn_user"]


class PriorShiftWarning(UserWarning):
    """Say that an answer was found, but rests on less than it should.

    Raised when a class is missing from validation, when a solution had to be clipped, or when
    target decisions occur that validation says are impossible.
    """


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the user's own line: the first frame outside the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        "priorshift."
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

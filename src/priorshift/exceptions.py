"""Warnings that priorshift raises, so that users can filter them by name."""

from sklearn.exceptions import ConvergenceWarning

__all__ = ["ConvergenceWarning", "PriorShiftWarning"]


class PriorShiftWarning(UserWarning):
    """Say that an answer was found, but rests on less than it should.

    Raised when a class is missing from validation, when a solution had to be clipped, or when
    target decisions occur that validation says are impossible.
    """

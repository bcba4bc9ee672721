"""Adapt any scikit-learn classifier to the class priors of its target."""

from priorshift.sklearn._classifier import PriorAdaptedClassifier

__all__ = ["PriorAdaptedClassifier"]

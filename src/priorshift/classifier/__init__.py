"""Any scikit-learn classifier, adapted to the class priors of its target."""

from priorshift.classifier._classifier import PriorAdaptedClassifier

__all__ = ["PriorAdaptedClassifier"]

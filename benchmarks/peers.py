"""The same job by other libraries, where they are installed (`make bench-peers`)."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.simulation import Task

# mlquantify's general solvers take minutes beyond
MOST_CLASSES_OF_GPACC = 100


class Precomputed(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its predictions: what QuaPy takes for probabilities."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    def fit(self, X: object = None, y: object = None) -> "Precomputed":  # noqa: ARG002
        """Learn nothing."""
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the predictions."""
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the decisions."""
        return self.classes_[X.argmax(axis=1)]


def peers(task: Task) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """Yield a name and a call that estimates the target priors of a task."""
    K = task.source_priors.size
    if find_spec("quapy"):
        from quapy.method.aggregative import EMQ, PACC

        yield "QuaPy EMQ", lambda: EMQ.EM(task.source_priors, task.y_proba)[0]
        classifier = Precomputed(K).fit()
        yield (
            "QuaPy PACC (exact-cc)",
            lambda: (
                PACC(classifier, fit_classifier=False, val_split=None, solver="exact-cc")
                .fit(task.y_proba_val, task.y_val)
                .predict(task.y_proba)
            ),
        )
    if find_spec("mlquantify"):
        from mlquantify.counting import GPACC
        from mlquantify.likelihood import EMQ as MLQ_EMQ

        yield "mlquantify EMQ", lambda: MLQ_EMQ.EM(task.y_proba, task.source_priors)[0]
        if MOST_CLASSES_OF_GPACC >= K:
            yield (
                "mlquantify GPACC",
                lambda: GPACC().aggregate(
                    task.y_proba, task.y_proba_val, task.y_val, classes=np.arange(K)
                ),
            )

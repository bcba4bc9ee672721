"""Who runs beside our methods: the usual recipes, and other libraries where they are installed.

All take a task with `y_proba_val`, `y_val`, `y_proba_target` and `source_priors`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

FEW = 20
"""Classes up to which peers with general-purpose solvers run: beyond, one answer takes minutes."""


class Contestant(NamedTuple):
    """A method, and who made it: "priorshift", "recipe" or a peer."""

    name: str
    maker: str
    call: Callable[[Any], tuple[np.ndarray, np.ndarray]]
    """From a task to priors and adapted probabilities."""
    most_classes: int = 10**9


def ours(name: str) -> Contestant:
    """Return one of our methods, which adapts in its own way."""
    from priorshift import get_estimator

    def call(task: Any) -> tuple[np.ndarray, np.ndarray]:
        estimator = get_estimator(name).fit(task.y_proba_val, task.y_val, **task.given)
        shift = estimator.estimate(task.y_proba_target)
        return shift.priors, shift.adapt(task.y_proba_target)

    return Contestant(name, "priorshift", call)


def others() -> Iterator[Contestant]:
    """Yield recipes and peers; what they estimate is adapted to by Bayes' rule.

    QuaPy's EM after BCTS, which needs `abstention`, adapts the outputs that it calibrated itself.
    """
    for maker, name, estimate, most in (*recipes(), *libraries()):

        def call(task: Any, estimate: Any = estimate) -> tuple[np.ndarray, np.ndarray]:
            priors = np.asarray(estimate(task), np.float64)
            return priors, task.y_proba_target * (priors / task.source_priors)

        yield Contestant(name, maker, call, most)
    if find_spec("quapy") and find_spec("abstention"):
        yield Contestant("EMQ-BCTS", f"QuaPy {version('quapy')}", _emq_bcts)


def recipes() -> Iterator[tuple[str, str, Callable[[Any], np.ndarray], int]]:
    """Yield what people write by hand: EM with the usual stop, and inverted confusion matrices."""
    every = 10**9
    yield "recipe", "EM by hand", lambda t: plain_em(t.y_proba_target, t.source_priors), every
    yield "recipe", "one EM step", lambda t: t.y_proba_target.mean(axis=0), every
    for kind in ("hard", "soft"):
        invert = partial(usual_inversion, soft=kind == "soft")
        yield "recipe", f"inversion by hand, {kind}", invert, every


def plain_em(y_proba: np.ndarray, source_priors: np.ndarray, least: int = 0) -> np.ndarray:
    """Run EM until the mean change is below 1e-4, but `least` steps before that is looked at."""
    priors = source_priors
    for step in range(1000):
        posterior = y_proba * (priors / source_priors)
        posterior /= posterior.sum(axis=1, keepdims=True)
        before, priors = priors, posterior.mean(axis=0)
        if step >= least and np.abs(priors - before).mean() < 1e-4:
            break
    return priors


def usual_inversion(task: Any, *, soft: bool) -> np.ndarray:
    """Solve C p = q by `numpy.linalg`, clip and rescale; a class without rows is the identity."""
    K = task.source_priors.size
    decide = (lambda p: p) if soft else (lambda p: np.eye(K)[p.argmax(axis=1)])
    C, decisions = np.eye(K), decide(task.y_proba_val)
    for k in np.unique(task.y_val):
        C[:, k] = decisions[task.y_val == k].mean(axis=0)
    priors = np.linalg.lstsq(C, decide(task.y_proba_target).mean(axis=0))[0].clip(min=0)
    return priors / priors.sum()


def libraries() -> Iterator[tuple[str, str, Callable[[Any], np.ndarray], int]]:
    """Yield the methods of other libraries that take predictions as they are."""
    every = 10**9
    if find_spec("quapy"):
        import quapy
        from quapy.method import aggregative as qa

        quapy.environ["N_JOBS"] = 1
        who = f"QuaPy {version('quapy')}"
        yield who, "EMQ", lambda t: qa.EMQ.EM(t.source_priors, t.y_proba_target)[0], every
        for kind in ("ACC", "PACC"):
            yield who, f"{kind}, exact-cc", partial(_quapy, kind, solver="exact-cc"), every
        for kind in ("ACC", "PACC", "DMy", "KDEyML"):
            name = f"{kind}, minimize" if kind.endswith("ACC") else kind
            yield who, name, partial(_quapy, kind), FEW
    if find_spec("mlquantify"):
        from mlquantify.counting import GACC, GPACC
        from mlquantify.likelihood import EMQ

        who = f"mlquantify {version('mlquantify')}"
        yield who, "EMQ", lambda t: EMQ.EM(t.y_proba_target, t.source_priors)[0], every
        for kind in (GACC, GPACC):
            yield who, kind.__name__, partial(_mlquantify, kind), FEW


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


def _quapy(kind: str, task: Any, **options: str) -> np.ndarray:
    from quapy.method import aggregative

    classifier = Precomputed(task.source_priors.size).fit()
    method = getattr(aggregative, kind)(classifier, fit_classifier=False, val_split=None, **options)
    return method.fit(task.y_proba_val, task.y_val).predict(task.y_proba_target)


def _emq_bcts(task: Any) -> tuple[np.ndarray, np.ndarray]:
    from quapy.method.aggregative import EMQ

    validation = task.y_proba_val, task.y_val
    method = EMQ.EMQ_BCTS(Precomputed(task.source_priors.size), val_split=validation)
    posteriors = method.fit(*validation).predict_proba(task.y_proba_target)
    return posteriors.mean(axis=0), posteriors


def _mlquantify(kind: Any, task: Any) -> np.ndarray:
    parts = task.y_proba_target, task.y_proba_val
    if kind.__name__ == "GACC":
        parts = tuple(part.argmax(axis=1) for part in parts)
    found = kind().aggregate(*parts, task.y_val, classes=np.arange(task.source_priors.size))
    return np.array(list(found.values())) if isinstance(found, dict) else found

"""Who runs on the leaderboard: our estimators, the usual recipes, and peers where installed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np

import priorshift as ps
from benchmarks.peers import Precomputed
from priorshift.compare import ShiftTask

FEW = 20
"""Classes up to which peers with general-purpose solvers run: beyond, one answer takes minutes."""

Call = Callable[[ShiftTask], tuple[np.ndarray, np.ndarray]]
"""From a task to priors and adapted probabilities."""


@dataclass(frozen=True)
class Contestant:
    """A method, and who made it: "priorshift", "recipe" or a peer."""

    name: str
    maker: str
    call: Call
    most_classes: int = 10**9


def ours(names: list[str]) -> Iterator[Contestant]:
    for name in names:
        yield Contestant(name, "priorshift", partial(_ours, name))


def _ours(name: str, task: ShiftTask) -> tuple[np.ndarray, np.ndarray]:
    estimator = ps.get_estimator(name).fit(task.y_proba_val, task.y_val, **task.given)
    shift = estimator.estimate(task.y_proba_target)
    return shift.priors, shift.adapt(task.y_proba_target)


def recipes() -> Iterator[Contestant]:
    """Yield what people write by hand: EM with the usual stop, and inverted confusion matrices."""
    yield _by_priors("EM by hand", "recipe", usual_em)
    yield _by_priors("inversion by hand, hard", "recipe", partial(usual_inversion, soft=False))
    yield _by_priors("inversion by hand, soft", "recipe", partial(usual_inversion, soft=True))


def usual_em(task: ShiftTask) -> np.ndarray:
    """Run EM until the mean change is below 1e-4, as most code on the web does."""
    return plain_em(task.y_proba_target, task.source_priors)


def plain_em(y_proba: np.ndarray, source_priors: np.ndarray, least: int = 0) -> np.ndarray:
    """Run EM until the mean change is below 1e-4, but `least` steps before that is looked at."""
    priors = source_priors
    for step in range(1000):
        posterior = y_proba * (priors / source_priors)
        posterior /= posterior.sum(axis=1, keepdims=True)
        new = posterior.mean(axis=0)
        if step >= least and np.abs(new - priors).mean() < 1e-4:
            return new
        priors = new
    return priors


def usual_inversion(task: ShiftTask, *, soft: bool) -> np.ndarray:
    """Solve C p = q by `numpy.linalg`, clip and rescale; a class without rows is the identity."""
    K = task.source_priors.size
    decide = (lambda p: p) if soft else (lambda p: np.eye(K)[p.argmax(axis=1)])
    C = np.eye(K)
    decisions = decide(task.y_proba_val)
    for k in np.unique(task.y_val):
        C[:, k] = decisions[task.y_val == k].mean(axis=0)
    q = decide(task.y_proba_target).mean(axis=0)
    try:
        priors = np.linalg.solve(C, q)
    except np.linalg.LinAlgError:
        priors = np.linalg.lstsq(C, q)[0]
    priors = priors.clip(min=0)
    return priors / priors.sum()


def peers() -> Iterator[Contestant]:
    """Yield the methods of other libraries that take predictions as they are."""
    if find_spec("quapy"):
        import quapy
        from quapy.method import aggregative as qa

        quapy.environ["N_JOBS"] = 1
        who = f"QuaPy {version('quapy')}"
        yield _by_priors("EMQ", who, lambda t: qa.EMQ.EM(t.source_priors, t.y_proba_target)[0])
        for kind in ("ACC", "PACC"):
            yield _by_priors(f"{kind}, exact-cc", who, partial(_quapy, kind, solver="exact-cc"))
            yield _by_priors(f"{kind}, minimize", who, partial(_quapy, kind), FEW)
        yield _by_priors("DMy", who, partial(_quapy, "DMy"), FEW)
        yield _by_priors("KDEyML", who, partial(_quapy, "KDEyML"), FEW)
    if find_spec("mlquantify"):
        from mlquantify.counting import GACC, GPACC
        from mlquantify.likelihood import EMQ

        who = f"mlquantify {version('mlquantify')}"
        yield _by_priors("EMQ", who, lambda t: EMQ.EM(t.y_proba_target, t.source_priors)[0])
        yield _by_priors("GACC", who, partial(_mlquantify, GACC), FEW)
        yield _by_priors("GPACC", who, partial(_mlquantify, GPACC), FEW)


def _by_priors(
    name: str, maker: str, estimate: Callable[[ShiftTask], np.ndarray], most: int = 10**9
) -> Contestant:
    """Make a contestant of what estimates priors only; predictions are adapted by Bayes' rule."""

    def call(task: ShiftTask) -> tuple[np.ndarray, np.ndarray]:
        priors = np.asarray(estimate(task), np.float64)
        if priors.shape != task.source_priors.shape or not np.isfinite(priors).all():
            raise ValueError("no finite priors")
        weighted = task.y_proba_target * (priors / task.source_priors)
        return priors, weighted

    return Contestant(name, maker, call, most)


def _quapy(kind: str, task: ShiftTask, **options: str) -> np.ndarray:
    from quapy.method import aggregative

    classifier = Precomputed(task.source_priors.size).fit()
    method = getattr(aggregative, kind)(classifier, fit_classifier=False, val_split=None, **options)
    return method.fit(task.y_proba_val, task.y_val).predict(task.y_proba_target)


def _mlquantify(kind: Callable, task: ShiftTask) -> np.ndarray:
    K = task.source_priors.size
    hard = kind.__name__ == "GACC"
    target = task.y_proba_target.argmax(axis=1) if hard else task.y_proba_target
    val = task.y_proba_val.argmax(axis=1) if hard else task.y_proba_val
    found = kind().aggregate(target, val, task.y_val, classes=np.arange(K))
    return np.array(list(found.values())) if isinstance(found, dict) else found

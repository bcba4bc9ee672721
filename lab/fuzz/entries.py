"""The public entry points, each called with what a world of hostile inputs offers."""

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import priorshift as ps
from lab.fuzz import inputs
from lab.fuzz.inputs import Rng, chance, number, pick
from lab.fuzz.outcomes import BadAnswerError, Proba, fingerprint
from priorshift.compare import compare

SIZES = (1, 2, 3, 8, 30, 30, 100, 300)
CLASSES = (2, 2, 3, 3, 4, 5, 10, 40)


class World:
    """A validation set, a target and all that goes with them; some of it hostile.

    Every argument is drawn when it is asked for, and remembered: `require_untouched` refuses a
    call that wrote to its inputs.
    """

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.hostility = pick(rng, (0.0, 0.0, 0.3, 1.0))
        self.K = pick(rng, CLASSES)
        kind = "numbers" if chance(rng, 0.5) else pick(rng, list(inputs.NAMES))
        self.names = inputs.NAMES[kind](self.K)
        self.numbered = kind == "numbers"
        self.index = self._draw_index(pick(rng, SIZES))
        self.target_index = self._draw_index(pick(rng, SIZES))
        self.y_proba_val = inputs.predictions(rng, self.index, self.K)
        self.y_proba = inputs.predictions(rng, self.target_index, self.K)
        self._given: list[tuple[str, Any, Any]] = []

    def _draw_index(self, n: int) -> np.ndarray:
        if chance(self.rng, 0.6):
            return np.concatenate([np.arange(self.K), self.rng.integers(self.K, size=n)])
        present = int(self.rng.integers(1, self.K + 1))
        return self.rng.integers(present, size=n)

    def note(self, name: str, value: Any) -> Any:
        """Remember an argument as it was."""
        self._given.append((name, value, fingerprint(value)))
        return value

    def require_untouched(self) -> None:
        """Refuse a call that changed what it was given."""
        for name, value, before in self._given:
            if before is not None and fingerprint(value) != before:
                raise BadAnswerError(f"the input {name} was changed")

    def describe(self) -> str:
        """Say what was given, in short."""
        return "\n".join(f"  {name} = {_shown(value)}" for name, value, _ in self._given)

    def often(self, probability: float) -> float:
        """Return how often something is to be wrong: in a friendly world, never."""
        return self.hostility * probability

    def number(self, usual: Any, how_often: float = 0.2) -> Any:
        """Give a parameter: mostly one of the usual, else anything."""
        return number(self.rng, usual, self.often(how_often))

    # Arguments

    def val(self) -> Any:
        """Return predictions on validation."""
        return self.rows("y_proba_val", self.y_proba_val)

    def target(self) -> Any:
        """Return predictions on the target."""
        return self.rows("y_proba", self.y_proba)

    def rows(self, name: str, values: np.ndarray) -> Any:
        """Return rows as they are, in some container, or spoilt."""
        names = self.names if chance(self.rng, 0.8) else None
        with np.errstate(all="ignore"):
            made = inputs.hostile(self.rng, values, names, self.often(0.2))
        return self.note(name, made)

    def logits(self, P: np.ndarray) -> Any:
        """Return logits for probabilities, some of them huge."""
        with np.errstate(all="ignore"):
            z = np.log(P) * pick(self.rng, [1, 1, 1, 0.0, 1e5, 1e200])
            z = np.nan_to_num(z, nan=0.0) if chance(self.rng, 0.9) else z
            z = z + pick(self.rng, [0, 0, 1e4, -1e8, 1e300])
        return self.rows("logits", z)

    def labels(self, index: np.ndarray | None = None) -> Any:
        """Return labels of validation, or those of these indices."""
        index = self.index if index is None else index
        y = np.asarray(self.names)[index]
        return self.note("y", inputs.hostile_labels(self.rng, y, self.often(0.15)))

    def priors(self) -> Any:
        """Return priors."""
        return self.note("priors", inputs.hostile_priors(self.rng, self.names, self.often(0.2)))

    def weights(self, n: int) -> Any:
        """Return sample weights."""
        return self.note("sample_weight", inputs.hostile_weights(self.rng, n, self.often(0.3)))

    def classes(self) -> dict[str, Any]:
        """Return `classes=`, if they are needed or by chance."""
        if self.numbered and chance(self.rng, 0.8):
            return {}
        names: Any = list(self.names)
        if chance(self.rng, self.often(0.1)):
            wrong = (names[:-1], [*names, "more"], names[:1] * self.K, None, "abc", 3, [names])
            names = pick(self.rng, wrong)
        elif chance(self.rng, 0.3):
            names = np.asarray(names)
        return {"classes": self.note("classes", names)}

    def source(self) -> dict[str, Any]:
        """Return `source_priors=`, `source_label_priors=` or neither, and `classes=`."""
        given = self.classes()
        roll = self.rng.random()
        if roll < 0.35:
            given["source_priors"] = self.source_priors()
        if roll > 0.8 or roll < self.often(0.1):
            given["source_label_priors"] = self.source_priors()
        return given

    def source_priors(self) -> Any:
        """Return priors of the source; without zeros in a friendly world."""
        if self.hostility:
            return self.priors()
        floor = pick(self.rng, (1e-3, 1e-9, 1e-29))
        drawn = np.maximum(inputs.priors(self.rng, self.K), floor)
        given = pick(self.rng, inputs.PRIOR_CONTAINERS[:-1])(drawn / drawn.sum(), self.names)
        return self.note("source_priors", given)

    def fitting(self) -> dict[str, Any]:
        """Return what `fit` takes beside predictions and labels."""
        given = self.source()
        weights = self.weights(self.index.size)
        return given if weights is None else {**given, "sample_weight": weights}

    def seed(self) -> int:
        """Return a random state: a case must end alike every time."""
        return int(self.rng.integers(2**31))


def _shown(value: Any) -> str:
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    text = " ".join(repr(value).split())
    return f"{kind}{'' if shape is None else shape} {text[:200]}"


ENTRIES: dict[str, Callable[[World], Any]] = {}


def entry(function: Callable[[World], Any]) -> Callable[[World], Any]:
    """Make a function an entry point of the fuzzer, by its name."""
    ENTRIES[function.__name__] = function
    return function


# Estimators

METHODS = tuple(ps.available_estimators())

PARAMETERS: dict[str, tuple[Any, ...]] = {
    "alpha": (0.5, 1, 1.0, 3.0, 10, 1e-6, 1e6),
    "tol": (1e-2, 1e-6, 1e-9, 0.5),
    "max_iter": (1, 10, 1000),
    "solver": ("certified", "paper", "released", "optimal"),
    "constrained": (True, False),
    "shrinkage": ("cv", "evidence", 0.0, 0.5, 1.0),
    "regularization": (0.001, 0.01, 1.0),
    "delta": (0.05, 0.5),
    "gamma": (0.0, 0.5, 1.0),
    "decision": ("hard", "soft"),
    "caution": (0.0, 1.0, 3.0),
    "calibrator": ("bcts", "temperature", "vector"),
    "ridge": ("cv", 0.0, 0.1, None),
    "cv": (2, 3, 5),
}


def estimator(world: World, name: str) -> ps.PriorEstimator:
    """Make an estimator, now and then with parameters of its own."""
    rng = world.rng
    made = ps.get_estimator(name)
    known = made.get_params()
    if name.startswith("bbse"):
        known.pop("solver")  # the paper's keeps negative priors, as its docstring says
    chosen = {
        key: world.number(PARAMETERS[key])
        for key in known
        if key in PARAMETERS and chance(rng, 0.15)
    }
    if "alpha" in chosen and chance(rng, 0.2):
        chosen["alpha"] = rng.exponential(size=world.K) + 0.1
    if world.hostility and "alpha" in chosen and chance(rng, 0.1):
        chosen["alpha"] = pick(rng, ([1.0], [0.0] * world.K, [np.nan] * world.K, [[1.0] * world.K]))
    if "random_state" in known:
        chosen["random_state"] = world.seed()
    world.note("params", chosen)
    return made.set_params(**chosen)


def interval_options(world: World) -> dict[str, Any]:
    """Return what `estimate` takes for an interval."""
    rng = world.rng
    options = {
        "confidence_level": world.number((0.5, 0.9, 0.95, 0.999)),
        "random_state": world.seed(),
        "n_resamples": world.number((50, 60), 0.05),
    }
    if isinstance(options["n_resamples"], float | int) and options["n_resamples"] > 100:
        options["n_resamples"] = 50
    if chance(rng, 0.6):
        options["interval_method"] = pick(rng, ("auto", "asymptotic", "bootstrap", "bayesian"))
    if chance(rng, 0.3):
        options["simultaneous"] = True
    if chance(rng, 0.3):
        options["estimand"] = pick(rng, ("population", "sample", "sample", "other"))
    return world.note("options", options)


def _estimating(name: str) -> Callable[[World], Any]:
    def estimate(world: World) -> Any:
        made = estimator(world, name)
        if chance(world.rng, 0.05):
            return made.fit(**world.source()).estimate(world.target())
        made.fit(world.val(), world.labels(), **world.fitting())
        return made.estimate(world.target())

    return estimate


ENTRIES |= {f"estimate {name}": _estimating(name) for name in METHODS}


@entry
def interval(world: World) -> Any:
    """Estimate with an interval, and carry it to the predictions."""
    made = estimator(world, pick(world.rng, METHODS))
    made.fit(world.val(), world.labels(), **world.fitting())
    found = made.estimate(world.target(), **interval_options(world))
    bounds = found.adapt_interval(world.y_proba)
    return found, [Proba(bounds.proba), bounds.lower, bounds.upper]


@entry
def adapt(world: World) -> Any:
    """Estimate and adapt in one call."""
    made = estimator(world, pick(world.rng, METHODS))
    made.fit(world.val(), world.labels(), **world.fitting())
    return Proba(made.adapt(world.target(), strength=world.number((0, 0.5, 1.0))))


@entry
def estimate_adapts(world: World) -> Any:
    """Adapt hostile rows or logits by a good estimate."""
    made = estimator(world, pick(world.rng, METHODS))
    made.fit(world.y_proba_val, world.labels(), **world.source())
    found = made.estimate(world.y_proba)
    if chance(world.rng, 0.4):
        return Proba(found.adapt(world.logits(world.y_proba), from_logits=True))
    return found, Proba(found.adapt(world.target(), strength=world.number((0, 0.5, 1.0))))


@entry
def partial_fit(world: World) -> Any:
    """Fit in parts."""
    made = estimator(world, pick(world.rng, METHODS))
    given = {"classes": world.names, **world.source()}
    made.partial_fit(world.val(), world.labels(), **given)
    made.partial_fit(world.val(), world.labels(), **(given if chance(world.rng, 0.2) else {}))
    return made.estimate(world.target())


@entry
def estimate_counts(world: World) -> Any:
    """Estimate from counts of decisions."""
    rng = world.rng
    made = estimator(world, pick(rng, METHODS))
    made.fit(world.y_proba_val, world.labels(), **world.source())
    counts = rng.poisson(pick(rng, [0.1, 3, 1000]), size=world.K).astype(float)
    if chance(rng, world.often(0.5)):
        wrong = (counts[:-1], counts * 0, -counts, counts * np.nan, counts.tolist(), counts + 1e300)
        counts = pick(rng, (*wrong, counts.astype(int), counts[None], "x", None, counts / 7))
    decision = pick(rng, ("hard", "soft")) if chance(rng, 0.9) else pick(rng, ("both", None))
    n = pick(rng, [int(np.nansum(counts))] * 4 + [0, -1, "x"]) if _sums(counts) else 10
    given = ps.DecisionCounts(world.note("counts", counts), decision, n)
    given = given if chance(rng, 0.95) else pick(rng, (counts, None, [1, 2]))
    options = interval_options(world) if chance(rng, 0.4) else {}
    return made.estimate_counts(given, **options)


def _sums(counts: Any) -> bool:
    return isinstance(counts, np.ndarray) and bool(np.isfinite(counts).all())


@entry
def with_labels(world: World) -> Any:
    """Estimate where some rows of the target have labels."""
    rng = world.rng
    made = estimator(world, "em-labels")
    made.fit(world.val(), world.labels(), **world.source())
    some = np.asarray(world.names, dtype=object)[world.target_index]
    unlabelled = pick(rng, (None, None, -1, "", np.nan, "none"))
    some[rng.random(some.size) < 0.7] = unlabelled
    y_target = world.note("y_target", pick(rng, (some, some.tolist(), some[:-1], None)))
    given = {"y_target": y_target, "unlabelled": unlabelled}
    found = made.estimate(world.target(), **given)
    return found, Proba(made.adapt(world.y_proba, **given))


@entry
def get_estimator(world: World) -> Any:
    """Name estimators and their parameters, right and wrong."""
    rng = world.rng
    name = pick(rng, (*METHODS, "EM", "", "nope", None, 3, ["em"], ps.EM))
    options = (
        {pick(rng, (*PARAMETERS, "nope")): world.number((0.5, 1, "x"))} if chance(rng, 0.5) else {}
    )
    made = ps.get_estimator(name, **world.note("params", options))
    made.fit(world.y_proba_val, world.index, classes=range(world.K))
    return made.estimate(world.y_proba)


# Functions


@entry
def adapt_proba(world: World) -> Any:
    """Adapt to known priors."""
    logits = chance(world.rng, 0.3)
    rows = world.logits(world.y_proba) if logits else world.target()
    options = {**world.classes(), "strength": world.number((0, 0.3, 1.0), 0.1)}
    return Proba(
        ps.adapt_proba(rows, world.source_priors(), world.priors(), from_logits=logits, **options)
    )


@entry
def adapt_proba_interval(world: World) -> Any:
    """Adapt to uncertain priors."""
    rng, K = world.rng, world.K
    options: dict[str, Any] = {"random_state": world.seed(), **world.classes()}
    centre = inputs.priors(rng, K)
    if chance(rng, 0.5):
        bounds = np.column_stack([centre * rng.uniform(0, 1), 1 - (1 - centre) * rng.uniform(0, 1)])
        wrong = (bounds[:, ::-1], bounds * np.nan, bounds[:-1], bounds.T, bounds * 2, None, "x")
        options["interval"] = pick(rng, wrong) if chance(rng, world.often(0.4)) else bounds
    else:
        draws = rng.dirichlet(np.full(K, pick(rng, [0.01, 1, 50])), size=pick(rng, [1, 2, 50]))
        wrong = (draws * 2, draws * np.nan, draws[:0], draws[:, :-1], draws[0], draws.tolist(), "x")
        options["draws"] = pick(rng, wrong) if chance(rng, world.often(0.4)) else draws
    if chance(rng, 0.3):
        options["confidence_level"] = world.number((0.5, 0.95))
    target = {"target_priors": centre} if "interval" in options or chance(rng, 0.3) else {}
    world.note("options", options | target)
    found = ps.adapt_proba_interval(world.target(), world.source_priors(), **target, **options)
    return Proba(found.proba), found.lower, found.upper


@entry
def priors_from_labels(world: World) -> Any:
    """Count labels."""
    weights = world.weights(world.index.size)
    return {
        "priors": ps.priors_from_labels(world.labels(), **world.classes(), sample_weight=weights)
    }


@entry
def priors_from_predictions(world: World) -> Any:
    """Average predictions."""
    weights = world.weights(world.target_index.size)
    found = ps.priors_from_predictions(world.target(), sample_weight=weights)
    return Proba(found[None])


@entry
def sample_indices(world: World) -> Any:
    """Draw rows by priors; each index must exist."""
    n = world.number((None, 1, 5, 100), 0.1)
    n = 100 if isinstance(n, float) and n > 1e6 else n
    given = {**world.classes(), "random_state": world.seed()}
    found = ps.sample_indices(world.labels(), world.priors(), n, **given)
    if found.size and (found.min() < 0 or found.max() >= world.index.size + 1):
        raise BadAnswerError("an index is out of range")
    return found


@entry
def sample_weights(world: World) -> Any:
    """Weigh rows by priors."""
    found = ps.sample_weights(world.labels(), world.priors(), **world.classes())
    if (found < 0).any():
        raise BadAnswerError("a weight is negative")
    return found


# Calibrators, sets, tests


def _calibrating(kind: Any) -> Callable[[World], Any]:
    def calibrate(world: World) -> Any:
        rng = world.rng
        logits = chance(rng, 0.5)
        known = kind().get_params()
        usual = {**PARAMETERS, "balance": ("offset", "weights"), "bias": (True, False)}
        chosen = {k: world.number(usual[k]) for k in known if k in usual and chance(rng, 0.2)}
        made = kind(logits=logits, **world.note("params", chosen))
        rows = world.logits(world.y_proba_val) if logits else world.val()
        given = world.classes()
        if chance(rng, 0.2):
            given["source_label_priors"] = world.priors()
        made.fit(rows, world.labels(), world.weights(world.index.size), **given)
        again = world.logits(world.y_proba) if logits else world.target()
        logs = made.predict_log_proba(again)
        if np.isnan(logs).any() or (logs > 1e-6).any():
            raise BadAnswerError("log-probabilities are NaN or above 0")
        return Proba(made.predict_proba(again))

    return calibrate


ENTRIES |= {
    "temperature scaling": _calibrating(ps.TemperatureScaling),
    "bcts": _calibrating(ps.BCTS),
    "vector scaling": _calibrating(ps.VectorScaling),
}


@entry
def conformal(world: World) -> Any:
    """Predict sets."""
    rng = world.rng
    sets = ps.ConformalSets(
        pick(rng, ("lac", "aps", "randomised-aps") if chance(rng, 0.95) else ("other", None)),
        per_class=chance(rng, 0.3),
        prior_noise=chance(rng, 0.7),
        random_state=world.seed(),
    )
    given: dict[str, Any] = {}
    if chance(rng, 0.4):
        made = estimator(world, pick(rng, ("em", "scm-l", "cm")))
        made.fit(world.y_proba_val, np.asarray(world.names)[world.index], classes=world.names)
        level = pick(rng, (None, 0.9))
        given["estimate"] = made.estimate(world.y_proba, level, 0)
    else:
        given |= {"target_priors": world.priors(), **world.classes()}
        if chance(rng, 0.4):
            given["source_priors"] = world.source_priors()
    sets.fit(world.val(), world.labels(), **given)
    held = sets.predict_set(world.target(), world.number((0.5, 0.9, 0.99)))
    if held.dtype != bool:
        raise BadAnswerError(f"sets are of type {held.dtype}")
    sets.class_names(held)
    return None


@entry
def detect_shift(world: World) -> Any:
    """Test for a shift."""
    rng = world.rng
    options = {
        "alpha": world.number((0.01, 0.05), 0.1),
        "n_resamples": pick(rng, (1, 0, -1, "x") if chance(rng, world.often(0.2)) else (99,)),
        "assumption": chance(rng, 0.2),
        "random_state": world.seed(),
    }
    world.note("options", options)
    given = world.source()
    return ps.detect_shift(world.val(), world.labels(), world.target(), **given, **options)


@entry
def check_assumption(world: World) -> Any:
    """Test whether nothing but the priors shifted."""
    options = {
        "alpha": world.number((0.01, 0.05), 0.1),
        "n_resamples": world.number((99,), 0.1),
        "random_state": world.seed(),
    }
    if isinstance(options["n_resamples"], float):
        options["n_resamples"] = 99
    return ps.check_assumption(
        world.val(), world.labels(), world.target(), **world.classes(), **options
    )


@entry
def diagnose(world: World) -> Any:
    """Diagnose an estimate."""
    rng = world.rng
    made = estimator(world, pick(rng, METHODS))
    made.fit(world.y_proba_val, world.labels(), **world.source())
    found = made.estimate(world.y_proba, pick(rng, (None, None, 0.9)), 0)
    given = pick(rng, (None, "x", made)) if chance(rng, 0.05) else found
    options = {**world.classes()}
    options["confidence_level"] = world.number((0.5, 0.95), 0.1)
    return ps.diagnose(world.val(), world.labels(), world.target(), given, **options)


@entry
def assess(world: World) -> Any:
    """Say whether to adapt, and adapt."""
    rng = world.rng
    options = {"method": pick(rng, ("auto", *METHODS)), **world.source(), **world.classes()}
    options["confidence_level"] = world.number((0.5, 0.95), 0.1)
    found = ps.assess(world.val(), world.labels(), world.target(), random_state=0, **options)
    return found.to_dict(), Proba(found.adapt(world.y_proba))


# Many targets


def hostile_groups(world: World, n: int) -> Any:
    """Return a group for each row, in some container, or spoilt."""
    labels = np.asarray(
        pick(world.rng, (["a", "b", "c"], [1, 2, 3], [0.5, 1.5], ["", " "], [True]))
    )
    drawn = labels[world.rng.integers(labels.size, size=n)]
    return world.note("groups", inputs.hostile_labels(world.rng, drawn, world.often(0.15)))


@entry
def estimate_groups(world: World) -> Any:
    """Estimate each group, and adapt each row to its own."""
    rng = world.rng
    made = estimator(world, pick(rng, METHODS))
    made.fit(world.val(), world.labels(), **world.source())
    n = world.target_index.size
    options: dict[str, Any] = {"pooling": world.number(("auto", None, 0, 5, 50.0), 0.1)}
    if chance(rng, 0.4):
        options["confidence_level"] = world.number((0.5, 0.95), 0.1)
    world.note("options", options)
    groups = hostile_groups(world, n)
    found = ps.estimate_groups(made, world.target(), groups, **options)
    one = found[found.groups[0].item()]
    rows, unknown = world.target(), pick(rng, ("refuse", "pooled", "other"))
    return found, one, Proba(found.adapt(rows, groups, unknown=unknown))


@entry
def group_counts(world: World) -> Any:
    """Count by group, and estimate from the counts."""
    rng = world.rng
    n = world.target_index.size
    decision = pick(rng, ("hard", "soft"))
    groups = hostile_groups(world, n)
    counted = ps.GroupCounts.from_arrays(world.target(), groups, decision=decision)
    made = estimator(world, pick(rng, ("cm", "scm", "scm-l", "cm-l", "bbse")))
    made.fit(world.y_proba_val, world.labels(), **world.source())
    return ps.estimate_groups(made, counted)


@entry
def monitor(world: World) -> Any:
    """Follow a stream, with a pause in a file."""
    rng = world.rng
    counting = ("cm", "scm", "cm-l", "scm-l", "cm-m", "scm-m", "bbse", "bbse-s", "rlls")
    method = pick(rng, METHODS if chance(rng, 0.1) else counting)
    made = ps.PriorMonitor(
        estimator(world, method) if chance(rng, 0.8) else None,
        online=pick(rng, ("flh-ftl", "window", "exponential")),
        window=world.number((1, 2, 10), 0.05),
        half_life=world.number((0.1, 5.0), 0.05),
        alarm_level=world.number((0.05, 0.5), 0.05),
        random_state=world.seed(),
    )
    given = world.source()
    given.pop("source_label_priors", None)
    made.fit(world.val(), world.labels(), **given)
    times = (None, 1, "2026-01-01", np.datetime64("2026-01-01"), 0.5, np.nan, object())
    steps = [made.update(world.y_proba, time=pick(rng, times[:5])) for _ in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        again = ps.PriorMonitor.load(made.save(Path(folder) / "state.npz"))
    steps.append(again.update(world.target(), time=pick(rng, times), adapt=chance(rng, 0.5)))
    again.acknowledge()
    history = again.history
    history.to_frame()
    return steps, again.estimate(), history


# Statistics and sparse predictions


@entry
def statistics(world: World) -> Any:
    """Count decisions and confusions, and use them."""
    rng = world.rng
    decision = pick(rng, ("hard", "soft", "other") if chance(rng, 0.1) else ("hard", "soft"))
    counts = ps.DecisionCounts.from_arrays(world.target(), decision=decision)
    index = world.note("index", inputs.hostile_labels(rng, world.index, world.often(0.15)))
    confusion = ps.Confusion.from_arrays(world.val(), index, decision=decision)
    return counts, (counts + counts).frequencies, confusion, confusion.joint()


@entry
def top_k(world: World) -> Any:
    """List the best classes of each row, and estimate and adapt with them."""
    rng, K = world.rng, world.K
    k = int(rng.integers(1, K + 1))
    ids = np.argsort(-world.y_proba, axis=1, kind="stable")[:, :k]
    scores = np.take_along_axis(world.y_proba, ids, axis=1)
    if chance(rng, world.often(0.3)):
        ids = pick(rng, (ids - 1, ids * 0, ids.astype(float), ids[:-1], ids.tolist(), "x", None))
    if chance(rng, world.often(0.5)):
        scores = inputs.hostile(rng, scores, None, 0.7)
    n_classes = world.number((K,), 0.1)
    rest = pick(rng, ("spread", "drop", "other") if chance(rng, 0.1) else ("spread", "drop"))
    world.note("ids", ids)
    world.note("scores", scores)
    if isinstance(n_classes, float | int) and n_classes > 1e4:
        n_classes = K
    table = ps.TopK(ids, scores, n_classes, rest=rest)
    return _used(world, table)


@entry
def top_k_from_csr(world: World) -> Any:
    """Read a sparse matrix of listed scores."""
    rng = world.rng
    kept = world.y_proba * (rng.random(world.y_proba.shape) < 0.6)
    if chance(rng, world.often(0.5)):
        kept = pick(rng, (kept * 3, kept * np.nan, -kept, kept * 0, kept[:0], kept[:, :1]))
    matrix: Any = csr_array(kept)
    if chance(rng, world.often(0.3)):
        matrix = pick(rng, (matrix.tocoo(), matrix.tocsc(), kept, matrix > 0.5, None))
    world.note("matrix", matrix)
    return _used(world, ps.TopK.from_csr(matrix, rest=pick(rng, ("spread", "drop"))))


def _used(world: World, table: Any) -> Any:
    made = estimator(world, pick(world.rng, ("em", "map", "cm", "scm-l", "bbse", "na")))
    if made.name in ("em", "map", "na") and chance(world.rng, 0.5):
        made.fit(source_priors=world.source_priors(), classes=world.names)
    else:
        made.fit(world.val(), world.labels(), **world.source())
    found = made.estimate(table)
    adapted = found.adapt(table)
    again = made.estimate(adapted)
    return found, Proba(adapted), again


# Surfaces


@entry
def classifier(world: World) -> Any:
    """Wrap a classifier of scikit-learn."""
    rng = world.rng
    centres = rng.normal(size=(world.K, 2)) * 2
    X = centres[world.index] + rng.normal(size=(world.index.size, 2))
    X_target = centres[world.target_index] + rng.normal(size=(world.target_index.size, 2))
    calibrator = pick(rng, (None, None, ps.BCTS(), ps.TemperatureScaling(), "x"))
    prior_estimator = estimator(world, pick(rng, METHODS)) if chance(rng, 0.8) else None
    made = ps.PriorAdaptedClassifier(
        pick(rng, (GaussianNB(), LogisticRegression())),
        prior_estimator=prior_estimator,
        calibrator=calibrator if chance(rng, 0.5) else None,
        source_priors=world.priors() if chance(rng, 0.2) else None,
        cv=pick(rng, (2, 3, 5, 1, "x", "prefit") if chance(rng, 0.1) else (2, 3, 5)),
    )
    made.fit(world.note("X", X), world.labels())
    if chance(rng, world.often(0.3)):
        X_target = pick(rng, (X_target[:0], X_target * np.nan, X_target[:, :1], X_target[0]))
    made.adapt(world.note("X_target", X_target))
    made.predict(X)
    return {"target_priors_": made.target_priors_}, Proba(made.predict_proba(X_target))


@entry
def comparing(world: World) -> Any:
    """Compare some methods."""
    rng = world.rng
    methods = [pick(rng, METHODS) for _ in range(rng.integers(1, 3))]
    methods = pick(rng, (["nope"], [], "em", [None], 3)) if chance(rng, 0.05) else methods
    truth = world.labels(world.target_index) if chance(rng, 0.4) else None
    given = world.source()
    found = compare(world.val(), world.labels(), world.target(), truth, methods=methods, **given)
    found.table()
    return found


# Decisions, known error rates, target labels and costs

DECIDING = ("cm", "cm-l", "cm-m", "bbse", "rlls", "joint")


def _decided(world: World, name: str, index: np.ndarray) -> Any:
    """Return decisions for rows of these classes: a fifth of them wrong, or spoilt."""
    wrong = world.rng.random(index.size) < 0.2
    drawn = np.where(wrong, world.rng.integers(world.K, size=index.size), index)
    y_pred = np.asarray(world.names)[drawn]
    return world.note(name, inputs.hostile_labels(world.rng, y_pred, world.often(0.15)))


@entry
def decisions(world: World) -> Any:
    """Estimate from decisions without probabilities."""
    rng = world.rng
    made = estimator(world, pick(rng, METHODS if chance(rng, 0.1) else DECIDING))
    y_pred = _decided(world, "y_pred_val", world.index)
    made.fit(y_pred=y_pred, y=world.labels(), **world.source())
    options = interval_options(world) if chance(rng, 0.4) else {}
    return made.estimate(y_pred=_decided(world, "y_pred", world.target_index), **options)


@entry
def assess_decisions(world: World) -> Any:
    """Say what decisions without probabilities tell."""
    given = {
        "y_pred_val": _decided(world, "y_pred_val", world.index),
        "y_pred_target": _decided(world, "y_pred_target", world.target_index),
        "method": pick(world.rng, ("auto", *DECIDING)),
        **world.source(),
    }
    return ps.assess(y_val=world.labels(), random_state=0, **given).to_dict()


@entry
def known_rates(world: World) -> Any:
    """Estimate from known error rates or a table of counts."""
    rng = world.rng
    if chance(rng, 0.5):
        rates = {
            "sensitivity": world.number((0.5, 0.9, 1.0, 1)),
            "specificity": world.number((0.5, 0.95, 1.0, 1)),
        }
        if chance(rng, 0.5):
            rates["n_positive"] = world.number((1, 50, 1000))
            rates["n_negative"] = world.number((1, 50, 1000))
        confusion, K = ps.Confusion.from_rates(**world.note("rates", rates)), 2
    else:
        K = world.K
        table = rng.poisson(pick(rng, (0.5, 5, 100)), size=(K, K)) + 20 * np.eye(K, dtype=int)
        if chance(rng, world.often(0.5)):
            wrong = (table[:-1], -table, table * np.nan, table * 0, table.tolist(), "x", None)
            table = pick(rng, (*wrong, table / 3, table * 10**15, table[0]))
        confusion = ps.Confusion.from_counts(world.note("table", table), **world.classes())
    made = estimator(world, pick(rng, METHODS if chance(rng, 0.1) else DECIDING))
    made.fit(confusion=confusion, **({"source_priors": world.priors()} if K == world.K else {}))
    counts = rng.poisson(pick(rng, (0.3, 30, 1e6)), size=K)
    if chance(rng, world.often(0.3)):
        counts = pick(rng, (counts[:-1], counts * 0, -counts, counts * np.nan, "x", None))
    options = interval_options(world) if chance(rng, 0.5) else {}
    return made.estimate_counts(world.note("counts", counts), **options)


def _some_labels(world: World) -> tuple[Any, Any]:
    """Return labels of some target rows, and how the others are marked."""
    rng = world.rng
    some = np.asarray(world.names, dtype=object)[world.target_index]
    unlabelled = pick(rng, (None, None, None, -1, "", np.nan))
    some[rng.random(some.size) < pick(rng, (0.0, 0.5, 0.9, 1.0))] = unlabelled
    wrong = (some[:-1], None, "x", [some], some[:0], np.full(some.size, "nope", dtype=object))
    given = pick(rng, wrong) if chance(rng, world.often(0.2)) else pick(rng, (some, some.tolist()))
    return world.note("y_target", given), unlabelled


@entry
def prediction_powered(world: World) -> Any:
    """Correct shares by labels of some target rows."""
    rng = world.rng
    made = ps.PPI(weight=world.number((None, None, 0.0, 0.5, 1.0)))
    if chance(rng, 0.5):
        made.fit(classes=world.names)
    else:
        made.fit(world.val(), world.labels(), **world.source())
    y_target, unlabelled = _some_labels(world)
    given: dict[str, Any] = {"y_target": y_target, "unlabelled": unlabelled}
    if chance(rng, 0.3):
        given["sample_weight"] = world.weights(world.target_index.size)
    if chance(rng, 0.6):
        given["confidence_level"] = world.number((0.5, 0.95, 0.999))
    if chance(rng, 0.3):
        return made.estimate(y_pred=_decided(world, "y_pred", world.target_index), **given)
    return made.estimate(world.target(), **given)


@entry
def assess_labels(world: World) -> Any:
    """Say whether to adapt where some target rows have labels."""
    y_target, _ = _some_labels(world)
    method = pick(world.rng, ("auto", "em", "scm-l", "em-labels", "ppi"))
    given = {"y_target": y_target, "method": method, **world.source()}
    found = ps.assess(world.val(), world.labels(), world.target(), random_state=0, **given)
    return found.to_dict()


@entry
def labels_needed(world: World) -> Any:
    """Plan how many rows to label."""
    given: dict[str, Any] = {"width": world.number((0.001, 0.04, 0.5))}
    if chance(world.rng, 0.5):
        given["confidence_level"] = world.number((0.5, 0.95))
    if chance(world.rng, 0.6):
        given["priors"] = world.priors()
    if chance(world.rng, 0.5):
        given["confusion"] = ps.Confusion.from_arrays(
            world.y_proba_val, world.index, decision=pick(world.rng, ("hard", "soft"))
        )
    needed = ps.labels_needed(**world.note("given", given))
    if needed < 0 or (needed.with_predictions or 0) > needed:
        raise BadAnswerError(f"{needed} labels alone, {needed.with_predictions} with predictions")
    return None


def hostile_costs(world: World) -> Any:
    """Return a table of costs, as an array or by pairs of classes, or spoilt."""
    rng, K = world.rng, world.K
    table = rng.exponential(pick(rng, (1e-9, 1, 1e9)), size=(K, K)) * (1 - np.eye(K))
    if chance(rng, 0.4):
        a, b = rng.integers(K, size=2)
        pairs: Any = {(world.names[a], world.names[b]): float(rng.exponential())}
        if chance(rng, world.often(0.4)):
            pairs = pick(rng, ({}, {"x": 1}, {("x", "y"): 1}, {(world.names[0],) * 2: "x"}))
        return world.note("costs", pairs)
    if chance(rng, world.often(0.4)):
        wrong = (table * np.nan, -table, table[:-1], table[0], table + 1e308, "x", 3, table * 0)
        return world.note("costs", pick(rng, wrong))
    return world.note("costs", pick(rng, (table, table.tolist())))


@entry
def decide(world: World) -> Any:
    """Decide by cost, with and without the choice to abstain."""
    given = {"reject": world.number((None, 0.0, 0.3, 1e6)), **world.classes()}
    found = ps.decide(world.target(), hostile_costs(world), **given)
    if found.ndim != 1:
        raise BadAnswerError(f"decisions have {found.ndim} dimensions")
    return None


@entry
def assess_costs(world: World) -> Any:
    """Say whether adapting lowers a cost or serves another goal."""
    rng = world.rng
    method: Any = pick(rng, ("auto", "em", "scm-l"))
    given: dict[str, Any] = {"method": method, **world.source()}
    if chance(rng, 0.6):
        given["costs"] = hostile_costs(world)
    if chance(rng, 0.5):
        given["goal"] = pick(rng, ("accuracy", "balanced_accuracy", "log_loss", "other", None))
    found = ps.assess(world.val(), world.labels(), world.target(), random_state=0, **given)
    return found.to_dict(), Proba(found.adapt(world.y_proba))


@entry
def adapter(world: World) -> Any:
    """Export an adaptation as JSON, damage it, and use it."""
    rng = world.rng
    made = estimator(world, pick(rng, METHODS))
    made.fit(world.y_proba_val, world.labels(), **world.source())
    exported = made.estimate(world.y_proba).adapter
    if chance(rng, 0.3):
        exported = exported.with_costs(hostile_costs(world))
    fields = exported.to_dict()
    if chance(rng, world.often(0.6)):
        key = pick(rng, sorted(fields))
        values = (None, "x", -1, np.nan, [], [1.0], {}, True, [np.inf] * world.K)
        fields = {**fields, key: pick(rng, values)}
        fields = fields if chance(rng, 0.8) else {k: v for k, v in fields.items() if k != key}
    again = ps.Adapter.from_dict(world.note("fields", fields))
    adapted = again(world.target())
    again.decide(world.y_proba)
    return Proba(adapted)


@entry
def export_sql(world: World) -> Any:
    """Export an adaptation as SQL with any names, and run it where a database is at hand."""
    rng = world.rng
    made = estimator(world, pick(rng, ("em", "scm-l", "auto", "em-bcts", "bbse-s")))
    made.fit(world.y_proba_val, np.asarray(world.names)[world.index], **world.source())
    exported = made.estimate(world.y_proba).adapter
    table = pick(rng, ("scores", "some table", 'a"b', "x; DROP TABLE scores", ("main", "a.b")))
    columns: Any = [pick(rng, ("p", 'p"', "p'", "p--", "é")) + str(k) for k in range(world.K)]
    if chance(rng, world.often(0.3)):
        wrong = (columns[:-1], columns[:1] * world.K, "x", None, {}, [""] * world.K, ["a\0"])
        columns = pick(rng, wrong)
    world.note("columns", columns)
    dialect = pick(rng, ("ansi", "duckdb", "spark", "x", None))
    if not chance(rng, world.often(0.3)):
        dialect = pick(rng, ("ansi", "duckdb"))
    statement = exported.to_sql(table, columns, dialect)
    rows = world.y_proba[:20].astype(np.float64)
    rows /= rows.sum(axis=1, keepdims=True)  # what is left alone keeps its sum, in SQL it is 1
    found = _select(statement, table, columns, rows, dialect)
    if found is not None and not np.allclose(found, exported(rows), rtol=0, atol=1e-9):
        raise BadAnswerError("SQL and NumPy adapt rows differently")
    return None


def _select(
    statement: str, table: Any, columns: list[str], rows: np.ndarray, dialect: str
) -> np.ndarray | None:
    """Run a statement in SQLite, or in DuckDB if it is there; None if it cannot run."""
    # SQLite writes out what nested queries name: of 40 classes, gigabytes
    runs = {"ansi": len(columns) <= 5, "duckdb": find_spec("duckdb") is not None}
    if not runs.get(dialect):
        return None
    quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
    parts = (table,) if isinstance(table, str) else table
    parts = table.split(".") if isinstance(table, str) else parts
    named = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
    create = f"CREATE TABLE {named} ({', '.join(f'{name} DOUBLE' for name in quoted)})"
    insert = f"INSERT INTO {named} VALUES ({', '.join('?' * len(quoted))})"
    with closing(_connect(dialect)) as connection:
        connection.execute(create)
        connection.executemany(insert, rows.tolist())
        return np.array(connection.execute(statement).fetchall(), dtype=np.float64)


def _connect(dialect: str) -> Any:
    if dialect == "duckdb":
        import duckdb

        return duckdb.connect()
    connection = sqlite3.connect(":memory:")
    connection.create_function("LN", 1, lambda x: None if x is None else float(np.log(x)))
    connection.create_function("EXP", 1, lambda x: None if x is None else float(np.exp(x)))
    connection.create_function("GREATEST", -1, lambda *x: None if None in x else max(x))
    return connection


@entry
def export_others(world: World) -> Any:
    """Export an adaptation to JSON, ONNX and PyTorch, where they are installed."""
    rng = world.rng
    made = estimator(world, pick(rng, ("em", "scm-l", "auto", "em-bcts")))
    made.fit(world.y_proba_val, np.asarray(world.names)[world.index], **world.source())
    exported = made.estimate(world.y_proba).adapter
    if ps.Adapter.from_json(exported.to_json()) != exported:
        raise BadAnswerError("an adapter changed on its way through JSON")
    rows = world.y_proba[:20].astype(np.float32)
    if find_spec("onnxruntime"):
        import onnxruntime

        model = exported.to_onnx(precision=pick(rng, ("float64", "float32")))
        session = onnxruntime.InferenceSession(model.SerializeToString())
        adapted = session.run(["adapted"], {session.get_inputs()[0].name: rows})[0]
        if not np.allclose(adapted, exported(rows), rtol=0, atol=1e-3):
            raise BadAnswerError("ONNX and NumPy adapt rows differently")
    if find_spec("torch"):
        import torch

        adapted = exported.to_torch()(torch.tensor(rows.astype(np.float64))).numpy()
        if not np.allclose(adapted, exported(rows.astype(np.float64)), rtol=0, atol=1e-6):
            raise BadAnswerError("PyTorch and NumPy adapt rows differently")
    return None


@entry
def tensors(world: World) -> Any:
    """Estimate from and adapt tensors of the array API, good or spoilt."""
    xp = _array_api(world)
    made = estimator(world, pick(world.rng, METHODS))
    made.fit(world.y_proba_val, world.labels(), **world.source())
    with np.errstate(all="ignore"):  # a spoilt number may be too large for its type
        given = inputs.hostile(world.rng, world.y_proba, None, world.often(0.5))
        fits = type(given) is np.ndarray and given.dtype.kind in "fiu"
        values = (given if fits else world.y_proba).astype(pick(world.rng, ("f4", "f8")), order="C")
    target = xp.asarray(values)
    found = made.estimate(target)
    adapted = found.adapt(target)
    if type(adapted) is not type(target):
        raise BadAnswerError(f"tensors were adapted to {type(adapted).__name__}")
    return found, Proba(np.asarray(adapted))


def _array_api(world: World) -> Any:
    names = [name for name in ("array_api_strict", "torch") if find_spec(name)]
    return import_module(pick(world.rng, names)) if names else np


# History, accuracy and what goes before


def _history(world: World) -> tuple[Any, Any, Any]:
    """Return predictions, labels and groups of more rows than other worlds have."""
    rng = world.rng
    drawn = rng.integers(world.K, size=int(rng.integers(150, 700)))
    index = np.concatenate([np.arange(world.K), drawn])
    rows = world.rows("y_proba_val", inputs.predictions(rng, index, world.K))
    groups = np.arange(index.size) // 120
    groups = groups if chance(rng, 0.5) else hostile_groups(world, index.size)
    return rows, world.labels(index), world.note("groups", groups)


@entry
def backtest(world: World) -> Any:
    """Replay labelled history by group."""
    rng = world.rng
    options: dict[str, Any] = {"method": pick(rng, ("auto", "em", "scm-l", "mean"))}
    if chance(rng, 0.3):
        options["costs"] = hostile_costs(world)
    elif chance(rng, 0.3):
        options["goal"] = pick(rng, ("balanced_accuracy", "log_loss"))
    if chance(rng, 0.3):
        options["ordered"] = pick(rng, (True, False, None))
    given = {**world.classes(), **options, "random_state": world.seed()}
    return ps.backtest(*_history(world), **given)


@entry
def assess_history(world: World) -> Any:
    """Say whether to adapt, with groups of validation, and which rows to label."""
    rng = world.rng
    val, y, groups = _history(world)
    given: dict[str, Any] = {"groups_val": groups}
    if chance(rng, 0.3):
        given["assume_prior_shift"] = world.number((True, False))
    given |= {"method": pick(rng, ("auto", "em", "scm-l")), **world.source()}
    found = ps.assess(val, y, world.target(), random_state=0, **given)
    n = world.number((1, 5, 40))
    n = 40 if isinstance(n, float) and n > 1e6 else n
    rows = found.rows_to_label(world.target(), n=n, random_state=world.seed())
    if rows.size and (rows.min() < 0 or rows.max() > world.target_index.size):
        raise BadAnswerError("a row to label does not exist")
    return found.to_dict()


@entry
def expected_accuracy(world: World) -> Any:
    """Expect the accuracy on the target."""
    given: dict[str, Any] = {"confidence_level": world.number((0.5, 0.95)), **world.classes()}
    if chance(world.rng, 0.5):
        given["priors"] = world.priors()
    return ps.expected_accuracy(world.val(), world.labels(), world.target(), **given)


@entry
def renormalise(world: World) -> Any:
    """Divide rows by their sums."""
    scaled = world.y_proba * pick(world.rng, (1, 100, 1.0005, 0.98))
    return Proba(ps.renormalise(world.rows("y_proba", scaled), **world.classes()))


@entry
def join_labels(world: World) -> Any:
    """Join labels to rows by a key."""
    import pandas as pd

    rng, n = world.rng, world.index.size
    keys: Any = np.arange(n) if chance(rng, 0.5) else np.array([f"row {i}" for i in range(n)])
    frame = pd.DataFrame(world.y_proba_val).rename(columns=str).assign(key=keys)
    names = np.asarray(world.names)[world.index]
    labels = pd.DataFrame({"key": keys, "label": names}).sample(frac=1, random_state=world.seed())
    if chance(rng, world.often(0.6)):
        spoil = (
            lambda f: f.iloc[:-1],
            lambda f: pd.concat([f, f]),
            lambda f: f.rename(columns={"key": "other"}),
            lambda f: f.assign(key=None),
            lambda f: f.drop(columns="label"),
            lambda f: f.iloc[:0],
            lambda f: f.assign(key=f.key.astype(str)),
            lambda _: None,
            lambda f: f.label.tolist(),
        )
        labels = pick(rng, spoil)(labels)
    world.note("labels", labels)
    on = pick(rng, ("key", None, "nope", 3) if chance(rng, world.often(0.3)) else ("key", None))
    joined = ps.join_labels(frame, labels, on)
    if len(joined) != n:
        raise BadAnswerError(f"{n} rows were joined to {len(joined)}")
    return None

"""The paper's best practice on tasks whose priors are imbalanced by nature.

    python -m lab applications [--data ../shared/data] [--runs lab/outputs]
        [--only web known estimated few]

The data of the paper's two applications (learning from web images, plant species) are not here.
Their settings are imitated: networks that learned from a long tail with wrong labels, calibrated on
clean validation and adapted to a known uniform target; and EM on calibrated outputs with fewer
samples than classes. Nothing is tuned on the targets; losses are shown like gains.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import softmax

import priorshift as ps
from lab.paper.distributions import distribution, largest_sample
from lab.paper.families import held_out, plankton, read_votes, votes_as_logits
from lab.paper.outputs import Part, StoredOutputs
from lab.pools import DATA, OUTPUTS, require_data
from lab.show import markdown, mean_and_error, parse

CALIBRATORS: dict[str, Callable[[], ps.BCTS] | None] = {
    "none": None,
    "TS": partial(ps.TemperatureScaling, balance="weights", logits=True),
    "BCTS": partial(ps.BCTS, balance="weights", logits=True),
    "BCTS, released": partial(ps.BCTS, solver="released", logits=True),
}
METHODS = {
    "EM, text": partial(ps.EM, solver="paper"),
    "EM, released": partial(ps.EM, solver="released"),
    "EM": ps.EM,
    "MAP": ps.MAP,
    "SCM-L": ps.SCML,
    "SCM-M": ps.SCMM,
    "RLLS": ps.RLLS,
    "Auto": ps.Auto,
}
PARTS = ("web", "known", "estimated", "few")
N_SAMPLES, N_PLOTS, N_DRAWS = 200, 25, 10


def main(arguments: list[str] | None = None) -> None:
    """Run the parts that are asked for and have data."""
    only = {"nargs": "+", "choices": PARTS}
    options = parse(__doc__, arguments, data=DATA, runs=OUTPUTS, only=only)
    warnings.simplefilter("ignore", UserWarning)
    asked = set(options.only or PARTS)
    if options.only is None and not options.data.is_dir():
        print(f"{options.data} is absent: only the part 'web' is run.", file=sys.stderr)
        asked = {"web"}
    for part in sorted(asked - {"web"}):
        require_data(part, options.data)
    parts = []
    if "web" in asked:
        parts += ["## A long tail with wrong labels, and a known uniform target"]
        parts += [web_table(options.runs)]
    applications = list(load(options.data)) if {"known", "estimated"} & asked else []
    if "known" in asked:
        parts += ["## A known uniform target: calibrate, adapt, estimate nothing"]
        parts += [known_table(applications)]
    if "estimated" in asked:
        parts += ["## A uniform target that nobody knows of"]
        parts += [estimated_table(application) for application in applications]
    if "few" in asked:
        parts += [f"## {N_SAMPLES} samples of 1000 classes, priors of rain-forest plots"]
        parts += [few_samples_table(options.data)]
    print("\n\n".join(parts))


def load(data: Path) -> Iterator[StoredOutputs]:
    """Yield plankton images and two sets of intent texts.

    The texts' training outputs are out-of-fold; banking77 has no validation, so these serve as it.
    """
    yield from plankton(data, 1, least=1)
    for name in ("clinc150", "banking77"):
        with np.load(data / f"{name}.npz") as z:
            part = {
                key.removesuffix("_logits"): Part(
                    z[key].astype(np.float32), z[f"{key.split('_')[0]}_y"]
                )
                for key in z
                if key.endswith("_logits")
            }
        train = part["train_oof"]
        yield StoredOutputs(name, train, part.get("val", train), part["test"])


def calibrated(kind: str, val: Part, frequencies: np.ndarray):
    """Return a function from logits to probabilities, calibrated as the paper does."""
    make = CALIBRATORS[kind]
    if make is None:
        return partial(softmax, axis=1)
    given = {"source_label_priors": frequencies, "classes": np.arange(frequencies.size)}
    return make().fit(val.logits, val.y, **given).predict_proba


def with_known_priors(one: StoredOutputs, kind: str) -> list[np.ndarray]:
    """Return what is right unadapted, and adapted with either estimate of the trained priors."""
    frequencies = one.train.label_frequencies()
    proba = calibrated(kind, one.val, frequencies)
    y_proba, uniform = proba(one.test.logits), np.full(one.n_classes, 1 / one.n_classes)
    sources = (frequencies, ps.priors_from_predictions(proba(one.train.logits)))
    rows = [y_proba, *(ps.adapt_proba(y_proba, source, uniform) for source in sources)]
    return [each.argmax(axis=1) == one.test.y for each in rows]


def web_table(folder: Path) -> str:
    """Show what the paper's recipe for web images gains: BCTS on clean validation, then adapt."""
    paths = sorted(folder.rglob("*-noise*.npz"))
    if not paths:
        raise ValueError(f"web needs networks with label noise, and {folder} has none: see --runs.")
    networks = [StoredOutputs.load(path) for path in paths]
    columns = ["unadapted", "trained priors by labels", "gain", "by predictions", "gain"]
    rows = []
    for kind in CALIBRATORS:
        found = []
        for one in networks:
            right = [
                *with_known_priors(one, kind),
                one.retrained.logits.argmax(axis=1) == one.test.y,
            ]
            found.append([100 * each.mean() for each in right])
        before, by_labels, by_predictions, retrained = np.array(found).T
        cells = [f"{before.mean():.2f}"]
        for after in (by_labels, by_predictions):
            cells += [f"{after.mean():.2f}", mean_and_error(after - before)]
        last = mean_and_error(retrained - by_predictions)
        rows.append([kind, *cells, f"{retrained.mean():.2f}", last])
    header = ["calibration", *columns, "re-trained", "re-trained - adapted"]
    names = sorted({path.stem.rpartition("-")[0] for path in paths})
    return (
        f"{markdown(header, rows)}\n\n{len(networks)} networks ({', '.join(names)}); accuracy on "
        "the clean, uniform test set; errors over networks."
    )


def known_table(applications: list[StoredOutputs]) -> str:
    """Show accuracy at equal priors, the mean recall of classes, before and after adaptation."""
    rows = []
    for one in applications:
        for kind in CALIBRATORS:
            before, *afters = with_known_priors(one, kind)
            cells = [f"{100 * recall(before, one.test.y)[0]:.2f}"]
            for after in afters:
                gain, error = recall(after * 1.0 - before, one.test.y)
                cells += [f"{100 * recall(after, one.test.y)[0]:.2f}"]
                cells += [f"{100 * gain:+.2f} ± {100 * error:.2f}"]
            rows.append([one.name, one.n_classes, kind, *cells])
    by = ("labels", "predictions")
    gains = (name for how in by for name in (f"trained priors by {how}", "gain"))
    return markdown(["data", "K", "calibration", "unadapted", *gains], rows)


def recall(values: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the mean of class means, and its standard error."""
    count = np.bincount(y)
    mean = np.bincount(y, values) / count
    spread = np.bincount(y, (values - mean[y]) ** 2) / np.maximum(count - 1, 1)
    return float(mean.mean()), float(np.sqrt((spread / count).sum()) / count.size)


def gains_of_methods(
    val: Part, source: Part, targets: Callable[[Callable], Iterator[tuple[np.ndarray, np.ndarray]]]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield by calibration, a row per target: unadapted accuracy, then gains, in points.

    Columns are the methods, and the true priors; `targets` draws them with calibrated outputs.
    """
    frequencies = source.label_frequencies()
    for kind in CALIBRATORS:
        proba = calibrated(kind, val, frequencies)
        given = {
            "source_priors": ps.priors_from_predictions(proba(source.logits)),
            "source_label_priors": frequencies,
            "classes": np.arange(frequencies.size),
        }
        fitted = [make().fit(proba(val.logits), val.y, **given) for make in METHODS.values()]
        found = []
        for y_proba, y in targets(proba):
            before = 100 * (y_proba.argmax(axis=1) == y).mean()
            truth = np.bincount(y, minlength=frequencies.size) / y.size
            after = [estimator.adapt(y_proba) for estimator in fitted]
            after.append(ps.adapt_proba(y_proba, given["source_priors"], truth))
            gains = (100 * (adapted.argmax(axis=1) == y).mean() - before for adapted in after)
            found.append([before, *gains])
        yield kind, np.array(found)


def estimated_table(one: StoredOutputs) -> str:
    """Show gains of every method on uniform targets drawn from test, by calibration."""
    y = one.test.y
    drawn = [uniform_rows(y, np.random.default_rng(seed)) for seed in range(N_DRAWS)]

    def targets(proba: Callable) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        y_proba = proba(one.test.logits)
        return ((y_proba[rows], y[rows]) for rows in drawn)

    rows = [
        [kind, f"{found[:, 0].mean():.2f}", *map(mean_and_error, found.T[1:])]
        for kind, found in gains_of_methods(one.val, one.train, targets)
    ]
    header = [f"{one.name}, calibration", "unadapted", *METHODS, "true priors"]
    said = f"{N_DRAWS} targets of {drawn[-1].size} rows; gains with standard errors."
    return f"{markdown(header, rows)}\n\n{said}"


def uniform_rows(y: np.ndarray, rng: np.random.Generator, most: int = 20) -> np.ndarray:
    """Draw as many rows of every class: 80 % of the rarest's, or `most` with repetition."""
    if np.bincount(y).min() >= most:
        return largest_sample(y, distribution("UNI", int(y.max()) + 1), 0.8, rng)
    return np.concatenate([rng.choice(np.flatnonzero(y == k), most) for k in np.unique(y)])


def few_samples_table(data: Path) -> str:
    """Show gains with 200 samples and 1000 classes, of which a plot has 60 to 110 species."""
    votes, y = read_votes(data)
    held = held_out(y, 0.5, np.random.default_rng(0))
    val, pool = Part(votes_as_logits(votes[held]), y[held]), np.flatnonzero(~held)
    with np.load(data / "bci_tree_counts.npz") as z:
        counts = z["counts"][:N_PLOTS]

    def targets(proba: Callable) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for plot, count in enumerate(counts):
            rows = pool[rows_like(count, y[pool], np.random.default_rng(plot))]
            yield proba(votes_as_logits(votes[rows])), y[rows]

    gains, harm = [], []
    for kind, found in gains_of_methods(val, val, targets):
        gains.append([kind, f"{found[:, 0].mean():.2f}", *map(mean_and_error, found.T[1:])])
        harm.append([kind, *(f"{n} of {N_PLOTS}" for n in (found[:, 1:] < 0).sum(axis=0))])
    columns = [*METHODS, "true priors"]
    worse = markdown(["plots made worse, by calibration", *columns], harm)
    return f"{markdown(['calibration', 'unadapted', *columns], gains)}\n\n{worse}"


def rows_like(counts: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw rows whose classes are the species of a plot, each species a random class."""
    classes = rng.permutation(1000)[: counts.size]
    drawn = classes[rng.choice(counts.size, N_SAMPLES, p=counts / counts.sum())]
    return np.array([rng.choice(np.flatnonzero(y == k)) for k in drawn])

"""The paper's best practice on tasks whose priors are imbalanced by nature.

python -m benchmarks.applications [--data ../shared/data] [--runs benchmarks/outputs] [--plots 25]
    [--only web known estimated few] [--output applications.md]

The data of the paper's two applications (learning from web images, plant species) are not here.
Their settings are imitated: networks that learned from a long tail with wrong labels, calibrated on
clean validation and adapted to a known uniform target; and EM on calibrated outputs with fewer
samples than classes. Nothing is tuned on the targets; losses are shown like gains.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import softmax

import priorshift as ps
from benchmarks.networks import OUTPUTS
from benchmarks.shared_outputs import (
    DATA,
    as_float,
    held_out,
    plankton,
    read_votes,
    votes_as_logits,
)
from priorshift.files import write_text
from priorshift.reproduction import Part, StoredOutputs, distribution, largest_sample

CALIBRATORS = {
    "none": None,
    "TS": partial(ps.TemperatureScaling, balance="weights"),
    "BCTS": partial(ps.BCTS, balance="weights"),
    "BCTS, released": partial(ps.BCTS, solver="released"),
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
N_SAMPLES = 200
N_DRAWS = 10


@dataclass(frozen=True, eq=False)
class Application:
    """A classifier that learned from imbalanced data, and its test set."""

    name: str
    train: Part
    val: Part
    test: Part

    @property
    def n_classes(self) -> int:
        return self.train.logits.shape[1]


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore", UserWarning)
    parts = []
    if "web" in options.only:
        parts += ["## A long tail with wrong labels, and a known uniform target"]
        parts += [web_table(options.runs)]
    if not options.data.is_dir():
        print(f"{options.data} is absent: only the part 'web' can be run.", file=sys.stderr)
        options.only = []
    applications = list(load(options.data)) if {"known", "estimated"} & set(options.only) else []
    if "known" in options.only:
        parts += ["## A known uniform target: calibrate, adapt, estimate nothing"]
        parts += [known_table(applications)]
    if "estimated" in options.only:
        parts += ["## A uniform target that nobody knows of"]
        parts += [estimated_table(application) for application in applications]
    if "few" in options.only:
        parts += [f"## {N_SAMPLES} samples of 1000 classes, priors of rain-forest plots"]
        parts += [few_samples_table(options.data, options.plots)]
    text = "\n\n".join(parts)
    print(text)
    if options.output:
        write_text(options.output, text + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of stored outputs")
    parser.add_argument(
        "--runs", type=Path, default=OUTPUTS, help="networks that were trained here"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run")
    parser.add_argument("--plots", type=int, default=25, help="how many of the 50 plots")
    parser.add_argument("--output", type=Path, help="Markdown file")
    return parser.parse_args()


def load(data: Path) -> Iterator[Application]:
    """Yield plankton images and two sets of intent texts.

    The texts' training outputs are out-of-fold; banking77 has no validation, so these serve as it.
    """
    (outputs,) = plankton(data, 1, least=1)
    yield Application("plankton", outputs.train, outputs.val, outputs.test)
    for name in ("clinc150", "banking77"):
        with np.load(data / f"{name}.npz") as z:
            train = Part(as_float(z["train_oof_logits"]), z["train_y"])
            val = Part(as_float(z["val_logits"]), z["val_y"]) if "val_y" in z else train
            yield Application(name, train, val, Part(as_float(z["test_logits"]), z["test_y"]))


def calibrated(kind: str, val: Part, frequencies: np.ndarray):
    """Return a function from logits to probabilities, calibrated as the paper does."""
    if kind == "none":
        return lambda logits: softmax(logits, axis=1)
    given = {"source_label_priors": frequencies, "classes": np.arange(frequencies.size)}
    return CALIBRATORS[kind]().fit(val.logits, val.y, **given).predict_proba


def web_table(folder: Path) -> str:
    """Show what the paper's recipe for web images gains: BCTS on clean validation, then adapt."""
    paths = sorted(folder.rglob("*-noise*.npz"))
    if not paths:
        return f"There is no network with label noise in {folder}."
    networks = [StoredOutputs.load(path) for path in paths]
    columns = ["unadapted", "trained priors by labels", "gain", "by predictions", "gain"]
    head = ["calibration", *columns, "re-trained", "re-trained - adapted"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for kind in CALIBRATORS:
        found = np.array([recipe(one, kind) for one in networks])
        before, by_labels, by_predictions, retrained = found.T
        cells = [
            f"{before.mean():.2f}",
            f"{by_labels.mean():.2f}",
            with_error(by_labels - before),
            f"{by_predictions.mean():.2f}",
            with_error(by_predictions - before),
            f"{retrained.mean():.2f}",
            with_error(retrained - by_predictions),
        ]
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    names = sorted({path.stem.rpartition("-")[0] for path in paths})
    return "\n".join([*lines, "", f"{len(networks)} networks ({', '.join(names)}); accuracy on the "
                      "clean, uniform test set; errors over networks."])  # fmt: skip


def recipe(outputs: StoredOutputs, kind: str) -> list[float]:
    """Return accuracy unadapted, adapted with either estimate of trained priors, re-trained."""
    frequencies = outputs.train.label_frequencies()
    proba = calibrated(kind, outputs.val, frequencies)
    y_proba, y = proba(outputs.test.logits), outputs.test.y
    uniform = np.full(outputs.n_classes, 1 / outputs.n_classes)
    sources = (frequencies, ps.priors_from_predictions(proba(outputs.train.logits)))
    scores = [y_proba, *(ps.adapt_proba(y_proba, source, uniform) for source in sources)]
    scores.append(outputs.retrained.logits)
    return [100 * float((each.argmax(axis=1) == y).mean()) for each in scores]


def with_error(differences: np.ndarray) -> str:
    """Show a mean with its standard error."""
    error = differences.std(ddof=1) / np.sqrt(differences.size)
    return f"{differences.mean():+.2f} ± {error:.2f}"


def known_table(applications: list[Application]) -> str:
    """Show accuracy at equal priors, the mean recall of classes, before and after adaptation."""
    lines = [
        "| data | K | calibration | unadapted | trained priors by labels | gain "
        "| trained priors by predictions | gain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in applications:
        uniform = np.full(one.n_classes, 1 / one.n_classes)
        frequencies = one.train.label_frequencies()
        for kind in CALIBRATORS:
            proba = calibrated(kind, one.val, frequencies)
            y_proba = proba(one.test.logits)
            mean = ps.priors_from_predictions(proba(one.train.logits))
            before = y_proba.argmax(axis=1) == one.test.y
            cells = [
                one.name,
                str(one.n_classes),
                kind,
                f"{100 * recall(before, one.test.y)[0]:.2f}",
            ]
            for source in (frequencies, mean):
                after = ps.adapt_proba(y_proba, source, uniform).argmax(axis=1) == one.test.y
                gain, error = recall(after * 1.0 - before, one.test.y)
                cells += [f"{100 * recall(after, one.test.y)[0]:.2f}"]
                cells += [f"{100 * gain:+.2f} ± {100 * error:.2f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def recall(values: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the mean of class means, and its standard error."""
    count = np.bincount(y)
    mean = np.bincount(y, values) / count
    spread = np.bincount(y, (values - mean[y]) ** 2) / np.maximum(count - 1, 1)
    return float(mean.mean()), float(np.sqrt((spread / count).sum()) / count.size)


def estimated_table(one: Application) -> str:
    """Show gains of every method on uniform targets drawn from test, by calibration."""
    frequencies = one.train.label_frequencies()
    lines = [
        f"| {one.name}, calibration | unadapted | " + " | ".join(METHODS) + " | true priors |",
        "|---" * (3 + len(METHODS)) + "|",
    ]
    for kind in CALIBRATORS:
        proba = calibrated(kind, one.val, frequencies)
        y_proba_val, y_proba = proba(one.val.logits), proba(one.test.logits)
        given = {
            "source_priors": ps.priors_from_predictions(proba(one.train.logits)),
            "source_label_priors": frequencies,
            "classes": np.arange(one.n_classes),
        }
        fitted = {name: fit(name, y_proba_val, one.val.y, given) for name in METHODS}
        gains = []
        for seed in range(N_DRAWS):
            rows = uniform_rows(one.test.y, np.random.default_rng(seed))
            gains.append(gains_on(y_proba[rows], one.test.y[rows], fitted, given))
        cells = [f"{x[0]:.2f}" if at == 0 else f"{x[0]:+.2f} ± {x[1]:.2f}"
                 for at, x in enumerate(zip(*summary(gains), strict=True))]  # fmt: skip
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    size = rows.size
    return "\n".join([*lines, "", f"{N_DRAWS} targets of {size} rows; gains with standard errors."])


def uniform_rows(y: np.ndarray, rng: np.random.Generator, most: int = 20) -> np.ndarray:
    """Draw as many rows of every class: 80 % of the rarest's, or `most` with repetition."""
    if np.bincount(y).min() >= most:
        return largest_sample(y, distribution("UNI", int(y.max()) + 1), 0.8, rng)
    return np.concatenate([rng.choice(np.flatnonzero(y == k), most) for k in np.unique(y)])


def fit(name: str, y_proba: np.ndarray, y: np.ndarray, given: dict) -> ps.PriorEstimator:
    return METHODS[name]().fit(y_proba, y, **given)


def gains_on(y_proba: np.ndarray, y: np.ndarray, fitted: dict, given: dict) -> list[float]:
    """Return the unadapted accuracy, then what methods and true priors gain, in points."""
    before = 100 * (y_proba.argmax(axis=1) == y).mean()
    truth = np.bincount(y, minlength=y_proba.shape[1]) / y.size
    known = ps.adapt_proba(y_proba, given["source_priors"], truth)
    after = [*(est.adapt(y_proba) for est in fitted.values()), known]
    return [before, *(100 * (adapted.argmax(axis=1) == y).mean() - before for adapted in after)]


def summary(gains: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    found = np.array(gains)
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))


def few_samples_table(data: Path, n_plots: int) -> str:
    """Show gains with 200 samples and 1000 classes, of which a plot has 60 to 110 species."""
    votes, y = read_votes(data)
    held = held_out(y, 0.5, np.random.default_rng(0))
    val = Part(votes_as_logits(votes[held]), y[held])
    pool = np.flatnonzero(~held)
    with np.load(data / "bci_tree_counts.npz") as z:
        counts = z["counts"][:n_plots]
    frequencies = val.label_frequencies()
    columns = [*METHODS, "true priors"]
    head = "| calibration | unadapted | " + " | ".join(columns) + " |"
    lines, harm = [head, "|---" * (2 + len(columns)) + "|"], []
    for kind in CALIBRATORS:
        proba = calibrated(kind, val, frequencies)
        y_proba_val = proba(val.logits)
        given = {
            "source_priors": ps.priors_from_predictions(y_proba_val),
            "source_label_priors": frequencies,
            "classes": np.arange(1000),
        }
        fitted = {name: fit(name, y_proba_val, val.y, given) for name in METHODS}
        gains = []
        for plot, count in enumerate(counts):
            rows = pool[rows_like(count, y[pool], np.random.default_rng(plot))]
            y_proba = proba(votes_as_logits(votes[rows]))
            gains.append(gains_on(y_proba, y[rows], fitted, given))
        mean, error = summary(gains)
        cells = [f"{m:+.2f} ± {e:.2f}" for m, e in zip(mean[1:], error[1:], strict=True)]
        lines.append(f"| {kind} | {mean[0]:.2f} | " + " | ".join(cells) + " |")
        worse = (np.array(gains)[:, 1:] < 0).sum(axis=0)
        harm.append(f"| {kind} | " + " | ".join(f"{n} of {n_plots}" for n in worse) + " |")
    head = "| plots made worse, by calibration | " + " | ".join(columns) + " |"
    return "\n".join([*lines, "", head, "|---" * (1 + len(columns)) + "|", *harm])


def rows_like(counts: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw rows whose classes are the species of a plot, each species a random class."""
    classes = rng.permutation(1000)[: counts.size]
    drawn = classes[rng.choice(counts.size, N_SAMPLES, p=counts / counts.sum())]
    return np.array([rng.choice(np.flatnonzero(y == k)) for k in drawn])


if __name__ == "__main__":
    main()

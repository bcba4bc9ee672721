"""Train on long-tailed digits, adapt to balanced ones, and compare every method.

python examples/digits.py
"""

import time
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import priorshift as ps

SEED = 0
IMBALANCE = 50.0
N_VALIDATION = 25


def main() -> None:
    """Run the comparison and print it as a table."""
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    X, y, train, validation, target = split_digits()
    model = LogisticRegression(max_iter=2000).fit(X[train], y[train])
    y_proba_val, y_proba = model.predict_proba(X[validation]), model.predict_proba(X[target])
    source = ps.priors_from_predictions(model.predict_proba(X[train]))
    truth = ps.priors_from_labels(y[target], classes=model.classes_)

    table = Table(title=f"Digits, trained long-tailed ({IMBALANCE:.0f}:1), target balanced")
    for column in (
        "method",
        "accuracy %",
        "gain",
        "L1 error of priors",
        "status",
        "gap",
        "time ms",
    ):
        table.add_column(column, justify="left" if column in ("method", "status") else "right")
    before = accuracy(y_proba, y[target])
    for name in ps.available_estimators():
        start = time.perf_counter()
        estimator = ps.get_estimator(name).fit(y_proba_val, y[validation], source_priors=source)
        shift = estimator.estimate(y_proba)
        elapsed = time.perf_counter() - start
        after = accuracy(shift.adapt(y_proba), y[target])
        table.add_row(
            name,
            f"{after:.2f}",
            f"{after - before:+.2f}",
            f"{np.abs(shift.priors - truth).sum():.3f}",
            shift.status,
            "" if shift.gap is None else f"{shift.gap:.1e}",
            f"{1000 * elapsed:.1f}",
        )
    oracle = accuracy(ps.adapt_proba(y_proba, source, truth), y[target])
    table.add_row("oracle", f"{oracle:.2f}", f"{oracle - before:+.2f}", "0.000", "", "", "")
    Console().print(table)


def split_digits() -> tuple[np.ndarray, ...]:
    """Cut the digits into a long-tailed training set, a small validation set and the rest."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(SEED)
    train, validation, target = [], [], []
    for digit in range(10):
        rows = rng.permutation(np.flatnonzero(y == digit))
        n_train = int(90 * IMBALANCE ** (-digit / 9))
        validation.append(rows[:N_VALIDATION])
        target.append(rows[N_VALIDATION : N_VALIDATION + 55])
        train.append(rows[-n_train:])
    return X / 16, y, *(np.concatenate(part) for part in (train, validation, target))


def accuracy(y_proba: np.ndarray, y: np.ndarray) -> float:
    """Return the accuracy in per cent."""
    return 100 * float((y_proba.argmax(axis=1) == y).mean())


if __name__ == "__main__":
    main()

"""Train on long-tailed digits, adapt to balanced ones, and compare every method.

python examples/digits.py
"""

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import priorshift as ps
from priorshift.compare import compare

SEED = 0
IMBALANCE = 50.0
N_VALIDATION = 25


def main() -> None:
    """Compare all methods, and the true shares."""
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    X, y, train, validation, target = split_digits()
    model = LogisticRegression(max_iter=2000).fit(X[train], y[train])
    y_proba_val, y_proba = model.predict_proba(X[validation]), model.predict_proba(X[target])
    source = ps.priors_from_predictions(model.predict_proba(X[train]))
    methods = ps.available_estimators()
    given = {"methods": methods, "source_priors": source, "classes": model.classes_}
    print(compare(y_proba_val, y[validation], y_proba, y[target], **given))
    truth = ps.priors_from_labels(y[target], classes=model.classes_)
    right = ps.adapt_proba(y_proba, source, truth).argmax(axis=1) == y[target]
    print(f"With the true shares, accuracy would be {right.mean():.1%}.")


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


if __name__ == "__main__":
    main()

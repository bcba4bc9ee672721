"""Class shares by a published protocol: 14 UCI sets, bags of 500 rows, shares drawn uniformly.

Outputs are those of tuned logistic regressions; validation is predicted out of fold. The error is
the mean absolute difference of shares over classes, bags and sets. Published figures are those of
pglez82/emq-stabilization (2026), 1000 bags a set, with classifiers of their own.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lab.peers import plain_em
from lab.pools import stored
from lab.shifts import seeded
from lab.show import markdown

BAG_ROWS = 500
BY_HAND = "EM by hand"
PUBLISHED = {
    "abalone": (0.0707, 0.0746, 0.0510),
    "chess": (0.0356, 0.0352, 0.0302),
    "cmc": (0.0946, 0.1126, 0.1050),
    "digits": (0.0027, 0.0027, 0.0027),
    "hand_digits": (0.0029, 0.0029, 0.0029),
    "image_seg": (0.0050, 0.0053, 0.0050),
    "letter": (0.0054, 0.0055, 0.0051),
    "mhr": (0.0594, 0.0604, 0.0553),
    "molecular": (0.0085, 0.0079, 0.0083),
    "nursery": (0.0058, 0.0058, 0.0058),
    "page_block": (0.0244, 0.0206, 0.0237),
    "satellite": (0.0095, 0.0098, 0.0093),
    "wine-quality": (0.0764, 0.0774, 0.0634),
    "yeast": (0.0439, 0.0455, 0.0425),
}
"""The errors of EM, of EM after BCTS, and of the best stabilised EM."""

Bag = tuple[np.ndarray, np.ndarray]


def published_protocol(folder: Path, methods: list[str], n_bags: int) -> str:
    """Return a table: one row per set, and their mean."""
    names = [BY_HAND, *methods]
    found = {file.stem: errors_on(file, methods, n_bags) for file in sorted(folder.glob("*.npz"))}
    rows = [[name, *numbers(PUBLISHED[name]), *numbers(row)] for name, row in found.items()]
    means = np.mean([[*PUBLISHED[name], *row] for name, row in found.items()], axis=0)
    rows.append(["mean", *numbers(means)])
    header = ["set", "published EM", "published EM, BCTS", "published smoothed EM", *names]
    title = f"**Mean absolute error of shares, {n_bags} bags a set**"
    return f"{title}\n\n{markdown(header, rows)}"


def numbers(values) -> list[str]:
    return [f"{value:.4f}" for value in values]


def errors_on(file: Path, methods: list[str], n_bags: int) -> list[float]:
    """Return the mean error on one set: of EM by hand, then of each method."""
    (val, y_val), (pool, y) = (stored(file, part) for part in ("val", "test"))
    drawn = list(bags(y, pool.shape[1], n_bags))
    labels = np.bincount(y_val, minlength=pool.shape[1]) / y_val.size
    errors = [error(plain_em(pool[rows], labels, least=11), truth) for rows, truth in drawn]
    found = [np.mean(errors)]
    for method in methods:
        estimator = seeded(method).fit(val, y_val, source_priors=val.mean(axis=0))
        errors = [error(estimator.estimate(pool[rows]).priors, truth) for rows, truth in drawn]
        found.append(np.mean(errors))
    return [float(value) for value in found]


def error(priors: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(priors - truth).mean())


def bags(y: np.ndarray, n_classes: int, n_bags: int) -> Iterator[Bag]:
    """Draw rows and their class shares; rows repeat only where a class has too few."""
    rng = np.random.default_rng(1)
    members = [np.flatnonzero(y == k) for k in range(n_classes)]
    for _ in range(n_bags):
        wanted = rng.multinomial(BAG_ROWS, rng.dirichlet(np.ones(n_classes)))
        rows = [
            rng.choice(of_class, n, replace=n > of_class.size)
            for of_class, n in zip(members, wanted, strict=True)
        ]
        yield np.concatenate(rows), wanted / BAG_ROWS

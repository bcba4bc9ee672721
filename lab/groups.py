"""The error of groups' priors: each group alone, one estimate for all, and pooled.

python -m lab groups [--groups 10000] [--rows 1000000] [--classes 20]
"""

import warnings

import numpy as np

import priorshift as ps
from lab.show import head, parse, row
from lab.worlds import class_means, draw, tail

METHODS = ("scm-l", "cm-l", "scm", "em")


def main(arguments: list[str] | None = None) -> None:
    """Simulate groups of 1 to some hundreds of rows, each with priors of its own; print a table."""
    options = parse(__doc__, arguments, groups=10_000, rows=1_000_000, classes=20)
    G, n, K = options.groups, options.rows, options.classes
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    warnings.simplefilter("ignore", ps.ConvergenceWarning)
    rng = np.random.default_rng(0)
    means, source = class_means(K, rng), tail(K, 100.0)
    y_val = rng.integers(K, size=200 * K)
    y_proba_val = draw(means, source, y_val, rng)
    truth = rng.dirichlet(20 * rng.dirichlet(np.full(K, 3.0)), G)
    groups = rng.choice(G, n, p=rng.dirichlet(np.full(G, 1.0)))
    groups[:G] = np.arange(G)  # none is empty
    y = np.minimum((rng.random((n, 1)) > truth.cumsum(axis=1)[groups]).sum(axis=1), K - 1)
    y_proba = draw(means, source, y, rng)
    title = f"{G:,} groups, {n:,} rows, {K} classes: root mean squared error of priors (L2)"
    columns = ("each group alone", "one estimate for all", "pooled", "pooling (truth: 20)")
    head(title, "method", *columns)
    for method in METHODS:
        estimator = ps.get_estimator(method).fit(y_proba_val, y_val, source_priors=source)
        alone, pooled = (
            ps.estimate_groups(estimator, y_proba, groups, pooling=how) for how in (None, "auto")
        )
        errors = (
            np.sqrt(((priors - truth) ** 2).sum(axis=1).mean())
            for priors in (alone.priors, alone.whole.priors, pooled.priors)
        )
        row(method, *(f"{error:.3f}" for error in errors), f"{pooled.pooling:.1f}")

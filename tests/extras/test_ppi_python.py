"""PPI against ppi-python, the implementation of the method's own authors, class by class."""

import numpy as np
import pytest

import priorshift as ps

ppi_py = pytest.importorskip("ppi_py", reason="pip install ppi-python to compare with it")

CLASSES = ["a", "b", "c"]


def target(seed, n=4000, n_labelled=300):
    """Return predictions that are wrong in their own way, and labels of some rows."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    y_proba = rng.dirichlet([1, 1, 1], size=n) + rng.uniform(0.2, 1.5) * np.eye(3)[y]
    y_proba /= y_proba.sum(axis=1, keepdims=True)
    y_target = np.full(n, None, dtype=object)
    rows = rng.choice(n, n_labelled, replace=False)
    y_target[rows] = np.array(CLASSES)[y[rows]]
    return y_proba, y_target, np.sort(rows), y


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weight", [None, 0.0, 0.4, 1.0])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_point_and_interval_are_those_of_ppi_python(seed, weight, level):
    y_proba, y_target, rows, y = target(seed)
    others = np.setdiff1d(np.arange(y.size), rows)
    ppi = ps.PPI(weight=weight).fit(classes=CLASSES)
    found = ppi.estimate(y_proba, y_target=y_target, confidence_level=level)
    for k in range(3):
        data = ((y[rows] == k).astype(float), y_proba[rows, k], y_proba[others, k])
        point = float(np.squeeze(ppi_py.ppi_mean_pointestimate(*data, lam=weight)))
        low, high = ppi_py.ppi_mean_ci(*data, alpha=1 - level, lam=weight)
        assert found.raw[k] == pytest.approx(point, abs=1e-12)
        bounds = [float(np.squeeze(low)), float(np.squeeze(high))]
        assert found.interval[k] == pytest.approx(bounds, abs=1e-9)


def test_all_classes_at_once_with_a_weight_each():
    y_proba, y_target, rows, y = target(9)
    others = np.setdiff1d(np.arange(y.size), rows)
    found = ps.PPI().fit(classes=CLASSES).estimate(y_proba, y_target=y_target)
    point = ppi_py.ppi_mean_pointestimate(
        np.eye(3)[y[rows]], y_proba[rows], y_proba[others], lam_optim_mode="element"
    )
    assert found.raw == pytest.approx(np.squeeze(point), abs=1e-12)

"""CostDisplay: expected cost at every prevalence, against sums over reweighted validation rows."""

import numpy as np
import pytest

import priorshift as ps
from priorshift.plotting import CostDisplay

COSTS = np.array([[0.0, 1.0], [10.0, 0.0]])


@pytest.fixture
def data(rng):
    y = np.repeat([0, 1], 500)
    score = rng.normal(loc=2.0 * y)
    return 1 / (1 + np.exp(2 - 2 * score)), y


def test_costs_are_those_of_reweighted_rows(data):
    y_proba, y = data
    display = CostDisplay.from_predictions(y_proba, y, COSTS, source_priors=[0.5, 0.5])
    for at in (1, 30, 90):
        share = display.prevalence[at]
        weight = ps.sample_weights(y, [1 - share, share])
        for cost, p in (
            (display.before[at], y_proba),
            (display.after[at], ps.adapt_proba(y_proba, 0.5, share)),
        ):
            paid = COSTS[y, ps.decide(p, COSTS)]
            assert cost == pytest.approx(np.average(paid, weights=weight))
    assert display.before[50] == pytest.approx(display.after[50])  # as in training
    assert display.after[0] == display.after[-1] == 0
    assert (display.after <= display.before + 0.05).all()
    assert display.source == 0.5


def test_one_of_many_classes(rng):
    y = np.repeat(["a", "b", "c"], 200)
    y_proba = rng.dirichlet(np.ones(3), 600) + np.eye(3)[np.repeat(range(3), 200)]
    y_proba /= y_proba.sum(axis=1, keepdims=True)
    display = CostDisplay.from_predictions(y_proba, y, {("b", "a"): 5}, positive_class="b")
    assert display.ax_.get_xlabel() == "prevalence of b"
    assert display.saved.max() > 0


def test_errors_say_what_to_do(data):
    y_proba, y = data
    with pytest.raises(ValueError, match="positive_class='ill' is no class"):
        CostDisplay.from_predictions(y_proba, y, positive_class="ill")
    with pytest.raises(ValueError, match="no row of class 1"):
        CostDisplay.from_predictions(y_proba[:500], y[:500], classes=[0, 1])

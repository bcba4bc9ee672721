"""What adapting does to the target, counted in blocks, is what whole arrays say."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import metrics

import priorshift as ps
from priorshift.border import ArrayTable, rows, sample_rows
from priorshift.compare import compare
from priorshift.report import render_report
from priorshift.report._facts import gather


@pytest.fixture
def target(simulate, rng):
    world = simulate(4)
    y_proba, y = world.draw(np.array([0.4, 0.3, 0.2, 0.1]), 500, rng)
    estimate = ps.EM().fit(source_priors=world.source_priors).estimate(y_proba)
    return estimate, y_proba, y


@pytest.mark.parametrize("kind", [np.asarray, ArrayTable, csr_array])
def test_counts_and_scores_are_those_of_all_rows(target, kind):
    estimate, y_proba, y = target
    facts = gather(estimate, y_proba_target=kind(y_proba), y_target=y)
    adapted = estimate.adapt(y_proba)
    before, after = y_proba.argmax(axis=1), adapted.argmax(axis=1)
    assert facts.warnings == ()
    assert facts.n_changed == (before != after).sum() > 0
    for counted, decided in zip(facts.routes, (before, after), strict=True):
        np.testing.assert_array_equal(counted, np.bincount(decided, minlength=4))
    for source, goal, n_rows in zip(*facts.flows, strict=True):
        assert n_rows == ((before == source) & (after == goal)).sum() > 0
    for found, values, priors in zip(
        facts.scores, (y_proba, adapted), (estimate.source_priors, estimate.priors), strict=True
    ):
        decided, shares = values.argmax(axis=1), np.bincount(y, minlength=4) / y.size
        assert found.accuracy == pytest.approx(metrics.accuracy_score(y, decided))
        assert found.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(y, decided))
        assert found.log_loss == pytest.approx(metrics.log_loss(y, values))
        assert found.l1_error == pytest.approx(np.abs(priors - shares).sum())


def test_rows_without_a_class_left_are_told_of_once():
    estimate = ps.PriorEstimate(
        "known", np.arange(2), np.array([1.0, 0.0]), np.array([0.5, 0.5]), "given", "direct"
    )
    table = ArrayTable(np.tile([[0.0, 1.0], [0.5, 0.5]], (40, 1)))
    assert gather(estimate, y_proba_target=table).warnings == (
        "40 of 80 rows have no class left that the target priors allow; they keep their original "
        "probabilities.",
    )
    page = render_report(estimate, y_proba_target=table)
    assert page.count("40 of 80 rows have no class left") == 2  # once in words, once in its data


def test_samples_are_rows_of_the_table_and_the_same_every_time(rng, monkeypatch):
    monkeypatch.setattr(rows, "SAMPLE_NUMBERS", 100 * (3 + rows.PER_ROW))
    monkeypatch.setattr(rows, "FEWEST_ROWS", 10)
    values = np.column_stack([np.arange(1000.0), rng.random((1000, 2))])
    sample = sample_rows(ArrayTable(values))
    drawn = sample[:, 0].astype(int)
    assert 80 < drawn.size <= 100
    assert (np.diff(drawn) > 0).all()
    np.testing.assert_array_equal(sample, values[drawn])
    assert abs(drawn.mean() - 500) < 100
    np.testing.assert_array_equal(sample_rows(ArrayTable(values)), sample)


def test_comparisons_take_tables(target, simulate, rng):
    _, y_proba, y = target
    world = simulate(4)
    y_proba_val, y_val = world.draw(world.source_priors, 400, rng)
    methods = ["na", "em", "scm-l"]
    whole = compare(y_proba_val, y_val, y_proba, y, methods=methods)
    blocks = compare(y_proba_val, y_val, ArrayTable(y_proba), y, methods=methods)
    for one, other in zip(whole.results, blocks.results, strict=True):
        np.testing.assert_allclose(one.estimate.priors, other.estimate.priors, rtol=1e-6)
        assert one.scores.accuracy == pytest.approx(other.scores.accuracy, abs=1e-12)
        assert one.scores.log_loss == pytest.approx(other.scores.log_loss, rel=1e-6)

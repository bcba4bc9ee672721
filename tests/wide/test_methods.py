"""Estimates from sparse predictions are those from the same predictions in full."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import priorshift as ps
from priorshift.estimators import traits_of
from priorshift.execution import SparseBlock, SparseTable, TopK

DRAWN = {"auto": {"random_state": 0}}
WIDE = [method for method in ps.available_estimators() if traits_of(method).wide]
OTHERS = [method for method in ps.available_estimators() if not traits_of(method).wide]


def quietly(run):
    """Clipped and singular inverses warn; here only numbers count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)
        warnings.simplefilter("ignore", ps.ConvergenceWarning)
        return run()


def both(method, case, **options):
    """Fit and estimate with the sparse predictions, and with the arrays."""
    estimators = (ps.get_estimator(method, **DRAWN.get(method, {}) | options) for _ in range(2))
    data = ((case.val, case.new), (case.dense_val, case.dense_new))
    return [
        quietly(lambda est=est, val=val, new=new: est.fit(val, case.y).estimate(new))
        for est, (val, new) in zip(estimators, data, strict=True)
    ]


@pytest.mark.parametrize("method", WIDE)
def test_wide_methods_agree_with_arrays(method, case):
    sparse, dense = both(method, case)
    assert sparse.priors == pytest.approx(dense.priors, abs=1e-10)
    assert sparse.source_priors == pytest.approx(dense.source_priors, abs=1e-12)
    assert (sparse.status, sparse.n_iter) == (dense.status, dense.n_iter)


@pytest.mark.parametrize("method", OTHERS)
def test_other_methods_agree_with_arrays(method, case):
    sparse, dense = both(method, case)
    assert sparse.priors == pytest.approx(dense.priors, abs=1e-8)
    assert sparse.status == dense.status


@pytest.mark.parametrize("solver", ["paper", "gradient"])
def test_other_solvers_agree_with_arrays(solver, case):
    sparse, dense = both("em", case, solver=solver, max_iter=20)
    assert sparse.priors == pytest.approx(dense.priors, abs=1e-10)


@pytest.mark.usefixtures("many_classes", "nothing_dense")
@pytest.mark.parametrize("method", WIDE)
def test_very_many_classes_give_the_same_and_nothing_is_made_dense(method, case):
    tight = {"tol": 1e-9} if "tol" in ps.get_estimator(method).get_params() else {}
    sparse, dense = both(method, case, **tight)
    assert sparse.priors == pytest.approx(dense.priors, abs=3e-6 if tight else 1e-10)
    assert sparse.status == dense.status
    if method in ("cm", "scm", "bbse", "bbse-s"):
        assert sparse.priors == pytest.approx(dense.priors, abs=1e-10)
        assert sparse.raw == pytest.approx(dense.raw, abs=1e-9)


@pytest.mark.usefixtures("many_classes", "nothing_dense")
@pytest.mark.parametrize("method", ["em", "map", "cm-l", "scm-l", "cm-m", "scm-m"])
def test_certificates_hold_by_the_plain_formula(method, case):
    est = ps.get_estimator(method)
    shift = quietly(lambda: est.fit(case.val, case.y).estimate(case.new))
    alpha = getattr(est, "alpha", 1.0)
    if method in ("em", "map"):
        A, w = case.dense_new / shift.source_priors, np.ones(case.dense_new.shape[0])
    else:
        A = np.zeros((case.K, case.K))
        votes = case.dense_val, case.dense_new
        if method.startswith("cm"):
            votes = [np.eye(case.K)[rows.argmax(axis=1)] for rows in votes]
        for k in range(case.K):
            A[:, k] = votes[0][case.y == k].mean(axis=0)
        w = votes[1].sum(axis=0)
    p = np.maximum(shift.priors, 1e-300)
    gradient = A.T @ (w / (A @ p)) + (alpha - 1) / p
    gap = gradient.max() - (w.sum() + case.K * (alpha - 1))
    assert shift.status == "certified"
    assert gap <= est.tol + 1e-9
    assert shift.gap == pytest.approx(max(gap, 0.0), abs=1e-8)


@pytest.mark.usefixtures("many_classes")
@pytest.mark.parametrize("method", ["em", "cm-l", "scm-m", "scm", "bbse"])
def test_the_order_of_classes_does_not_matter(method, case, rng):
    order = rng.permutation(case.K)
    inverse = np.argsort(order)
    est = ps.get_estimator(method)
    plain = quietly(lambda: est.fit(case.val, case.y).estimate(case.new))

    def turned(rows):
        if case.kind == "csr":
            return csr_array(rows[:, order])
        return rows.columns(order)

    est = ps.get_estimator(method)
    moved = quietly(lambda: est.fit(turned(case.val), inverse[case.y]).estimate(turned(case.new)))
    assert moved.priors == pytest.approx(plain.priors[order], abs=1e-4)


@pytest.mark.usefixtures("many_classes", "nothing_dense")
@pytest.mark.parametrize("method", ["cm-l", "scm-l", "scm", "scm-m"])
@pytest.mark.parametrize("known", [True, False])
def test_classes_that_validation_lacks_are_met_as_with_arrays(method, known, case):
    there = case.y != 3
    given = np.full(case.K, 1 / case.K) if known else None
    val = case.val[there]
    val = SparseTable(val) if isinstance(val, SparseBlock) else val
    found = []
    for rows, new in ((val, case.new), (case.dense_val[there], case.dense_new)):
        est = ps.get_estimator(method)
        est.fit(rows, case.y[there], source_priors=given, classes=np.arange(case.K))
        found.append(quietly(lambda est=est, new=new: est.estimate(new)))
    assert found[0].unseen_classes == found[1].unseen_classes == (3,)
    assert found[0].priors == pytest.approx(found[1].priors, abs=2e-3)


@pytest.mark.usefixtures("many_classes")
@pytest.mark.parametrize("decision", ["hard", "soft"])
def test_parts_are_counted_apart_and_added(decision, case):
    whole = ps.Confusion.from_arrays(case.val, case.y, decision=decision)
    assert isinstance(whole.counts, SparseBlock)
    dense = ps.Confusion.from_arrays(case.dense_val, case.y, decision=decision)
    assert whole.conditional.toarray() == pytest.approx(dense.conditional, abs=1e-12)
    assert whole.joint().toarray() == pytest.approx(dense.joint(), abs=1e-12)
    assert (whole + whole).counts.toarray() == pytest.approx(2 * dense.counts, abs=1e-12)


@pytest.mark.usefixtures("many_classes", "nothing_dense")
def test_batches_of_validation_give_the_fit_of_all(rng):
    ids = np.array([rng.choice(8, 3, replace=False) for _ in range(200)])
    scores = rng.dirichlet(np.ones(4), 200)[:, :3]
    y = rng.integers(0, 8, 200)
    parts = [slice(0, 60), slice(60, 200)]

    def table(rows):
        return TopK(ids[rows], scores[rows], 8, rest="spread")

    whole = ps.SCML().fit(table(slice(None)), y, classes=np.arange(8))
    batches = ps.SCML()
    for rows in parts:
        batches.partial_fit(table(rows), y[rows], classes=np.arange(8))
    one, other = (
        quietly(lambda est=est: est.estimate(table(parts[1]))) for est in (whole, batches)
    )
    assert other.priors == pytest.approx(one.priors, abs=1e-7)


# What cannot be had


@pytest.mark.usefixtures("many_classes")
@pytest.mark.parametrize("method", OTHERS)
def test_methods_that_need_dense_matrices_name_those_that_do_not(method, case):
    est = ps.get_estimator(method)
    with pytest.raises(ValueError, match=r"12 classes are too many .*; use a method .*SCM-L or EM"):
        est.fit(case.val, case.y)


@pytest.mark.usefixtures("many_classes")
def test_constrained_bbse_says_so_too(case):
    with pytest.raises(ValueError, match=r"BBSE\(constrained=True\) needs"):
        ps.BBSE(constrained=True).fit(case.val, case.y)


@pytest.mark.usefixtures("many_classes")
def test_intervals_of_very_many_classes_are_refused(case):
    est = ps.EM().fit(case.val)
    with pytest.raises(ValueError, match=r"an interval of EM needs .*leave out confidence_level"):
        est.estimate(case.new, confidence_level=0.9)


def test_rows_that_must_be_kept_are_not_made_dense_if_they_are_many(monkeypatch, case):
    from priorshift.estimators import base

    monkeypatch.setattr(base, "MOST_CELLS", 100)
    with pytest.raises(ValueError, match=r"array of 400 x 12 numbers; give at most 8 rows"):
        ps.ELSA().fit(case.val, case.y)

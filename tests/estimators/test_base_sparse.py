"""Estimates from sparse predictions are those from the same predictions in full."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import priorshift as ps
from priorshift.border import SparseTable, TopK
from priorshift.estimators import traits_of
from priorshift.solvers import _maximise

DRAWN = {"auto": {"random_state": 0}}
OTHERS = [method for method in ps.available_estimators() if not traits_of(method)._wide]


def quietly(run):
    """Clipped and singular inverses warn; here only numbers count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)
        warnings.simplefilter("ignore", ps.ConvergenceWarning)
        return run()


def both(method, wide, **options):
    """Fit and estimate with the sparse predictions, and with the arrays."""
    estimators = (ps.get_estimator(method, **DRAWN.get(method, {}) | options) for _ in range(2))
    data = ((wide.val, wide.new), (wide.dense_val, wide.dense_new))
    return [
        quietly(lambda est=est, val=val, new=new: est.fit(val, wide.y).estimate(new))
        for est, (val, new) in zip(estimators, data, strict=True)
    ]


@pytest.mark.parametrize("method", ["na", "bbse", "cm-l", "scm", "scm-m", "em"])
def test_wide_methods_agree_with_arrays(method, wide):
    sparse, dense = both(method, wide)
    assert sparse.priors == pytest.approx(dense.priors, abs=1e-10)
    assert sparse.source_priors == pytest.approx(dense.source_priors, abs=1e-12)
    assert (sparse.status, sparse.n_iter) == (dense.status, dense.n_iter)


@pytest.mark.parametrize("method", ["auto", "rlls", "joint", "em-bcts"])
def test_other_methods_agree_with_arrays(method, wide):
    sparse, dense = both(method, wide)
    assert sparse.priors == pytest.approx(dense.priors, abs=1e-8)
    assert sparse.status == dense.status


@pytest.mark.parametrize("solver", ["paper", "gradient"])
def test_other_solvers_agree_with_arrays(solver, wide):
    sparse, dense = both("em", wide, solver=solver, max_iter=20)
    assert sparse.priors == pytest.approx(dense.priors, abs=1e-10)


@pytest.mark.parametrize("rest", ["spread", "drop"])
def test_very_many_sparse_rows_are_solved_from_a_sample_first(rest, monkeypatch, rng):
    monkeypatch.setattr(_maximise, "ROWS_FIRST", 5)
    K, n = 6, 2000
    assert n >= _maximise.FEWER_ROWS * _maximise.ROWS_FIRST * K
    ids, scores = np.argsort(rng.random((n, K)))[:, :3], rng.dirichlet(np.ones(4), n)[:, :3]
    rows = TopK(ids, scores, K, rest=rest)
    est = ps.EM().fit(source_priors=np.full(K, 1 / K))
    sparse, dense = est.estimate(rows), est.estimate(rows.toarray())
    assert sparse.priors == pytest.approx(dense.priors, abs=1e-10)
    assert (sparse.status, sparse.n_iter) == (dense.status, dense.n_iter)


@pytest.mark.usefixtures("many_classes", "nothing_dense")
@pytest.mark.parametrize("method", ["na", "cm-l", "scm-l", "scm-m", "em", "map"])
def test_very_many_classes_give_the_same_and_nothing_is_made_dense(method, wide):
    tight = {"tol": 1e-9} if "tol" in ps.get_estimator(method).get_params() else {}
    sparse, dense = both(method, wide, **tight)
    assert sparse.priors == pytest.approx(dense.priors, abs=3e-6 if tight else 1e-10)
    assert sparse.status == dense.status
    if method in ("cm", "scm", "bbse", "bbse-s"):
        assert sparse.priors == pytest.approx(dense.priors, abs=1e-10)
        assert sparse.raw == pytest.approx(dense.raw, abs=1e-9)


@pytest.mark.usefixtures("many_classes", "nothing_dense")
@pytest.mark.parametrize("method", ["em", "map", "cm-l", "scm-m"])
def test_certificates_hold_by_the_plain_formula(method, wide):
    est = ps.get_estimator(method)
    shift = quietly(lambda: est.fit(wide.val, wide.y).estimate(wide.new))
    alpha = getattr(est, "alpha", 1.0)
    if method in ("em", "map"):
        A, w = wide.dense_new / shift.source_priors, np.ones(wide.dense_new.shape[0])
    else:
        A = np.zeros((wide.K, wide.K))
        votes = wide.dense_val, wide.dense_new
        if method.startswith("cm"):
            votes = [np.eye(wide.K)[rows.argmax(axis=1)] for rows in votes]
        for k in range(wide.K):
            A[:, k] = votes[0][wide.y == k].mean(axis=0)
        w = votes[1].sum(axis=0)
    p = np.maximum(shift.priors, 1e-300)
    gradient = A.T @ (w / (A @ p)) + (alpha - 1) / p
    gap = gradient.max() - (w.sum() + wide.K * (alpha - 1))
    assert shift.status == "certified"
    assert gap <= est.tol + 1e-9
    assert shift.gap == pytest.approx(max(gap, 0.0), abs=1e-8)


@pytest.mark.usefixtures("many_classes")
@pytest.mark.parametrize("method", ["em", "scm-m", "cm-l"])
def test_the_order_of_classes_does_not_matter(method, wide, rng):
    order = rng.permutation(wide.K)
    inverse = np.argsort(order)
    est = ps.get_estimator(method)
    plain = quietly(lambda: est.fit(wide.val, wide.y).estimate(wide.new))

    def turned(rows):
        if wide.kind == "csr":
            return csr_array(rows[:, order])
        return rows.columns(order)

    est = ps.get_estimator(method)
    moved = quietly(lambda: est.fit(turned(wide.val), inverse[wide.y]).estimate(turned(wide.new)))
    assert moved.priors == pytest.approx(plain.priors[order], abs=1e-4)


@pytest.mark.usefixtures("many_classes", "nothing_dense")
@pytest.mark.parametrize(("method", "known"), [("cm-l", True), ("scm-m", False)])
def test_classes_that_validation_lacks_are_met_as_with_arrays(method, known, wide):
    there = wide.y != 3
    given = np.full(wide.K, 1 / wide.K) if known else None
    val = wide.val[there]
    found = []
    for rows, new in (
        (val, wide.new),
        (wide.dense_val[there], wide.dense_new),
    ):
        est = ps.get_estimator(method)
        est.fit(rows, wide.y[there], source_priors=given, classes=np.arange(wide.K))
        found.append(quietly(lambda est=est, new=new: est.estimate(new)))
    assert found[0].unseen_classes == found[1].unseen_classes == (3,)
    assert found[0].priors == pytest.approx(found[1].priors, abs=2e-3)


@pytest.mark.usefixtures("many_classes")
@pytest.mark.parametrize("decision", ["hard", "soft"])
def test_parts_are_counted_apart_and_added(decision, wide):
    whole = ps.Confusion.from_arrays(wide.val, wide.y, decision=decision)
    assert isinstance(whole.counts, SparseTable)
    dense = ps.Confusion.from_arrays(wide.dense_val, wide.y, decision=decision)
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
def test_methods_that_need_dense_matrices_name_those_that_do_not(wide):
    too_many = r"12 classes are too many .*; use a method .*SCM-L or EM"
    for method in OTHERS:
        with pytest.raises(ValueError, match=too_many):
            ps.get_estimator(method).fit(wide.val, wide.y)


@pytest.mark.usefixtures("many_classes")
def test_intervals_of_very_many_classes_are_refused(wide):
    est = ps.EM().fit(wide.val)
    with pytest.raises(ValueError, match=r"an interval of EM needs .*leave out confidence_level"):
        est.estimate(wide.new, confidence_level=0.9)


def test_rows_that_must_be_kept_are_not_made_dense_if_they_are_many(monkeypatch, wide):
    from priorshift.estimators import data

    monkeypatch.setattr(data, "MOST_CELLS", 100)
    with pytest.raises(ValueError, match=r"array of 400 x 12 numbers; give at most 8 rows"):
        ps.ELSA().fit(wide.val, wide.y)


def test_a_singular_confusion_matrix_is_said_to_be(monkeypatch):
    from priorshift import counts
    from priorshift.border import sparse
    from priorshift.estimators import data

    for module in (sparse, data, counts):
        monkeypatch.setattr(module, "DENSE_CLASSES", 2)
    rows = csr_array(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]))
    shift = ps.CML().fit(rows, [0, 1, 2]).estimate(rows)
    assert "singular" in shift.cautions[0]
    assert shift.condition_number == np.inf
    assert shift.priors[0] == pytest.approx(1 / 3, abs=1e-3)


@pytest.mark.parametrize("prior", [1e-9, 1e-12, 1e-25])
def test_a_source_prior_that_the_rest_would_drown_is_refused(prior):
    """Class 1 is listed with next to nothing: its share of the rest cancels, times 1 / prior."""
    rng = np.random.default_rng(0)
    ids = np.array([[1, *rng.permutation([0, 2, 3, 4])[:2]] for _ in range(60)])
    scores = rng.dirichlet(np.full(4, 0.2), 60)[:, :3]
    scores[:, 0] *= 1e-12
    best = ps.TopK(ids, scores, 5, rest="spread")
    source = np.array([0.25, prior, 0.25, 0.25, 0.25])
    em = ps.EM().fit(source_priors=source / source.sum())
    if prior < 1e-10:
        with pytest.raises(ValueError, match=r"for class 1 .* loses .* rest='drop'"):
            em.estimate(best)
        assert em.estimate(best.toarray()).status == "certified"
    else:
        np.testing.assert_allclose(
            em.estimate(best).priors, em.estimate(best.toarray()).priors, atol=1e-4
        )


@pytest.mark.filterwarnings("ignore:y_proba was adapted already:priorshift.PriorShiftWarning")
def test_a_rest_that_was_adapted_drowns_larger_source_priors():
    """Its trend has the factor 1 / prior already; to estimate again would square it."""
    listed = csr_array(np.array([[0, 1], [0, 1], [1, 1e-20], [0, 1e-30], [1, 0], [0, 0.5]]))
    em = ps.EM().fit(source_priors=[1 - 1e-9, 1e-9])
    best = ps.TopK.from_csr(listed, rest="spread")
    shift = em.estimate(best)
    adapted = shift.adapt(best)
    with pytest.raises(ValueError, match=r"for class 1 .* loses .* rest='drop'"):
        em.estimate(adapted)
    assert np.isfinite(em.estimate(adapted.toarray()).priors).all()
    mild = ps.EM().fit(source_priors=[0.9, 0.1])
    again = mild.estimate(mild.estimate(best).adapt(best))
    assert again.status == "certified"

"""A group and a target of the same rows agree, also where data are degenerate."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import priorshift as ps
from priorshift.groups import estimate_groups

DECISIONS = ("scm", "bbse", "cm-l", "scm-m", "scm-l-shrunk")
METHODS = (*DECISIONS, "em", "map")
K = 3
LABELS = np.arange(120) % K


def rows(n, sharp=3.0):
    """Return rows that tell classes 0, 1, 2, 0, ... apart."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, K))
    z[np.arange(n), np.arange(n) % K] += sharp
    return np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)


def without(k, n, share=0.0):
    """Return rows that give class k a share and no more."""
    values = rows(n)
    values[:, k] = 0
    values *= (1 - share) / values.sum(axis=1, keepdims=True)
    values[:, k] = share
    return values


def decided(*classes):
    """Return rows of exactly 0 and 1."""
    return np.eye(K)[list(classes)]


@dataclass(frozen=True)
class Case:
    """Validation and target that are odd in one way."""

    y_proba: Any
    y_proba_val: Any = field(default_factory=lambda: rows(120))
    y_val: Any = field(default_factory=lambda: LABELS)
    source_priors: Any = None

    def fit(self, name):
        est = ps.get_estimator(name, **({"tol": 1e-6} if name in ("em", "map") else {}))
        return est.fit(
            self.y_proba_val,
            self.y_val,
            classes=np.arange(K),
            source_priors=self.source_priors,
        )

    def without_labels(self, *absent):
        kept = ~np.isin(self.y_val, absent)
        return Case(self.y_proba, self.y_proba_val[kept], self.y_val[kept], self.source_priors)


ALIKE = np.array([[0.45, 0.45, 0.1], [0.45, 0.45, 0.1], [0.1, 0.1, 0.8]])
CASES = {
    "no row gives a class any probability": Case(without(1, 50)),
    "nor does validation": Case(without(1, 50), without(1, 120)),
    "nor has the source any": Case(without(1, 50), without(1, 120), source_priors=[0.6, 0, 0.4]),
    "rows give a class next to nothing": Case(without(1, 50, 1e-12)),
    "rows give a class a subnormal number": Case(without(1, 50, 1e-310)),
    "all rows are one": Case(np.tile([[0.2, 0.3, 0.5]], (40, 1))),
    "all rows are uniform": Case(np.full((40, K), 1 / K)),
    "one row": Case(rows(1)),
    "one row of one class": Case(decided(2)),
    "one class takes all": Case(decided(*[0] * 500)),
    "one class takes all, softly": Case(rows(300)[::3]),
    "rows of 0 and 1": Case(decided(*[0, 1, 2] * 20)),
    "rows of 0 and 1 on both sides": Case(decided(*[0, 1] * 30), decided(*LABELS)),
    "decisions that validation never made": Case(decided(*[2] * 30), decided(*LABELS % 2)),
    "some that validation never made": Case(decided(*[2, 1] * 30), decided(*LABELS % 2)),
    "classes that look the same": Case(np.tile(ALIKE[:1], (30, 1)), np.tile(ALIKE, (40, 1))),
    "validation rows are all one": Case(rows(40), np.full((120, K), 1 / K)),
    "validation is always wrong": Case(decided(*[0, 1] * 30), decided(*(LABELS + 1) % K)),
    "clipping removes everything": Case(decided(*[0] * 30), decided(*[1, 2, 2] * 40)),
    "clipping leaves subnormal numbers": Case(
        np.array([[2e-311, 1, 3e-311]] * 30), decided(*[0] * 120), np.arange(120) // 30 % K
    ),
    "one validation row per class": Case(rows(40), rows(3), np.arange(3)),
    "a tiny source prior": Case(rows(40), source_priors=[1e-25, 0.5, 0.5]),
    "source priors of next to nothing": Case(rows(40), source_priors=[1e-29, 1e-20, 1.0]),
    "validation gives a class a subnormal number": Case(rows(40), without(1, 120, 5e-324)),
    "float32": Case(rows(40).astype(np.float32), rows(120).astype(np.float32)),
}
LACKING = {
    "validation lacks a class": Case(rows(60), source_priors=[0.5, 0.3, 0.2]).without_labels(1),
    "and the source is unknown": Case(rows(60)).without_labels(1),
    "validation has one class": Case(rows(60), source_priors=[0.5, 0.3, 0.2]).without_labels(1, 2),
}


def outcome(call):
    """Return the priors, or the message of a ValueError; NumPy's warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return call()
        except ValueError as error:
            return str(error)


def alone(case, method):
    """Estimate the target as a whole."""
    return outcome(lambda: case.fit(method).estimate(case.y_proba).priors)


def as_group(case, method, pooling):
    """Estimate the same rows as the only group."""
    groups = np.zeros(len(case.y_proba), dtype=int)
    return outcome(
        lambda: estimate_groups(
            case.fit(method), case.y_proba, groups, pooling=pooling
        ).priors[0]
    )  # fmt: skip


def assert_same(mine, theirs):
    if isinstance(theirs, str):
        assert isinstance(mine, str)
        assert theirs in mine
        return
    assert not isinstance(mine, str), mine
    assert np.isfinite(theirs).all()
    assert (theirs >= 0).all()
    assert theirs.sum() == pytest.approx(1)
    np.testing.assert_allclose(mine, theirs, atol=2e-3)


@pytest.mark.parametrize("name", CASES)
def test_a_group_is_a_target_of_its_own(name):
    for method in METHODS:
        mine = alone(CASES[name], method)
        for pooling in (None, "auto"):
            assert_same(as_group(CASES[name], method, pooling), mine)


@pytest.mark.parametrize("name", list(CASES)[::3])
def test_auto_pools_one_group_completely(name):
    case = CASES[name]
    assert_same(as_group(case, "auto", "auto"), alone(case, "auto"))


@pytest.mark.parametrize("name", LACKING)
def test_so_it_is_without_a_class_on_validation(name):
    for method in METHODS:
        assert_same(as_group(LACKING[name], method, None), alone(LACKING[name], method))


@pytest.mark.parametrize("method", [*DECISIONS, "auto"])
def test_without_a_class_pooling_is_refused_with_the_remedy(method):
    case = LACKING["validation lacks a class"]
    said = as_group(case, method, "auto")
    assert "no sample of class 1" in said
    assert "pooling=None" in said


def test_auto_estimates_each_group_without_a_class_on_validation():
    case = LACKING["validation lacks a class"]
    priors = as_group(case, "auto", None)
    assert priors.sum() == pytest.approx(1)
    assert priors[1] > 0.2  # a third of the rows look like the class that validation lacks


def test_a_group_without_any_known_decision_is_named():
    est = ps.CML().fit(
        decided(*[0] * 40), np.arange(40) % 2, classes=[0, 1, 2], source_priors=[0.4, 0.4, 0.2]
    )
    with (
        pytest.warns(ps.exceptions.PriorShiftWarning),
        pytest.raises(ValueError, match=r"group 'b': none of the target's decisions"),
    ):
        estimate_groups(est, decided(0, 0, 1), ["a", "a", "b"], pooling=None)


def test_groups_that_no_row_tells_anything_of_are_pooled_without_nan():
    """Three groups by EM, and a class that none of the rows gives any probability."""
    em = ps.EM().fit(source_priors=np.full(K, 1 / K))
    for pooling in ("auto", 5.0):
        found = estimate_groups(em, without(1, 90), np.arange(90) // 30, pooling=pooling)
        assert np.isfinite(found.priors).all()
        np.testing.assert_allclose(found.priors[:, 1], 0, atol=1e-3)

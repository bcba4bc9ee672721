"""Linear systems, dense and sparse, against numpy.linalg."""

import numpy as np
import pytest

from priorshift.solvers import (
    _linear,
    clip_to_simplex,
    condition_number,
    invert,
    is_singular,
    solve_linear,
    undetermined,
)

# Dense systems


@pytest.mark.parametrize(
    ("M", "answer"),
    [
        ([[0.8, 0.2], [0.2, 0.8]], [4 / 3, -1 / 3]),  # CM
        ([[0.4, 0.1], [0.1, 0.4]], [8 / 3, -2 / 3]),  # BBSE
    ],
)
def test_the_papers_examples(M, answer):
    np.testing.assert_allclose(solve_linear(np.array(M), np.array([1.0, 0.0])), answer, rtol=1e-14)


@pytest.mark.parametrize("shape", [(2, 2), (30, 30), (5, 3), (3, 5)])
def test_regular_and_rectangular_systems(rng, shape):
    M, q = rng.random(shape), rng.random(shape[0])
    np.testing.assert_allclose(solve_linear(M, q), np.linalg.pinv(M) @ q, rtol=1e-8)
    if shape[0] == shape[1]:
        np.testing.assert_allclose(solve_linear(M, q), np.linalg.inv(M) @ q, rtol=1e-8)
    wide = shape[0] < shape[1]  # some x has M x = 0, although the rows are independent
    expected = np.inf if wide else np.linalg.cond(M)
    assert condition_number(M) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("kind", ["singular", "rank-1", "duplicate", "zero"])
@pytest.mark.parametrize("K", [2, 50])
def test_singular_systems_use_the_pseudo_inverse(zoo, rng, kind, K):
    M = np.zeros((K, K)) if kind == "zero" else zoo.confusion(kind, K, rng)
    q = rng.dirichlet(np.ones(K))
    assert condition_number(M) == np.inf
    pinv = np.linalg.pinv(M, rcond=K * np.finfo(float).eps)
    np.testing.assert_allclose(solve_linear(M, q), pinv @ q, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("spread", [0.0, 0.5, 0.999, 1 - 1e-9, 1.0])
def test_many_classes_need_no_singular_values(rng, monkeypatch, spread):
    """A factorisation gives the same condition number, and singular matrices stay singular."""
    M = (1 - spread) * np.eye(60) + spread * rng.dirichlet(np.full(60, 0.1), 60).T
    M[:, 7] = spread * M[:, 9] + (1 - spread) * M[:, 7]
    few = condition_number(M), is_singular(M)
    monkeypatch.setattr(_linear, "MANY_CLASSES", 50)
    assert condition_number(M) == pytest.approx(few[0], rel=max(1e-9, 1e-15 * few[0]))
    assert is_singular(M) == few[1] == (spread == 1)


def test_a_badly_conditioned_system_is_still_solved():
    M = np.array([[1, 1], [1, 1 + 1e-9]])
    assert condition_number(M) == pytest.approx(np.linalg.cond(M), rel=1e-5)
    np.testing.assert_allclose(solve_linear(M, M @ [3.0, 4.0]), [3, 4], rtol=1e-5)


# Sparse systems


@pytest.mark.parametrize("K", [1, 2, 5, 40])
def test_singular_is_what_has_an_infinite_condition_number(rng, K):
    regular = np.eye(K) + 0.5 * rng.dirichlet(np.ones(K), K).T
    nearly = regular.copy()
    nearly[:, -1] = nearly[:, 0] * (1 + 1e-11)
    matrices = [regular, np.zeros((K, K)), regular * (np.arange(K) > 0)[:, None], regular[:, :1]]
    for M in [*matrices, nearly, np.full((K, K), 1 / K)]:
        assert is_singular(M) == np.isinf(condition_number(M))


@pytest.mark.parametrize("spread", [0.3, 0.5, 0.9, 1.0])
def test_a_classifier_that_is_mostly_right_needs_no_factorisation(rng, monkeypatch, spread):
    """Rows that weights make dominant bound the inverse: never of a singular matrix."""
    monkeypatch.setattr(_linear, "DOMINANT_CLASSES", 0)
    M = (1 - spread) * np.eye(60) + spread * rng.dirichlet(np.full(60, 0.1), 60).T
    dominant, far = _linear._is_dominant(M), _linear._regular_factors(M) is not None
    assert dominant == (spread <= 0.5)
    assert far >= dominant
    M[:, 7] = M[:, 9]
    assert not _linear._is_dominant(M)
    assert is_singular(M)
    M[:, 7] = 0.0
    assert is_singular(M)


def test_what_the_null_space_moves_is_undetermined(rng):
    regular = np.eye(4) + 0.5 * rng.dirichlet(np.ones(4), 4).T
    assert not undetermined(regular).any()
    regular[:, 3] = 0.3 * regular[:, 0] + 0.7 * regular[:, 1]
    assert undetermined(regular).tolist() == [True, True, False, True]


def with_condition(condition, K, rng):
    """Draw a matrix with this condition number, as svd gives it."""
    left, right = (np.linalg.qr(rng.standard_normal((K, K)))[0] for _ in range(2))
    return (left * np.geomspace(1, 1 / condition, K)) @ right


@pytest.mark.parametrize("K", [2, 40])
def test_what_rounding_makes_regular_is_inverted_as_singular(rng, K):
    M = with_condition(1e17, K, rng)
    assert condition_number(M) == np.inf
    pinv = np.linalg.pinv(M, rcond=K * np.finfo(float).eps)
    np.testing.assert_allclose(invert(M), pinv, rtol=1e-6)


def test_a_factorisation_tells_regular_matrices_and_leaves_doubt_to_singular_values(
    rng, monkeypatch
):
    close, far = (with_condition(condition, 40, rng) for condition in (1e13, 1e6))
    assert _linear._regular_factors(close) is None
    assert _linear._regular_factors(far[:, :39]) is None
    assert not is_singular(close)
    monkeypatch.setattr(np.linalg, "svd", None)
    assert not is_singular(far)


def test_what_is_clipped_sums_to_one_again():
    raw = np.array([[0.5, -1.0, 1.5], [-1.0, 0.0, -2.0]])
    np.testing.assert_allclose(clip_to_simplex(raw), [[0.25, 0.0, 0.75], [1 / 3, 1 / 3, 1 / 3]])

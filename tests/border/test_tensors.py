"""Tensors in, tensors out, on the caller's device: the strict array API, and PyTorch where it is.

`make test` runs them without PyTorch, `make test-extras` with it.
"""

import sys
import warnings
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

import priorshift as ps
from priorshift.border import is_tensor, to_numpy
from priorshift.calibration import CalibrationAverage, CalibrationMap

pytest.importorskip("array_api_compat")
strict = pytest.importorskip("array_api_strict")

KINDS = {"strict": lambda values: strict.asarray(np.array(values))}
if find_spec("torch"):
    import torch

    KINDS["torch"] = lambda values: torch.tensor(np.asarray(values))

CLOSE = {"rtol": 0, "atol": 1e-12}
from_both = pytest.mark.parametrize("from_logits", [False, True])


@pytest.fixture(params=sorted(KINDS))
def tensor(request):
    """Return what makes a tensor of an array."""
    return KINDS[request.param]


def data(K=4, n=600, seed=0):
    """Return validation, labels, and a target with zeros and ones."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(K, 5)) * 1.5

    def draw(priors, n):
        y = rng.choice(K, n, p=priors)
        x = means[y] + rng.normal(size=(n, 5))
        logits = x @ means.T - (means**2).sum(axis=1) / 2
        y_proba = np.exp(logits - logits.max(axis=1, keepdims=True))
        return y_proba / y_proba.sum(axis=1, keepdims=True), y

    val, y_val = draw(np.full(K, 1 / K), n)
    target, y = draw(np.arange(1, K + 1) / (K * (K + 1) / 2), n)
    target[: n // 20] = np.eye(K)[y[: n // 20]]
    return val, y_val, target


def calibrated(K=4):
    rng = np.random.default_rng(1)
    maps = (
        CalibrationMap("ms", np.eye(K) + rng.normal(0, 0.1, (K, K)), rng.normal(size=K), 1e-4),
        CalibrationMap("ts", np.full(K, 0.6), np.zeros(K), rng.uniform(0, 1e-3, K)),
    )
    source, priors = rng.dirichlet(np.full(K, 5.0), 2)
    average = CalibrationAverage(maps, (0.25, 0.75))
    return ps.Adapter(np.arange(K), source, priors, average, strength=0.8)


def same_kind(found, given):
    """Assert that a result is of the caller's kind, type and device; return it as an array."""
    assert type(found) is type(given)
    assert found.dtype == given.dtype
    assert found.device == given.device
    return to_numpy(found)


# adapt_proba and Adapter


@from_both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("priors", [[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.5, 0.5]])
def test_adapt_proba(tensor, dtype, from_logits, priors):
    values = data()[2].astype(dtype)
    if from_logits:
        with np.errstate(divide="ignore"):
            values = np.log(values)
    source = np.full(4, 0.25)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wanted = ps.adapt_proba(values, source, priors, from_logits=from_logits)
        given = tensor(values)
        found = same_kind(ps.adapt_proba(given, source, priors, from_logits=from_logits), given)
    messages = [str(each.message) for each in caught]
    assert len(messages) == 2 * (priors[0] == 0)
    assert len(set(messages)) <= 1  # both kinds say the same
    np.testing.assert_allclose(found, wanted, rtol=0, atol=3 * np.finfo(dtype).eps)


@from_both
def test_adapters(tensor, from_logits):
    values = data()[2]
    if from_logits:
        values = np.log(np.maximum(values, 1e-300))
    adapter, given = calibrated(), tensor(values)
    for strength in (1.0, 0.5):
        options = {"from_logits": from_logits, "strength": strength}
        found = same_kind(adapter(given, **options), given)
        np.testing.assert_allclose(found, adapter(values, **options), **CLOSE)
    decided = adapter.decide(given, from_logits=from_logits)
    assert (decided == adapter.decide(values, from_logits=from_logits)).all()


def test_one_dimension(tensor):
    values = np.array([0.0, 0.3, 1.0])
    given = tensor(values)
    found = same_kind(ps.adapt_proba(given, 0.5, 0.1), given)
    np.testing.assert_allclose(found, ps.adapt_proba(values, 0.5, 0.1), **CLOSE)


def test_priors_and_labels_may_be_tensors(tensor):
    val, y_val, target = data()
    priors = tensor(np.array([0.1, 0.2, 0.3, 0.4]))
    wanted = ps.adapt_proba(target, np.full(4, 0.25), [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_array_equal(ps.adapt_proba(target, np.full(4, 0.25), priors), wanted)
    found = ps.SCML().fit(tensor(val), tensor(y_val)).estimate(tensor(target))
    np.testing.assert_array_equal(found.priors, ps.SCML().fit(val, y_val).estimate(target).priors)


@pytest.mark.parametrize(
    ("dtype", "expected"), [("int64", "float64"), ("bool", "float64"), ("float32", "float32")]
)
def test_other_types_follow_the_one_rule(dtype, expected):
    given = strict.astype(strict.eye(3), getattr(strict, dtype))
    found = ps.adapt_proba(given, np.full(3, 1 / 3), [0.2, 0.3, 0.5])
    assert found.dtype == getattr(strict, expected)
    np.testing.assert_array_equal(to_numpy(found), np.eye(3))


def test_complex_numbers_are_refused():
    given = strict.eye(3, dtype=strict.complex64)
    with pytest.raises(ValueError, match="must hold numbers"):
        ps.adapt_proba(given, np.full(3, 1 / 3), [0.2, 0.3, 0.5])


def test_device_of_the_caller():
    given = strict.asarray(data()[2], device=strict.Device("device1"))
    with pytest.raises(RuntimeError, match="NumPy"):
        np.asarray(given)
    for adapt in (
        calibrated(),
        lambda rows: ps.adapt_proba(rows, [0.25] * 4, [0.1, 0.2, 0.3, 0.4]),
    ):
        found = adapt(given)
        assert found.device == given.device
        np.testing.assert_allclose(to_numpy(found), adapt(data()[2]), **CLOSE)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0.5, 0.6]], r"row 0 of y_proba sums to 1\.1"),
        ([[0.5, 0.5], [np.nan, 1.0]], "y_proba has NaN"),
        ([[1.5, -0.5]], "y_proba has a negative value"),
        (np.ones((3, 1)), "y_proba has one column"),
        (np.empty((0, 2)), "y_proba is empty"),
        (np.ones((2, 2, 2)), r"must have shape \(n_samples, n_classes\)"),
        ([0.5, 1.5], "probabilities of the positive class"),
        ([[0.2, 0.3, 0.5]], "one per class|3 columns"),
    ],
)
def test_bad_tensors_get_the_words_of_bad_arrays(tensor, values, message):
    for given in (np.asarray(values), tensor(np.asarray(values))):
        with pytest.raises(ValueError, match=message):
            ps.adapt_proba(given, [0.5, 0.5], [0.9, 0.1])
        with pytest.raises(ValueError, match=message):
            ps.Adapter([0, 1], [0.5, 0.5], [0.9, 0.1])(given)


# Calibrators


@pytest.mark.parametrize("make", [ps.TemperatureScaling, ps.BCTS, ps.VectorScaling])
@pytest.mark.parametrize("logits", [False, True])
def test_calibrators(tensor, make, logits):
    val, y_val, target = data()
    if logits:
        with np.errstate(divide="ignore"):
            val, target = 3 * np.log(val), 3 * np.log(target)
    one = make(logits=logits).fit(val, y_val)
    other = make(logits=logits).fit(tensor(val), tensor(y_val))
    np.testing.assert_array_equal(other._map.slope, one._map.slope)
    for predict in ("predict_proba", "predict_log_proba"):
        given = tensor(target)
        found = same_kind(getattr(other, predict)(given), given)
        np.testing.assert_allclose(found, getattr(one, predict)(target), rtol=0, atol=1e-9)
    assert np.isfinite(found).all()


def test_calibrators_must_be_fitted(tensor):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        ps.TemperatureScaling().predict_proba(tensor(np.eye(2)))


# Estimating, which copies them


@pytest.mark.parametrize("method", ["em", "map", "mapls", "auto", "scm-l", "em-bcts", "rlls"])
def test_methods_take_tensors(tensor, method):
    val, y_val, target = data()
    fitted = ps.get_estimator(method).fit(val, y_val)
    one, other = fitted.estimate(target), fitted.estimate(tensor(target))
    np.testing.assert_allclose(other.priors, one.priors, rtol=0, atol=1e-3)
    given = tensor(target)
    np.testing.assert_allclose(same_kind(one.adapt(given), given), one.adapt(target), **CLOSE)


def test_intervals(tensor):
    val, y_val, target = data()
    em = ps.EM().fit(val, y_val)
    found, wanted = (
        em.estimate(rows, confidence_level=0.9, random_state=0) for rows in (tensor(target), target)
    )
    np.testing.assert_allclose(found.interval, wanted.interval, atol=2e-3)


# Without the extra


def test_without_the_extra(tensor, monkeypatch):
    _, _, target = data()
    given = tensor(target)
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(ImportError, match=r"pip install 'priorshift\[array-api\]'"):
        ps.adapt_proba(given, np.full(4, 0.25), [0.1, 0.2, 0.3, 0.4])
    est = ps.EM().fit(source_priors=np.full(4, 0.25))
    np.testing.assert_array_equal(est.estimate(given).priors, est.estimate(target).priors)


def test_what_is_a_tensor():
    assert is_tensor(strict.ones(2))
    for other in (np.ones(2), np.float64(1), [1], None, "text", np.ma.ones(2)):
        assert not is_tensor(other)


class OnOtherDevice:
    """An array whose numbers come back the way that one library knows."""

    def __init__(self, values):
        self.values, self.ndim, self.dtype = values, values.ndim, values.dtype


class LikeTorch(OnOtherDevice):
    def detach(self):
        return SimpleNamespace(
            cpu=lambda: SimpleNamespace(
                dtype="torch.bfloat16",
                float=lambda: SimpleNamespace(numpy=lambda: self.values.astype(np.float32)),
            )
        )


class LikeCuPy(OnOtherDevice):
    def get(self):
        return self.values


@pytest.mark.parametrize("kind", [LikeTorch, LikeCuPy])
def test_numbers_come_back_from_other_devices(kind):
    values = np.array([[0.25, 0.75]])
    np.testing.assert_array_equal(to_numpy(kind(values)), values)


def test_libraries_are_known_by_their_modules():
    kind = type("Tensor", (OnOtherDevice,), {"__module__": "torch.special"})
    assert is_tensor(kind(np.ones(2)))
    assert not is_tensor(OnOtherDevice(np.ones(2)))


@pytest.mark.parametrize("error", [TypeError, RuntimeError, ValueError])
def test_a_device_without_float64_gets_float32(error, monkeypatch):
    given, asarray = strict.asarray(np.array([[1, 0]])), strict.asarray

    def refuse(values, **how):
        if values.dtype == np.float64:
            raise error("no float64 here")
        return asarray(values, **how)

    monkeypatch.setattr(strict, "asarray", refuse)
    found = ps.adapt_proba(given, [0.5, 0.5], [0.9, 0.1])
    assert found.dtype == strict.float32
    np.testing.assert_array_equal(to_numpy(found), [[1.0, 0.0]])

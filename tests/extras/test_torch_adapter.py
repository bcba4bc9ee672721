"""Adapters as PyTorch modules: NumPy's numbers, scripted, exported, differentiated, pickled."""

import copy
import io
import pickle
import warnings

import numpy as np
import pytest

import priorshift as ps
from priorshift.calibration import CalibrationAverage, CalibrationMap

torch = pytest.importorskip("torch", reason="needs the extra `torch`")

widths = pytest.mark.parametrize("K", [2, 3, 10, 300])
kinds = pytest.mark.parametrize("kind", ["plain", "one", "many"])
both = pytest.mark.parametrize("from_logits", [False, True])


def make(K, kind, *, zeros=False, seed=0):
    rng = np.random.default_rng(seed)
    square = np.eye(K) + rng.normal(0, 0.5 / K, (K, K))
    maps = (
        CalibrationMap("ts", np.full(K, 0.7), np.zeros(K)),
        CalibrationMap("ms", square, rng.normal(0, 0.5, K), rng.uniform(0, 1e-3, K)),
    )
    average = {
        "plain": None,
        "one": maps[0],
        "many": CalibrationAverage(maps, (0.25, 0.75)),
    }[kind]
    priors = rng.dirichlet(np.ones(K))
    if zeros:
        priors[: K // 2] = 0
    return ps.Adapter(np.arange(K), rng.dirichlet(np.full(K, 5.0)), priors / priors.sum(), average)


def inputs(K, from_logits, n=120, seed=1):
    rng = np.random.default_rng(seed)
    if from_logits:
        logits = 10 * rng.normal(size=(n, K))
        logits[: n // 3, 1:] = -np.inf
        return logits
    y_proba = rng.dirichlet(np.full(K, 0.3), n)
    y_proba[: n // 3] = np.eye(K)[rng.integers(K, size=n // 3)]
    return y_proba


def expected(adapter, values, from_logits):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)  # rows without a class left
        return adapter(values, from_logits=from_logits)


@widths
@kinds
@both
@pytest.mark.parametrize("zeros", [False, True])
def test_numbers_are_numpys(K, kind, from_logits, zeros):
    adapter, values = make(K, kind, zeros=zeros), inputs(K, from_logits)
    found = adapter.to_torch(from_logits=from_logits)(torch.tensor(values))
    wanted = expected(adapter, values, from_logits)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_dtype_follows_the_input(dtype):
    adapter = make(3, "many")
    counts = np.random.default_rng(0).multinomial(64, [0.5, 0.4, 0.1], 100)
    given = torch.tensor(counts / 64).to(dtype)
    found = adapter.to_torch()(given)
    assert found.dtype == dtype
    wanted = expected(adapter, given.to(torch.float64).numpy(), False)
    close = torch.finfo(dtype).eps
    np.testing.assert_allclose(found.to(torch.float64).numpy(), wanted, rtol=0, atol=close)


def test_one_hot_rows_of_integers():
    found = make(3, "many").to_torch()(torch.eye(3, dtype=torch.int64))
    assert found.dtype == torch.float32
    wanted = expected(make(3, "many"), np.eye(3), False)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=0, atol=1e-6)


def test_device_follows_the_input():
    """The device "meta" computes shapes alone, and refuses tensors of other devices."""
    for from_logits in (False, True):
        for kind in ("plain", "many"):
            module = make(3, kind).to_torch(from_logits=from_logits)
            found = module(torch.empty((5, 3), device="meta"))
            assert (found.device.type, found.shape) == ("meta", (5, 3))


def test_nothing_is_trained():
    module = make(3, "many").to_torch()
    assert list(module.parameters()) == []
    assert module.state_dict() == {}
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), make(3, "many").to_torch(from_logits=True))
    x = torch.ones(2, 4)
    before = model(x)
    half = copy.deepcopy(model).half()  # constants must not lose precision with the model's
    assert torch.allclose(half(x.half()).float(), before, atol=2e-3)


@kinds
@both
def test_scripted_and_exported(kind, from_logits, tmp_path):
    adapter, values = make(4, kind), torch.tensor(inputs(4, from_logits)).to(torch.float32)
    module = adapter.to_torch(from_logits=from_logits)
    wanted = module(values)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer releases favour export
        warnings.simplefilter("ignore", FutureWarning)
        torch.jit.save(torch.jit.script(module), stream)
        stream.seek(0)
        scripted = torch.jit.load(stream)
    torch.testing.assert_close(scripted(values), wanted, rtol=0, atol=1e-7)
    torch.testing.assert_close(scripted(values[:7]), wanted[:7], rtol=0, atol=1e-7)
    n_samples = torch.export.Dim("n_samples")
    exported = torch.export.export(module, (values,), dynamic_shapes=({0: n_samples},))
    torch.export.save(exported, tmp_path / "adapter.pt2")
    again = torch.export.load(tmp_path / "adapter.pt2").module()
    torch.testing.assert_close(again(values[:7]), wanted[:7], rtol=0, atol=1e-7)


@kinds
@both
@pytest.mark.parametrize("zeros", [False, True])
def test_gradients_flow(kind, from_logits, zeros):
    module = make(3, kind, zeros=zeros).to_torch(from_logits=from_logits)
    values = torch.tensor(inputs(3, from_logits)).requires_grad_()
    (module(values)[:, 1:] ** 2).sum().backward()
    assert torch.isfinite(values.grad).all()
    assert values.grad[-40:].abs().sum() > 0
    inner = torch.tensor(np.random.default_rng(0).dirichlet(np.ones(3), 4)).requires_grad_()
    assert torch.autograd.gradcheck(module, (inner,))


def test_copies_and_pickles():
    adapter, values = make(3, "many"), torch.tensor(inputs(3, True))
    module = adapter.to_torch(from_logits=True)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(again(values), module(values))
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), module)
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again(torch.ones(1, 2)), model(torch.ones(1, 2)))


def test_more_dimensions_are_batches():
    adapter, values = make(3, "many"), inputs(3, False)
    found = adapter.to_torch()(torch.tensor(values.reshape(4, 30, 3)))
    np.testing.assert_allclose(
        found.reshape(-1, 3).numpy(), expected(adapter, values, False), atol=1e-12
    )


def test_an_estimate_after_a_network():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=600)
    logits = rng.normal(size=(600, 3)) + 2 * np.eye(3)[y]
    y_proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    shift = ps.Auto().fit(y_proba[:300], y[:300]).estimate(y_proba[300:][y[300:] != 0])
    found = shift.adapter.to_torch(from_logits=True)(torch.tensor(logits))
    np.testing.assert_allclose(found.numpy(), shift.adapt(y_proba), rtol=0, atol=1e-9)

"""Adapters as ONNX models, alone and within a scikit-learn pipeline, run by ONNX Runtime."""

import json
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import priorshift as ps
from priorshift.adapt import _exports
from priorshift.calibration import CalibrationAverage, CalibrationMap

onnx = pytest.importorskip("onnx", reason="needs the extra `onnx`")
runtime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

CLOSE = 1e-5
every_width = pytest.mark.parametrize("K", [2, 3, 10, 100, 1000])
kinds = pytest.mark.parametrize("kind", ["plain", "vector", "matrix"])


def calibration(K, kind, rng):
    """Return an average of maps that differ in slope, bias and floor."""
    if kind == "plain":
        return None
    square = np.eye(K) + rng.normal(0, 0.5 / K, (K, K))
    maps = (
        CalibrationMap("ts", np.full(K, 0.7), np.zeros(K)),
        CalibrationMap("vs", rng.normal(1, 0.2, K), rng.normal(0, 0.5, K), 1e-4),
        CalibrationMap("ms", square, rng.normal(0, 0.5, K), rng.uniform(0, 1e-3, K)),
    )
    if kind == "vector":
        return CalibrationAverage(maps[:2], (0.25, 0.75))
    return CalibrationAverage(maps, (0.2, 0.3, 0.5))


def make(K, kind, *, zeros, seed=0, **more):
    """Return an adapter; with zeros, some target priors are 0."""
    rng = np.random.default_rng(seed)
    priors = rng.dirichlet(np.ones(K))
    if zeros:
        priors[rng.permutation(K)[: K // 2]] = 0
    source = rng.dirichlet(np.full(K, 5.0))
    return ps.Adapter(
        np.arange(K), source, priors / priors.sum(), calibration(K, kind, rng), **more
    )


def probabilities(K, n=300, seed=1):
    """Return float32 rows, among them zeros, ones and denormal numbers."""
    rng = np.random.default_rng(seed)
    y_proba = rng.dirichlet(np.full(K, 0.3), n)
    y_proba[: n // 3] = np.eye(K)[rng.integers(K, size=n // 3)]
    y_proba[n // 3, :2] = 1e-42, 1 - y_proba[n // 3, 2:].sum()
    y_proba[n // 3 + 1] = np.eye(K)[0] + 1e-40
    return y_proba.astype(np.float32)


def run(model, values):
    session = runtime.InferenceSession(model.SerializeToString())
    return session.run(None, {session.get_inputs()[0].name: values})


def expected(adapter, values, **options):
    """Return what NumPy computes in float64 of these very values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)  # rows without a class left
        return adapter(values.astype(np.float64), **options)


@every_width
@kinds
@pytest.mark.parametrize("zeros", [False, True])
def test_probabilities(K, kind, zeros):
    adapter, values = make(K, kind, zeros=zeros), probabilities(K)
    adapted, label = run(adapter.to_onnx(), values)
    wanted = expected(adapter, values)
    assert adapted.dtype == np.float32
    np.testing.assert_allclose(adapted, wanted, rtol=0, atol=CLOSE)
    np.testing.assert_array_equal(label, wanted.argmax(axis=1))


@every_width
@kinds
@pytest.mark.parametrize("zeros", [False, True])
def test_logits(K, kind, zeros):
    adapter, rng = make(K, kind, zeros=zeros), np.random.default_rng(2)
    values = (10 * rng.normal(size=(200, K))).astype(np.float32)
    values[:50, 1:] = -np.inf
    values[50:100, 0] += 300
    adapted, _ = run(adapter.to_onnx(from_logits=True), values)
    wanted = expected(adapter, values, from_logits=True)
    np.testing.assert_allclose(adapted, wanted, rtol=0, atol=CLOSE)


@every_width
@kinds
@pytest.mark.parametrize("from_logits", [False, True])
def test_in_float32(K, kind, from_logits):
    adapter, values = make(K, kind, zeros=False), probabilities(K)
    if from_logits:
        values = np.log(np.maximum(values, np.float32(1e-30)))
    model = adapter.to_onnx(from_logits=from_logits, precision="float32")
    types = {each.data_type for each in model.graph.initializer}
    assert onnx.TensorProto.DOUBLE not in types
    wanted = expected(adapter, values, from_logits=from_logits)
    np.testing.assert_allclose(run(model, values)[0], wanted, rtol=0, atol=CLOSE)
    with pytest.raises(ValueError, match="precision must be one of"):
        adapter.to_onnx(precision="float16")


def test_rows_without_a_class_left_are_kept_in_float32_too():
    adapter = ps.Adapter([0, 1, 2], [0.4, 0.3, 0.3], [0.0, 0.6, 0.4])
    values = np.array([[1, 0, 0], [1, 1e-44, 0], [1, 3e-39, 1e-39]], np.float32)
    wanted = expected(adapter, values)
    assert wanted[0, 0] == 1
    for precision in ("float64", "float32"):
        adapted = run(adapter.to_onnx(precision=precision), values)[0]
        np.testing.assert_allclose(adapted, wanted, rtol=0, atol=CLOSE)


def test_any_batch_size_and_the_stated_opset(tmp_path):
    adapter = make(3, "matrix", zeros=False)
    path = tmp_path / "adapter.onnx"
    model = adapter.to_onnx(path)
    onnx.checker.check_model(str(path), full_check=True)
    assert [each.version for each in model.opset_import] == [_exports.OPSET]
    assert path.read_bytes() == model.SerializeToString()
    session = runtime.InferenceSession(str(path))
    values = probabilities(3)
    for n in (1, 2, 300):
        adapted, _ = session.run(None, {"y_proba": values[:n]})
        np.testing.assert_allclose(adapted, expected(adapter, values[:n]), atol=CLOSE)
    noted = {each.key: each.value for each in model.metadata_props}
    assert json.loads(noted["priorshift"]) == {}


@pytest.mark.parametrize(
    "classes", [["a", "ü"], [3, 7], [False, True], [0.5, 1.5], np.array([1, 2], np.uint64)]
)
def test_labels_are_the_classes_and_follow_costs(classes):
    adapter = ps.Adapter(classes, [0.5, 0.5], [0.9, 0.1])
    values = np.array([[0.5, 0.5], [0.05, 0.95]], np.float32)
    for each in (adapter, adapter.with_costs([[0, 1], [100, 0]])):
        label = run(each.to_onnx(), values)[1]
        assert label.tolist() == each.decide(values).tolist()
    assert adapter.decide(values).tolist() == adapter.classes.tolist()


def test_strength_and_estimates():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    y_proba = rng.dirichlet(np.ones(3), 400) / 2 + np.eye(3)[y] / 2
    shift = ps.Auto().fit(y_proba, y).estimate(y_proba[y != 0])
    values = y_proba.astype(np.float32)
    adapted = run(shift.adapter.to_onnx(), values)[0]
    np.testing.assert_allclose(adapted, shift.adapt(values), rtol=0, atol=CLOSE)
    half = make(4, "plain", zeros=True, strength=0.5)
    values = probabilities(4)
    wanted = expected(half, values)
    np.testing.assert_allclose(run(half.to_onnx(), values)[0], wanted, rtol=0, atol=CLOSE)


# Within another model


@pytest.mark.parametrize("names", [["ant", "bee", "cow"], [3, 5, 9], ["no", "yes"]], ids=str)
@pytest.mark.parametrize("kind", ["plain", "matrix"])
def test_a_pipeline_of_scikit_learn(names, kind):
    rng = np.random.default_rng(0)
    K = len(names)
    y = rng.integers(K, size=500)
    X = (rng.normal(size=(500, 4)) + rng.normal(size=(K, 4))[y]).astype(np.float32)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, np.array(names)[y])
    priors = 10.0 ** -np.arange(K)
    adapter = ps.Adapter(
        pipeline.classes_,
        np.full(K, 1 / K),
        priors / priors.sum(),
        calibration(K, kind, np.random.default_rng(0)),
    )
    joined = onnx.compose.merge_models(
        skl2onnx.to_onnx(pipeline, X[:1], options={"zipmap": False}, target_opset=17),
        adapter.to_onnx(),
        io_map=[("probabilities", "y_proba")],
        prefix2="new_",
        outputs=["new_adapted", "new_label"],
    )
    found, label = run(joined, X)
    wanted = adapter(pipeline.predict_proba(X))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=CLOSE)
    sure = np.sort(wanted)[:, -1] - np.sort(wanted)[:, -2] > 1e-4
    assert (label == adapter.classes[wanted.argmax(axis=1)])[sure].all()
    assert (label != pipeline.predict(X)).any()

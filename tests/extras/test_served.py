"""The examples that serve: HTTP with the standard library, and an MLflow model."""

import importlib.util
import json
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import priorshift as ps

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    """Import an example by its path."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def served(tmp_path):
    """Serve an adapter that was saved as JSON; return it with what asks the service."""
    adapter = ps.Adapter(["cat", "dog"], [0.5, 0.5], [0.9, 0.1]).with_costs({("dog", "cat"): 3})
    path = tmp_path / "adapter.json"
    adapter.to_json(path)
    server = load("serve").service(ps.Adapter.from_json(path), 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def ask(body):
        url = f"http://127.0.0.1:{server.server_port}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(urllib.request.Request(url, body), timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    yield adapter, ask
    server.shutdown()
    server.server_close()
    thread.join()


def test_requests_are_adapted(served):
    adapter, ask = served
    y_proba = np.random.default_rng(0).dirichlet(np.ones(2), 20)
    code, answer = ask(json.dumps({"y_proba": y_proba.tolist()}).encode())
    assert code == 200
    np.testing.assert_array_equal(answer["adapted"], adapter(y_proba))
    assert answer["decided"] == adapter.decide(y_proba).tolist()
    assert answer["classes"] == ["cat", "dog"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"y_proba": [[0.5, 0.6]]}', "sums to 1.1"),
        (b'{"y_proba": "x"}', "y_proba"),
        (b"{}", "y_proba"),
        (b"[1]", "list indices"),
        (b"nonsense", "Expecting value"),
    ],
)
def test_bad_requests_are_told_why(served, body, message):
    code, answer = served[1](body)
    assert code == 400
    assert message in answer["error"]


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_an_mlflow_model(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = pytest.importorskip("mlflow")
    example = load("mlflow_model")
    classifier, target = example.fitted()
    example.save(classifier, tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(model.predict(target), classifier.predict_proba(target))
    adapter = ps.Adapter.from_json(tmp_path / "model" / "adapter.json")
    plain = classifier.estimator_.predict_proba(target)
    np.testing.assert_allclose(adapter(plain), model.predict(target), rtol=0, atol=1e-12)
    assert abs(classifier.target_priors_[1] - 0.1) < 0.03

"""Adapters: exactly what `adapt` does, the same to the last bit after JSON, strict about it."""

import copy
import json
import os
import pickle
import warnings
from dataclasses import FrozenInstanceError
from datetime import datetime
from importlib.resources import files as resources

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import priorshift as ps
from priorshift.calibration import CalibrationAverage, CalibrationMap
from priorshift.files import read_json, sign, write_json
from tests.methods import ROADS

SCHEMA = json.loads(
    resources("priorshift").joinpath("schemas/adapter-1.schema.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
every_method = pytest.mark.parametrize("method", ROADS)


def data(K=3, n=400, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y_val = np.r_[np.arange(K), rng.integers(K, size=n - K)]
    y = rng.choice(K, n, p=np.arange(1, K + 1) / (K * (K + 1) / 2))
    draw = [rng.dirichlet(np.ones(K), n) + 2 * np.eye(K)[labels] for labels in (y_val, y)]
    val, target = (p / p.sum(axis=1, keepdims=True) for p in draw)
    return val.astype(dtype), y_val, target.astype(dtype)


def bits(adapter):
    """Return every number of an adapter as bytes."""
    arrays = [adapter.source_priors, adapter.priors, np.float64(adapter.strength)]
    if adapter.costs is not None:
        arrays.append(adapter.costs)
    if adapter.calibration is not None:
        arrays.append(np.array(adapter.calibration.weights))
        for one in adapter.calibration.maps:
            arrays += [one.slope, one.bias, np.asarray(one.floor)]
    return [(array.dtype, array.shape, array.tobytes()) for array in arrays]


def some_adapter(**changes):
    maps = (
        CalibrationMap("ms 1", np.array([[1.0, 0.1], [0.0, 0.7]]), np.array([0.1, -0.1]), 1e-3),
        CalibrationMap("ts", np.full(2, 1 / 3), np.zeros(2), np.array([1e-5, 2e-5])),
    )
    named = {
        "classes": ["cat", "dog"],
        "source_priors": [0.5, 0.5],
        "priors": [0.9, 0.1],
        "calibration": CalibrationAverage(maps, (0.25, 0.75)),
        "provenance": {"method": "auto", "versions": {"priorshift": "1"}, "gap": None},
    }
    return ps.Adapter(**named | changes)


# An adapter does what `adapt` does


@pytest.mark.parametrize(
    ("method", "dtype"), [*zip(ROADS, [np.float32, np.float64] * (len(ROADS) // 2), strict=True)]
)
def test_it_is_what_the_estimate_applies(method, dtype):
    val, y_val, target = data(dtype=dtype)
    shift = ps.get_estimator(method).fit(val, y_val).estimate(target)
    expected = shift.adapt(target)
    again = ps.Adapter.from_json(shift.adapter.to_json())
    for adapter in (shift.adapter, again, pickle.loads(pickle.dumps(shift.adapter))):
        np.testing.assert_array_equal(adapter(target), expected)
        assert adapter(target).dtype == dtype
        logits = np.log(target)
        np.testing.assert_array_equal(
            adapter(logits, from_logits=True, strength=0.5),
            shift.adapt(logits, from_logits=True, strength=0.5),
        )
    assert again == shift.adapter
    assert bits(again) == bits(shift.adapter)


def test_it_is_bayes_rule_on_calibrated_probabilities():
    val, y_val, target = data()
    shift = ps.CalibratedEM().fit(val, y_val).estimate(target)
    adapter = shift.adapter
    by_hand = shift.calibrator.apply(target) * adapter.ratio**adapter.strength
    by_hand /= by_hand.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(adapter(target), by_hand, rtol=1e-12)
    np.testing.assert_array_equal(adapter.ratio, shift.ratio)


def test_known_priors_make_an_adapter():
    y_proba = np.array([[0.5, 0.5], [0.0, 1.0]])
    adapter = ps.Adapter(["a", "b"], {"b": 0.5, "a": 0.5}, [0.9, 0.1])
    np.testing.assert_array_equal(adapter(y_proba), ps.adapt_proba(y_proba, [0.5, 0.5], [0.9, 0.1]))
    np.testing.assert_array_equal(adapter(y_proba[:, 1]), adapter(y_proba)[:, 1])


def test_provenance_says_where_it_is_from():
    val, y_val, target = data()
    shift = ps.SCML().fit(val, y_val).estimate(target)
    known = shift.adapter.provenance
    assert (known["method"], known["n_target"], known["gap"]) == ("scm-l", 400, shift.gap)
    assert known["versions"]["priorshift"] == ps.__version__
    assert datetime.fromisoformat(known["created"]).tzinfo is not None
    assert "scm-l" in repr(shift.adapter)


def test_a_source_prior_of_0_is_still_refused():
    adapter = ps.Adapter([0, 1, 2], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5])
    adapter([[0.5, 0.5, 0.0]])
    with pytest.raises(ValueError, match="source_priors is 0 for class 2"):
        adapter([[0.4, 0.5, 0.1]])
    assert adapter.ratio[2] == 0


def test_sparse_predictions_are_not_calibrated():
    from scipy.sparse import csr_array

    sparse = csr_array([[0.4, 0.6]])
    assert ps.Adapter(["a", "b"], [0.5, 0.5], [0.9, 0.1])(sparse).shape == (1, 2)
    with pytest.raises(ValueError, match="y_proba is a sparse matrix"):
        some_adapter()(sparse)
    with pytest.raises(ValueError, match="y_proba is a sparse matrix"):
        some_adapter(calibration=None).decide(sparse)


def test_nothing_can_be_changed():
    slope = np.ones(2)
    adapter = some_adapter(calibration=CalibrationMap("ts", slope, np.zeros(2)))
    slope[0] = 5
    assert adapter.calibration.maps[0].slope[0] == 1
    with pytest.raises(FrozenInstanceError):
        adapter.strength = 0.0
    with pytest.raises(ValueError, match="read-only"):
        adapter.priors[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        adapter.calibration.maps[0].slope[0] = 1
    with pytest.raises(TypeError):
        adapter.provenance["method"] = "em"
    assert copy.deepcopy(adapter) == adapter
    assert hash(copy.copy(adapter)) == hash(adapter)
    assert adapter != some_adapter()
    assert adapter != "adapter"


# Decisions


def test_decisions_follow_costs(rng):
    costs = rng.uniform(size=(3, 3))
    y_proba = rng.dirichlet(np.ones(3), 50)
    plain = ps.Adapter(["a", "b", "c"], np.full(3, 1 / 3), [0.2, 0.3, 0.5])
    adapted = plain(y_proba)
    assert (plain.decide(y_proba) == plain.classes[adapted.argmax(axis=1)]).all()
    expected = [np.argmin([p @ costs[:, d] for d in range(3)]) for p in adapted]
    adapter = ps.Adapter.from_json(plain.with_costs(costs).to_json())
    assert (adapter.decide(y_proba) == plain.classes[expected]).all()
    logits = np.log(y_proba)
    assert (adapter.decide(logits, from_logits=True) == plain.classes[expected]).all()


def test_costs_by_name_and_of_one_dimension():
    adapter = ps.Adapter([False, True], [0.5, 0.5], [0.9, 0.1])
    y_proba = np.array([0.1, 0.6, 0.97])
    assert adapter.decide(y_proba).tolist() == [False, False, True]
    assert adapter.with_costs({(True, False): 100}).decide(y_proba).tolist() == [True] * 3


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({("cat", "cow"): 1}, "costs name the class 'cow'"),
        ({"cat": 1}, r"keys \(true class, decision\)"),
        ({("cat", "dog"): np.nan}, "finite"),
        (np.ones((2, 3)), "2 x 2"),
        ([[0, True], [1, 0]], "must hold numbers"),
    ],
)
def test_costs_that_do_not_fit(costs, message):
    with pytest.raises(ValueError, match=message):
        some_adapter().with_costs(costs)


# JSON


@pytest.mark.parametrize(
    ("classes", "kind"),
    [
        (["a", "ü\ud800"], "U"),
        ([0, 1], "i"),
        (np.array([3, 7], np.int8), "i"),
        (np.array([1, 2**63], np.uint64), "u"),
        ([False, True], "b"),
        (np.array([0.1, 0.2], np.float32), "f"),
        ([np.str_("a"), np.str_("b")], "U"),
        (np.array(["x", "y"], object), "U"),
    ],
)
def test_classes_keep_their_kind(classes, kind):
    adapter = some_adapter(classes=classes)
    again = ps.Adapter.from_json(adapter.to_json())
    assert again.classes.dtype.kind == adapter.classes.dtype.kind == kind
    assert again.classes.tolist() == adapter.classes.tolist() == np.array(classes).tolist()
    VALIDATOR.validate(json.loads(adapter.to_json()))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (np.array(["2026-01-01", "2026-01-02"], "datetime64[D]"), "numbers or strings"),
        ([datetime(2026, 1, 1), datetime(2026, 1, 2)], "numbers or strings"),
        ([1, "a"], "mixes strings"),
        ([1.0, np.inf], "must be finite"),
        ([1.0, np.nan], "no label at position 1"),
        (["a", "a"], "twice"),
        (["a", "b", "c"], "3 entries"),
        (["a"], "1 entries"),
    ],
)
def test_classes_that_json_cannot_hold(classes, message):
    with pytest.raises(ValueError, match=message):
        some_adapter(classes=classes)


def test_text_and_files(tmp_path):
    adapter = some_adapter()
    path = tmp_path / "adapter.json"
    text = adapter.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    assert ps.Adapter.from_json(path) == ps.Adapter.from_json(text) == adapter
    path.write_text("\ufeff" + text, encoding="utf-8")  # as Windows' editors save it
    assert ps.Adapter.from_json(path) == adapter
    with pytest.raises(ValueError, match="pass a Path"):
        ps.Adapter.from_json(str(path))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not text in UTF-8"):
        ps.Adapter.from_json(path)
    with pytest.raises(FileNotFoundError):
        ps.Adapter.from_json(tmp_path / "none.json")


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    VALIDATOR.validate(json.loads(some_adapter().to_json()))


def changed(**changes):
    return json.dumps(some_adapter().to_dict() | changes)


def signed(text):
    """Return the same document with a true checksum, if that can be."""
    try:
        found = dict(read_json(text))
    except (ValueError, TypeError):
        return text
    found.pop("checksum", None)
    return text if "1e999" in text else write_json(sign(found))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[1, 2]", "it has no checksum"),
        ("null", "it has no checksum"),
        (changed(schema_version=2), "found 2"),
        (changed(schema_version=True), "found True"),
        (changed(schema_version="1"), "found '1'"),
        (changed(more=1), "unknown 'more'"),
        (changed(strength=float("nan")), "NaN, which is not a number of JSON"),
        (changed(strength=-0.1), r"strength must be a number in \[0, 1\]"),
        (changed(strength=True), "strength must be a number"),
        (changed(priors=[0.9, 0.2]), "priors must sum to 1"),
        (changed(priors=[1.1, -0.1]), "priors must be finite and at least 0"),
        (changed(priors=[0.5, 0.25, 0.25]), "priors must hold numbers"),
        (changed(priors=[0.5, "0.5"]), "priors must hold numbers"),
        (changed(priors=[False, True]), "priors must hold numbers"),
        (changed(priors={"cat": 0.9, "dog": 0.1}), "priors must be a list"),
        (changed(source_priors=7), "source_priors must be a list"),
        (changed(priors=[1, 10**400]), "a number of 401 digits"),
        (changed(classes="ab"), "classes must be a list"),
        (changed(classes=["a", 1]), "all of one kind"),
        (changed(classes=[True, 0]), "all of one kind"),
        (changed(classes=[["a"], ["b"]]), "all of one kind"),
        (changed(classes=[-1, 2**63]), "cannot be held exactly"),
        (changed(classes=["a\0", "b"]), "cannot be held exactly"),
        (changed(classes=[]), "all of one kind"),
        (changed(costs=[[0, 1]]), "costs must hold numbers"),
        (changed(costs={"a": 1}), "costs must be a list"),
        (changed(provenance=None), "provenance must be a mapping"),
        (changed(provenance={"a": [1]}), r"provenance\.a must be a string"),
        (changed(calibration=[]), "calibration must be a CalibrationMap, .* got list"),
        (changed(calibration={"maps": [], "weights": []}), "at least one map"),
        (changed(calibration={"maps": [{}], "weights": [1]}), r"maps\[0\] lacks 'bias', 'floor'"),
        (some_adapter().to_json().replace("0.75", "0.7"), "weights must sum to 1"),
        (some_adapter().to_json().replace("0.75", "1e999"), "damaged or was edited"),
        (some_adapter().to_json().replace('"ts"', "3"), "name must be a string"),
        (some_adapter().to_json().replace("0.001", "-0.001"), "floor must be finite and at least"),
        ('{"schema_version": 1, "schema_version": 1}', "'schema_version' twice"),
    ],
)
def test_what_does_not_fit_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        ps.Adapter.from_json(signed(text))


def test_damaged_adapters_are_refused_or_say_the_same(rng):
    adapter = some_adapter()
    text = adapter.to_json()
    refused = 0
    for _ in range(300):
        damaged = list(text)
        damaged[rng.integers(len(text))] = rng.choice(list("0123456789.,-e"))
        try:
            assert ps.Adapter.from_json("".join(damaged)) == adapter  # blanks do not count
        except ValueError:
            refused += 1
    assert refused > 200


def test_an_adapter_without_checksum_is_refused():
    with pytest.raises(ValueError, match="damaged or was edited: it has no checksum"):
        ps.Adapter.from_json(json.dumps(some_adapter().to_dict()))


@pytest.mark.skipif(os.name != "posix", reason="needs a pipe")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is a pipe or a device"):
        ps.Adapter.from_json(tmp_path / "pipe")


@pytest.mark.parametrize("name", some_adapter().to_dict())
def test_every_key_is_needed(name):
    found = {key: value for key, value in some_adapter().to_dict().items() if key != name}
    with pytest.raises(ValueError, match=name):
        ps.Adapter.from_dict(found)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(found)


finite = st.floats(allow_nan=False, allow_infinity=False)
at_least_0 = st.floats(0, allow_infinity=False)
texts = st.text(st.characters(exclude_characters="\0", codec=None), max_size=5)


@st.composite
def adapters(draw):
    K = draw(st.integers(2, 4))
    labels = draw(st.sampled_from([texts, st.integers(-(2**63), 2**63 - 1), finite]))
    classes = draw(st.lists(labels, min_size=K, max_size=K, unique_by=(str, lambda label: label)))
    vectors = st.lists(finite, min_size=K, max_size=K).map(np.array)
    moderate = st.lists(st.floats(-1e100, 1e100), min_size=K, max_size=K).map(np.array)

    def priors():
        weights = np.array(draw(st.lists(st.floats(1e-9, 1), min_size=K, max_size=K)))
        return weights / weights.sum()

    maps = []
    for _ in range(draw(st.integers(0, 3))):
        slope = draw(vectors if draw(st.booleans()) else st.tuples(*[vectors] * K).map(np.array))
        floors = st.lists(at_least_0, min_size=K, max_size=K).map(np.array)
        maps.append(CalibrationMap(draw(texts), slope, draw(vectors), draw(at_least_0 | floors)))
    weights = tuple(np.full(len(maps), 1 / max(len(maps), 1)).tolist())
    notes = st.none() | st.booleans() | st.integers() | finite | texts
    return ps.Adapter(
        classes,
        priors(),
        priors(),
        calibration=CalibrationAverage(tuple(maps), weights) if maps else None,
        strength=draw(st.floats(0, 1)),
        costs=draw(st.none() | st.tuples(*[moderate] * K).map(np.array)),
        provenance=draw(st.dictionaries(texts, notes | st.dictionaries(texts, notes), max_size=3)),
    )


@settings(max_examples=30)
@given(adapters())
def test_every_adapter_survives_json_to_the_last_bit(adapter):
    text = adapter.to_json()
    again = ps.Adapter.from_json(text)
    assert again == adapter
    assert bits(again) == bits(adapter)
    assert again.classes.tolist() == adapter.classes.tolist()
    assert again.to_json() == text
    VALIDATOR.validate(json.loads(text))


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50)
@given(adapters(), st.data())
def test_damage_is_noticed_or_harmless(adapter, draw):
    """Whatever is put anywhere: a ValueError, or an adapter that follows the schema."""
    found = adapter.to_dict()
    place, key = found, draw.draw(st.sampled_from(sorted(found)))
    while isinstance(place[key], dict | list) and place[key] and draw.draw(st.booleans()):
        place = place[key]
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = draw.draw(st.sampled_from(list(keys)))
    place[key] = draw.draw(junk)
    text = signed(json.dumps(found))
    try:
        again = ps.Adapter.from_json(text)
    except ValueError:
        return
    VALIDATOR.validate(json.loads(text))
    K = again.classes.size
    assert again.ratio.shape == (K,)
    assert json.loads(again.to_json())["classes"] == again.classes.tolist()


@settings(max_examples=40)
@given(st.text() | junk.map(json.dumps))
def test_any_text_gets_an_answer(text):
    with pytest.raises(ValueError, match="adapter"):
        ps.Adapter.from_json(text)


# Estimates


@every_method
def test_estimates_come_back_from_json(method):
    val, y_val, target = data()
    shift = ps.get_estimator(method).fit(val, y_val).estimate(target)
    again = ps.PriorEstimate.from_dict(json.loads(json.dumps(shift.to_dict())))
    assert again.to_dict() == shift.to_dict()
    np.testing.assert_array_equal(again.adapt(target), shift.adapt(target))
    assert type(again.calibrator) is type(shift.calibrator)


@pytest.mark.parametrize("classes", [[0, 1, 2], ["a", "b", "c"], [0.5, 1.0, 1.5]])
def test_estimates_of_any_classes_come_back(classes):
    val, y_val, target = data()
    est = ps.CML().fit(val, np.array(classes)[y_val], classes=classes)
    shift = est.estimate(target, confidence_level=0.9)
    for found in (shift.to_dict(), json.loads(json.dumps(shift.to_dict(), sort_keys=True))):
        again = ps.PriorEstimate.from_dict(found)
        np.testing.assert_array_equal(again.interval, shift.interval)
        np.testing.assert_array_equal(again.priors, shift.priors)
        assert again.classes.tolist() == classes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"more": 1}, "unknown 'more'"),
        ({"priors": {"a": 1.0}}, "priors must be a mapping from the classes"),
        ({"priors": [0.5, 0.5]}, "priors must be a mapping from the classes"),
        ({"calibration": {"maps": []}}, "calibration lacks 'weights'"),
    ],
)
def test_estimates_that_do_not_fit(changes, message):
    shift = ps.EM().fit(source_priors=[0.5, 0.5]).estimate([[0.9, 0.1], [0.2, 0.8]])
    with pytest.raises(ValueError, match=message):
        ps.PriorEstimate.from_dict(shift.to_dict() | changes)
    with pytest.raises(ValueError, match="lacks"):
        ps.PriorEstimate.from_dict({})


@pytest.mark.parametrize("prefix", ["", "p_"])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_come_back_as_frames(library, prefix):
    frames = pytest.importorskip(library)
    rows = np.array([[0.5, 0.5], [0.1, 0.9]])
    adapter = some_adapter(costs=[[0.0, 1.0], [30.0, 0.0]])
    frame = frames.DataFrame(
        {"id": ["x", "y"], f"{prefix}dog": rows[:, 1], f"{prefix}cat": rows[:, 0]}
    )
    found = adapter(frame)
    assert type(found) is frames.DataFrame
    assert list(found.columns) == list(frame.columns)
    expected = adapter(rows)
    np.testing.assert_array_equal(np.asarray(found[f"{prefix}cat"]), expected[:, 0])
    np.testing.assert_array_equal(np.asarray(found[f"{prefix}dog"]), expected[:, 1])
    assert list(found["id"]) == ["x", "y"]
    assert adapter.decide(frame).tolist() == adapter.decide(rows).tolist()


def test_strengths_multiply(rng):
    y_proba = rng.dirichlet(np.ones(2), 20)
    adapter = some_adapter(calibration=None, strength=0.5)
    expected = ps.adapt_proba(y_proba, [0.5, 0.5], [0.9, 0.1], strength=0.125)
    np.testing.assert_allclose(adapter(y_proba, strength=0.25), expected, rtol=1e-12)
    np.testing.assert_array_equal(adapter(y_proba, strength=0), y_proba)


def test_the_hint_to_pass_a_path_is_for_what_may_be_one():
    for text, hinted in (("adapter.json", True), ("{", False), ("x" * 600, False)):
        with pytest.raises(ValueError, match="not JSON") as error:
            ps.Adapter.from_json(text)
        assert ("pass a Path" in str(error.value)) == hinted


def test_what_an_adapter_is_shows_in_a_line():
    text = repr(some_adapter(strength=0.5, costs=[[0, 1], [2, 0]]))
    assert text == (
        "Adapter(classes=['cat', 'dog'], calibration=['ms 1', 'ts'], strength=0.5, costs=..., "
        "method='auto')"
    )
    assert "costs" not in repr(some_adapter())


def test_its_own_output_is_known_again_unless_nothing_was_changed(rng):
    adapter, y_proba = some_adapter(), rng.dirichlet(np.ones(2), 20)
    for strength in (0.0, 1.0):
        once = adapter(y_proba, strength=strength)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            adapter(once)
        already = ["adapted already" in str(one.message) for one in said]
        assert already == [True] * (strength > 0)

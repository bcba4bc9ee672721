"""PriorEstimate: frozen, picklable, plain in JSON, legible, and adapting as its estimator does."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pandas as pd
import polars as pl
import pytest

import priorshift as ps
from tests.methods import ROADS

every_road = pytest.mark.parametrize("method", ROADS)


@pytest.fixture
def data(simulate, rng):
    world = simulate(4)
    y_proba_val, y_val = world.draw(np.full(4, 0.25), 1500, rng)
    y_proba, _ = world.draw(np.array([0.1, 0.2, 0.3, 0.4]), 1500, rng)
    return y_proba_val, y_val, y_proba


def make(K=3, *, classes=None, **changes):
    """Make an estimate by hand, the target priors being the source priors reversed."""
    source = np.arange(1.0, K + 1) / (K * (K + 1) / 2)
    given = {
        "method": "scm-l",
        "classes": np.arange(K) if classes is None else np.asarray(classes),
        "priors": source[::-1],
        "source_priors": source,
        "source_priors_from": "given",
        "status": "certified",
        "gap": 1.25e-7,
        "n_iter": 9,
        "n_target": 1000,
    }
    return ps.PriorEstimate(**given | changes)


def vectors(shift):
    """Return the estimate's arrays by name."""
    values = {field.name: getattr(shift, field.name) for field in fields(shift)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


# What every estimator's result promises


@every_road
def test_adapting_is_bayes_rule_with_the_ratio(data, method):
    y_proba_val, y_val, y_proba = data
    est = ps.get_estimator(method).fit(y_proba_val, y_val)
    shift = est.estimate(y_proba)
    np.testing.assert_array_equal(shift.adapt(y_proba), est.adapt(y_proba))
    np.testing.assert_allclose(shift.ratio, shift.priors / shift.source_priors)
    np.testing.assert_allclose(shift.priors.sum(), 1.0)
    outputs = y_proba if shift.calibrator is None else shift.calibrator.apply(y_proba)
    expected = ps.adapt_proba(outputs, shift.source_priors, shift.priors, strength=shift.strength)
    np.testing.assert_allclose(shift.adapt(y_proba), expected)
    np.testing.assert_allclose(
        shift.adapt(np.log(y_proba), from_logits=True), shift.adapt(y_proba), atol=1e-12
    )
    assert shift.method == method
    assert shift.n_target == 1500
    assert len(pickle.dumps(shift)) < 3000  # no sample rows: 1500 take 48,000


@every_road
def test_an_estimator_serves_several_threads_at_once_pickled_or_not(data, method):
    y_proba_val, y_val, y_proba = data
    est = ps.get_estimator(method).fit(y_proba_val, y_val)
    parts = np.array_split(y_proba, 3)
    alone = [est.estimate(part).priors for part in parts]
    with ThreadPoolExecutor(3) as pool:
        copied = pickle.loads(pickle.dumps(est))
        together = [shift.priors for shift in pool.map(copied.estimate, parts)]
    np.testing.assert_array_equal(together, alone)


@every_road
def test_every_result_is_json(data, method):
    y_proba_val, y_val, y_proba = data
    kinds = [[0, 1, 2, 3], ["a", "b", "c", "d"], [0.5, 1.5, 2.5, 3.5]]
    classes = np.array(kinds[ROADS.index(method) % 3])
    shift = ps.get_estimator(method).fit(y_proba_val, classes[y_val]).estimate(y_proba)
    plain = json.loads(json.dumps(shift.to_dict(), allow_nan=False))
    assert plain["classes"] == classes.tolist()
    assert plain["method"] == method
    for name, vector in [*vectors(shift).items(), ("ratio", shift.ratio)]:
        if name != "classes":
            by_class = [plain[name][str(label)] for label in classes.tolist()]
            np.testing.assert_array_equal(by_class, vector)


# Frozen


def test_fields_cannot_be_set():
    shift = make()
    for name in ("priors", "status", "ratio", "new"):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            setattr(shift, name, None)


def test_arrays_are_read_only_copies():
    source = np.array([0.2, 0.8])
    shift = make(2, source_priors=source, raw=np.array([1.0, 2.0]))
    assert set(vectors(shift)) == {"classes", "priors", "source_priors", "raw"}
    for vector in vectors(shift).values():
        with pytest.raises(ValueError, match="read-only"):
            vector[0] = 0
    source[0] = 9.0  # what it was made from may change
    assert shift.source_priors[0] == 0.2


@pytest.mark.parametrize(
    "again",
    [lambda s: pickle.loads(pickle.dumps(s)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_copies_are_equal_and_as_frozen(again):
    shift = make(raw=np.array([0.1, 0.2, 0.7]), condition_number=np.inf, unseen_classes=(2,))
    other = again(shift)
    for field in fields(shift):
        np.testing.assert_array_equal(getattr(other, field.name), getattr(shift, field.name))
    assert repr(other) == repr(shift)
    for vector in vectors(other).values():
        assert not vector.flags.writeable
    y_proba = np.array([[0.2, 0.3, 0.5]])
    np.testing.assert_array_equal(other.adapt(y_proba), shift.adapt(y_proba))


# Adapting


def test_the_ratio_of_a_class_that_the_source_never_had_is_0():
    shift = make(source_priors=np.array([0.5, 0.5, 0.0]), priors=np.array([0.2, 0.3, 0.5]))
    np.testing.assert_allclose(shift.ratio, [0.4, 0.6, 0.0])


def test_adapting_refuses_other_classes_and_bad_rows():
    shift = make()
    with pytest.raises(ValueError, match="y_proba has 2 columns but there are 3 classes"):
        shift.adapt([[0.5, 0.5]])
    with pytest.raises(ValueError, match="y_proba has NaN"):
        shift.adapt([[0.5, 0.5, np.nan]])
    unseen = make(source_priors=np.array([0.5, 0.5, 0.0]))
    with pytest.raises(ValueError, match="source_priors is 0 for class 2"):
        unseen.adapt([[0.2, 0.3, 0.5]])
    with pytest.raises(ValueError, match="source_priors is 0 for class 2"):
        unseen.adapt([[0.0, 0.0, 0.0]], from_logits=True)


# As plain values


def test_to_dict_has_every_field_and_the_ratio():
    shift = make(2, classes=["no", "yes"], raw=np.array([1.5, -0.5]), unseen_classes=("no",))
    assert shift.to_dict() == {
        "method": "scm-l",
        "classes": ["no", "yes"],
        "priors": pytest.approx({"no": 2 / 3, "yes": 1 / 3}),
        "source_priors": pytest.approx({"no": 1 / 3, "yes": 2 / 3}),
        "source_priors_from": "given",
        "status": "certified",
        "gap": 1.25e-7,
        "n_iter": 9,
        "objective": None,
        "raw": {"no": 1.5, "yes": -0.5},
        "condition_number": None,
        "n_target": 1000,
        "unseen_classes": ["no"],
        "interval": None,
        "standard_error": None,
        "confidence_level": None,
        "interval_method": None,
        "estimand": None,
        "simultaneous": None,
        "calibrator": None,
        "calibration": None,
        "strength": 1.0,
        "decision": None,
        "cautions": [],
        "adapts_to": None,
        "ratio": pytest.approx({"no": 2.0, "yes": 0.5}),
    }


def test_what_json_cannot_say_becomes_null():
    odd = {"condition_number": np.inf, "gap": -np.inf, "objective": np.float64(np.inf)}
    plain = make(**odd).to_dict()
    assert [plain[name] for name in odd] == [None] * 3
    json.dumps(plain, allow_nan=False)


def test_infinities_in_vectors_become_null_as_well():
    plain = make(2, standard_error=np.array([np.inf, 0.1])).to_dict()
    assert list(plain["standard_error"].values()) == [None, 0.1]
    assert make(decision={"a": [np.inf, 1.0]}).to_dict()["decision"] == {"a": [None, 1.0]}


@pytest.mark.parametrize(
    "fields",
    [
        {"gap": np.nan},
        {"objective": np.float64("nan")},
        {"priors": np.array([np.nan, 1.0])},
        {"interval": np.array([[0.0, 1.0], [np.nan, 1.0]])},
        {"standard_error": np.array([0.1, np.nan])},
        {"decision": {"deep": [{"inside": np.nan}]}},
    ],
)
def test_an_estimate_never_holds_a_nan(fields):
    with pytest.raises(ValueError, match=rf"PriorEstimate.{next(iter(fields))} came out as NaN"):
        make(**fields)


@pytest.mark.parametrize(
    "classes",
    [np.array([0, 1, 2], np.uint8), np.array([0, 1], bool), np.array(["a", "b"]), [0.5, 1.5]],
    ids=["uint8", "bool", "str", "float"],
)
def test_numpy_classes_become_plain(classes):
    shift = make(len(classes), classes=classes)
    plain = shift.to_dict()
    assert {type(label) for label in plain["classes"]} <= {int, bool, str, float}
    assert list(plain["priors"]) == plain["classes"]
    json.dumps(plain, allow_nan=False)


def test_an_infinite_condition_number_of_a_real_estimate():
    # two classes that the classifier cannot tell apart
    y_proba = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    with pytest.warns(ps.PriorShiftWarning, match="scm: the confusion matrix is singular"):
        shift = ps.SCM().fit(y_proba, [0, 1, 0]).estimate(y_proba)
    assert shift.condition_number == np.inf
    assert "condition number of the confusion matrix: inf" in repr(shift)
    json.dumps(shift.to_dict(), allow_nan=False)


@pytest.mark.parametrize("classes", [["b", "a", "c"], [2, 0, 1]], ids=["str", "int"])
def test_to_frame_has_one_row_a_class(classes):
    shift = make(classes=classes)
    columns = {
        "class": classes,
        "source_prior": shift.source_priors,
        "prior": shift.priors,
        "ratio": shift.ratio,
    }
    pd.testing.assert_frame_equal(shift.to_frame(), pd.DataFrame(columns))
    assert isinstance(shift.to_frame("pandas"), pd.DataFrame)
    assert shift.to_frame("polars").equals(pl.DataFrame(columns))
    assert shift.to_frame("pyarrow").to_pydict() == {k: list(v) for k, v in columns.items()}


BOUNDS = {
    "interval": np.array([[0.4, 0.6], [0.25, 0.45], [0.0, 0.2]]),
    "standard_error": np.array([0.05, 0.051, 0.052]),
    "confidence_level": 0.9,
    "interval_method": "bootstrap",
    "estimand": "population",
    "simultaneous": False,
}


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_a_frame_has_the_bounds_if_there_are_any(backend):
    shift = make(**BOUNDS)
    frame = shift.to_frame(backend)
    named = ["class", "source_prior", "prior", "ratio", "lower", "upper", "standard_error"]
    assert list(frame.columns) == named
    np.testing.assert_array_equal(frame["lower"], shift.interval[:, 0])
    np.testing.assert_array_equal(frame["upper"], shift.interval[:, 1])
    np.testing.assert_array_equal(frame["standard_error"], shift.standard_error)


def test_with_interval_says_how_it_was_asked_for():
    from priorshift.intervals import IntervalRequest, PriorInterval

    request = IntervalRequest(0.8, np.random.default_rng(0), simultaneous=True, estimand="sample")
    bounds = PriorInterval(BOUNDS["interval"], BOUNDS["standard_error"], "likelihood ratio")
    plain = make()
    shift = plain.with_interval(bounds, request)
    assert plain.interval is None
    np.testing.assert_array_equal(shift.interval, BOUNDS["interval"])
    np.testing.assert_array_equal(shift.priors, plain.priors)
    said = (shift.confidence_level, shift.interval_method, shift.estimand, shift.simultaneous)
    assert said == (0.8, "likelihood ratio", "sample", True)
    again = pickle.loads(pickle.dumps(shift))
    assert repr(again) == repr(shift)
    assert not again.interval.flags.writeable


# As text


def test_repr_of_few_classes_shows_them_all_in_order():
    lines = repr(make(classes=["dog", "ant", "elephant"])).splitlines()
    assert lines[0] == (
        "PriorEstimate(method='scm-l', status='certified', gap=1.2e-07, n_classes=3, n_target=1000)"
    )
    table = [line.split() for line in lines[1:5]]
    assert table == [
        ["class", "source", "target", "points", "ratio"],
        ["dog", "16.7%", "50.0%", "+33.3", "3.00"],
        ["ant", "33.3%", "33.3%", "0", "1.00"],
        ["elephant", "50.0%", "16.7%", "−33.3", "0.333"],
    ]
    assert len({len(line) for line in lines[1:5]}) == 1  # aligned
    assert lines[5].strip().startswith("certified: ")
    assert lines[6].strip() == "source priors: given"
    assert len(lines) == 7


@pytest.mark.parametrize("K", [10, 11, 50])
def test_repr_of_many_classes_shows_those_that_moved_most(K):
    shift = make(K)
    text = repr(shift)
    shown = [int(line.split()[0]) for line in text.splitlines()[2:] if line.split()[0].isdigit()]
    if K == 10:
        assert shown == list(range(10))
        assert "moved most" not in text
    else:
        moved = np.abs(shift.priors - shift.source_priors)
        assert len(shown) == 10
        assert min(moved[shown]) >= max(np.delete(moved, shown))
        assert f"... the 10 of {K} classes that moved most" in text
    assert f"n_classes={K}" in text


def test_repr_shows_the_interval_and_what_it_is():
    lines = repr(make(**BOUNDS)).splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["class", "source", "target", "points", "ratio", "90%", "interval"],
        ["0", "16.7%", "50.0%", "+33.3", "3.00", "40.0%", "to", "60.0%"],
        ["1", "33.3%", "33.3%", "0", "1.00", "25.0%", "to", "45.0%"],
    ]
    assert len({len(line) for line in lines[1:5]}) == 1  # aligned
    assert lines[5].strip() == (
        "90% interval of the share in the population, for each class, by resampling validation "
        "and target"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"estimand": "sample"}, "share in these very rows, for each class"),
        ({"simultaneous": True}, "for all classes together"),
        ({"confidence_level": 0.995}, "99.5% interval"),
        ({"interval_method": "likelihood ratio"}, "likelihood ratios, which assume calibrated"),
        ({"interval_method": "bayesian"}, "by posterior draws"),
        ({"interval_method": "asymptotic"}, "by standard errors"),
    ],
)
def test_the_line_on_the_interval(changes, words):
    shift = make(**BOUNDS | changes)
    assert words in repr(shift)
    assert words in shift._repr_html_()
    assert repr(shift).count("interval of the share") == 1


def test_an_interval_made_by_hand_needs_no_words_on_how():
    text = repr(make(interval=BOUNDS["interval"]))
    assert "  interval of the share in the population, for each class\n" in text


def test_repr_without_a_gap_and_with_unseen_classes():
    text = repr(make(gap=None, status="direct", unseen_classes=(1, "x")))
    assert "gap" not in text.splitlines()[0]
    assert "not in validation: 1, 'x'" in text


def test_html_shows_the_same_rows():
    html = make(classes=["dog", "ant", "cow"])._repr_html_()
    for cell in ("dog", "16.7%", "50.0%", "3.00"):
        assert f"<td>{cell}</td>" in html
    assert html.count("<tr>") == 4
    assert "scm-l: certified, gap 1.2e-07, 1000 target rows" in html
    assert make(50)._repr_html_().count("<tr>") == 11
    assert "gap" not in make(gap=None, status="direct")._repr_html_()


def test_html_escapes_what_classes_are_called():
    evil = "<script>alert('x')</script>"
    html = make(classes=[evil, "a & b", "c"], unseen_classes=(evil,), source_priors_from=evil)
    html = html._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "a &amp; b" in html


def test_unclipped_ratios_of_a_singular_matrix_adapt(rng):
    """Target decisions for a class that validation never saw decided leave a sum other than 1."""
    decided = np.array([[0.7, 0.2, 0.1], [0.3, 0.8, 0.9], [0.0, 0.0, 0.0]])
    y = np.repeat([0, 1, 2], 10)
    rows = np.concatenate([np.repeat(np.eye(3), np.rint(10 * c).astype(int), axis=0)
                           for c in decided.T])  # fmt: skip
    target = np.eye(3)[rng.choice(3, 50)]
    with pytest.warns(ps.PriorShiftWarning, match="singular"):
        shift = ps.BBSE(solver="paper").fit(rows, y, source_priors=[0.5, 0.3, 0.2]).estimate(target)
    assert shift.priors.sum() == pytest.approx(1)
    raw_sum = shift.raw @ [0.5, 0.3, 0.2]
    assert abs(raw_sum - 1) > 0.01  # or there is nothing to test
    np.testing.assert_allclose(shift.ratio, shift.raw / raw_sum)
    y_proba = rng.dirichlet([1.0, 1.0, 1.0], 20)
    weighted = y_proba * shift.raw
    expected = weighted / weighted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shift.adapt(y_proba), expected, atol=1e-12)

"""Frames in, frames out: the caller's kind, columns, index and everything else."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import priorshift as ps
from priorshift.border import as_text
from priorshift.border.columns import match_columns
from priorshift.compare import compare

CLASSES = ["cat", "dog", "fox"]
SOURCE, TARGET = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
ROWS = np.random.default_rng(0).dirichlet(np.ones(3), 6)
ORDER = [2, 0, 1]
"""Of the columns of the frames: fox, cat, dog."""


def columns(form="{}", rows=ROWS):
    named = {form.format(CLASSES[k]): rows[:, k] for k in ORDER}
    return {"id": np.arange(len(rows)), **named, "site": ["n", "s"] * (len(rows) // 2)}


def pandas_frame(form="{}"):
    return pd.DataFrame(columns(form), index=[5, 5, 3, 1, 9, 0])


FRAMES = {
    "pandas": pandas_frame,
    "polars": lambda form="{}": pl.DataFrame(columns(form)),
    "pyarrow": lambda form="{}": pa.table(columns(form)),
}


@pytest.fixture(params=FRAMES)
def make(request):
    return FRAMES[request.param]


@pytest.fixture
def shift():
    named = dict(zip(CLASSES, SOURCE, strict=True))
    return ps.PriorEstimate("known", np.array(CLASSES), TARGET, SOURCE, str(named), "direct")


def matrix(frame, names):
    return np.column_stack([np.asarray(frame[name]) for name in names])


def assert_like(adapted, frame, expected, form="{}"):
    """The same kind, columns, index and other cells; new numbers in the columns of classes."""
    assert type(adapted) is type(frame)
    header = frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)
    new = adapted.column_names if isinstance(adapted, pa.Table) else list(adapted.columns)
    assert new == header
    np.testing.assert_allclose(matrix(adapted, [form.format(c) for c in CLASSES]), expected)
    for name in ("id", "site"):
        assert np.array_equal(np.asarray(adapted[name]), np.asarray(frame[name]))
    if isinstance(frame, pd.DataFrame):
        assert adapted.index.equals(frame.index)
        assert adapted["id"].dtype == frame["id"].dtype


@pytest.mark.parametrize("form", ["{}", "p_{}", "{}_prob"])
def test_estimates_adapt_frames(make, shift, form):
    frame = make(form)
    before = matrix(frame, ["id", *(form.format(c) for c in CLASSES)])
    adapted = shift.adapt(frame)
    assert_like(adapted, frame, shift.adapt(ROWS), form)
    assert np.array_equal(matrix(frame, ["id", *(form.format(c) for c in CLASSES)]), before)
    weak = shift.adapt(frame, strength=0.5)
    assert_like(weak, frame, shift.adapt(ROWS, strength=0.5), form)


def test_logits_in_frames(make, shift):
    frame = make()
    logs = FRAMES["pandas"]().assign(**{c: np.log(ROWS[:, k]) for k, c in enumerate(CLASSES)})
    if isinstance(frame, pl.DataFrame):
        logs = pl.DataFrame(logs)
    elif isinstance(frame, pa.Table):
        logs = pa.table(columns(rows=np.log(ROWS)))
    assert_like(shift.adapt(logs, from_logits=True), logs, shift.adapt(ROWS))


@pytest.mark.parametrize("named", ["classes", "mapping"])
def test_known_priors_adapt_frames(make, named):
    frame, expected = make(), ps.adapt_proba(ROWS, SOURCE, TARGET)
    if named == "classes":
        adapted = ps.adapt_proba(frame, SOURCE, TARGET, classes=CLASSES)
    else:
        priors = [dict(zip(CLASSES, p, strict=True)) for p in (SOURCE, TARGET)]
        adapted = ps.adapt_proba(frame, *priors)
    assert_like(adapted, frame, expected)


def test_bounds_come_in_frames(make):
    frame = make()
    known = {"interval": {"fox": (0.4, 0.6)}, "classes": CLASSES}
    found = ps.adapt_proba_interval(frame, SOURCE, TARGET, **known)
    plain = ps.adapt_proba_interval(ROWS, SOURCE, TARGET, **known)
    for part, expected in zip(found, plain, strict=True):
        assert_like(part, frame, expected)


def test_groups_adapt_frames(make):
    y = np.arange(60) % 3
    val = 0.2 / 3 + 0.8 * np.eye(3)[y]
    est = ps.SCML().fit(val, np.array(CLASSES)[y], classes=CLASSES)
    found = ps.estimate_groups(est, make(), ["a", "b"] * 3)
    assert_like(found.adapt(make(), ["a", "b"] * 3), make(), found.adapt(ROWS, ["a", "b"] * 3))


@pytest.mark.parametrize("form", ["{}", "p_{}"])
def test_from_validation_to_adapted(make, form, rng):
    """A fit on labels needs the class columns alone; everything after takes the whole frame."""
    y = rng.integers(3, size=300)
    val = 0.4 * rng.dirichlet(np.ones(3), 300) + 0.6 * np.eye(3)[y]
    labels = np.array(CLASSES)[y]
    frame = pd.DataFrame(val, columns=[form.format(c) for c in CLASSES])
    target = make(form)
    est = ps.SCML().fit(frame, labels)
    assert est.classes_.tolist() == CLASSES
    plain = ps.SCML().fit(val, labels, classes=CLASSES)
    np.testing.assert_array_equal(est.estimate(target).priors, plain.estimate(ROWS).priors)
    assert_like(est.adapt(target), target, plain.adapt(ROWS), form)
    with_others = frame.assign(id=1, site="n")
    np.testing.assert_array_equal(
        ps.SCML().fit(with_others, labels, classes=CLASSES).estimate(target).priors,
        plain.estimate(ROWS).priors,
    )
    assert ps.check_assumption(frame, labels, target).n_target == 6
    found = ps.assess(frame, labels, target, method="scm-l")
    assert_like(found.adapt(target), target, found.estimate.adapter(ROWS), form)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_series_of_binary_probabilities(library):
    p = np.array([0.1, 0.5, 0.9])
    shift = ps.EM().fit(source_priors=[0.5, 0.5]).estimate(p)
    if library == "pandas":
        given = pd.Series(p, index=[3, 3, 1], name="proba")
        pd.testing.assert_series_equal(
            shift.adapt(given), pd.Series(shift.adapt(p), index=[3, 3, 1], name="proba")
        )
    else:
        given = pl.Series("proba", p)
        assert shift.adapt(given).equals(pl.Series("proba", shift.adapt(p)))


def test_numbered_columns(shift):
    """pandas numbers columns without names: they are in class order."""
    frame = pd.DataFrame(ROWS, index=list("abcdef"))
    pd.testing.assert_frame_equal(
        shift.adapt(frame), pd.DataFrame(shift.adapt(ROWS), index=list("abcdef"))
    )
    numbers = ps.PriorEstimate("known", np.arange(3), TARGET, SOURCE, "given", "direct")
    mixed = pd.concat([frame[[2, 0, 1]], pd.Series("n", frame.index, name="site")], axis=1)
    adapted = numbers.adapt(mixed)
    assert list(adapted.columns) == [2, 0, 1, "site"]
    np.testing.assert_allclose(adapted[[0, 1, 2]], numbers.adapt(ROWS))


def test_float32_stays(shift):
    frame = pd.DataFrame(ROWS.astype(np.float32), columns=CLASSES)
    assert (shift.adapt(frame).dtypes == np.float32).all()


def test_arrays_give_arrays(shift):
    for given in (ROWS, ROWS.tolist()):
        assert type(shift.adapt(given)) is np.ndarray


def test_two_sets_of_columns_are_refused(shift):
    frame = pd.DataFrame(
        np.hstack([ROWS, ROWS]), columns=[f"{a}_{c}" for a in "pq" for c in CLASSES]
    )
    with pytest.raises(ValueError, match=r"y_proba: several sets of columns match the classes"):
        shift.adapt(frame)


def test_a_missing_class_is_named(shift):
    with pytest.raises(ValueError, match=r"y_proba has 2 columns but there are 3 classes"):
        shift.adapt(pd.DataFrame([[0.25, 0.75]], columns=CLASSES[:2]))


def test_a_misspelt_class_is_named(shift):
    frame = pandas_frame("p_{}").rename(columns={"p_dog": "p_dgo"})
    with pytest.raises(ValueError, match=r"no column 'p_dog'. Did you mean 'p_dgo'\? Rename it"):
        shift.adapt(frame)


@pytest.fixture(params=FRAMES)
def labelled(request, rng):
    """Validation as a frame with its labels, an id and a site; and the same as arrays."""
    y = rng.integers(3, size=300)
    val = 0.4 * rng.dirichlet(np.ones(3), 300) + 0.6 * np.eye(3)[y]
    labels = np.array(CLASSES)[y]
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[request.param]
    more = {"id": np.arange(300), "site": ["n", "s"] * 150, "species": labels}
    return make(dict(zip(CLASSES, val.T, strict=True)) | more), val, labels


def test_labels_may_be_the_name_of_a_column(labelled, make):
    frame, val, labels = labelled
    expected = ps.SCML().fit(val, labels).estimate(ROWS).priors
    est = ps.SCML().fit(frame, "species")
    assert est.classes_.tolist() == CLASSES
    np.testing.assert_array_equal(est.estimate(make()).priors, expected)
    found = ps.assess(frame, "species", make(), method="scm-l")
    np.testing.assert_array_equal(found.estimate.priors, expected)
    target = frame.rename({"species": "truth"}) if hasattr(frame, "with_columns") else frame
    name = "truth" if target is not frame else "species"
    assert ps.assess(frame, "species", target, y_target=name, method="scm-l").measured is not None
    assert ps.check_assumption(frame, "species", make()).n_target == 6
    compared = compare(frame, "species", make(), methods=["scm-l"])
    np.testing.assert_array_equal(compared.results[0].estimate.priors, expected)
    assert ps.PriorMonitor(ps.SCML()).fit(frame, "species").classes_.tolist() == CLASSES
    assert ps.BCTS().fit(frame, "species", classes=CLASSES).classes_.size == 3


def test_groups_may_be_the_name_of_a_column(labelled):
    frame, val, labels = labelled
    est = ps.SCML().fit(val, labels, classes=CLASSES)
    found = ps.estimate_groups(est, frame, "site")
    plain = ps.estimate_groups(est, val, ["n", "s"] * 150)
    np.testing.assert_array_equal(found.priors, plain.priors)
    adapted = found.adapt(frame, "site")
    assert type(adapted) is type(frame)
    np.testing.assert_allclose(matrix(adapted, CLASSES), plain.adapt(val, ["n", "s"] * 150))


def test_names_of_columns_that_are_none_are_refused(labelled):
    frame, val, labels = labelled
    with pytest.raises(ValueError, match=r"y_val is 'spesies', but y_proba_val has no such column"):
        ps.assess(frame, "spesies", val)
    with pytest.raises(ValueError, match="Did you mean 'species'"):
        ps.SCML().fit(frame, "spesies")
    with pytest.raises(ValueError, match=r"y is the text 'species'; it can name a column only if"):
        ps.SCML().fit(val, "species")
    est = ps.SCML().fit(val, labels, classes=CLASSES)
    with pytest.raises(ValueError, match="groups is the text 'site'"):
        ps.estimate_groups(est, val, "site")


def test_numbers_beside_the_classes_are_classes_only_if_rows_sum_to_one_with_them(rng):
    rows = rng.dirichlet(np.ones(3), 200)
    y = np.array(CLASSES[:2])[rng.integers(2, size=200)]
    frame = pd.DataFrame(rows, columns=CLASSES)
    assert ps.SCML().fit(frame, y).classes_.tolist() == CLASSES
    two = frame[CLASSES[:2]].div(frame[CLASSES[:2]].sum(axis=1), axis=0).assign(age=41, day="mon")
    assert ps.SCML().fit(two, y).classes_.tolist() == CLASSES[:2]


def test_rounded_probabilities_are_renormalised(make):
    rows = ROWS.round(2)
    rows[0] = [0.33, 0.33, 0.33]
    expected = rows / rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ps.renormalise(rows), expected)
    np.testing.assert_allclose(ps.renormalise(100 * rows), expected)
    frame = make()
    again = ps.renormalise(frame, classes=CLASSES)
    assert_like(again, frame, ROWS)
    assert ps.renormalise(rows.astype(np.float32)).dtype == np.float32
    refused = "row 0 of y_proba sums to 0.99, .*; if they were rounded, pass priorshift.renormalise"
    with pytest.raises(ValueError, match=refused):
        ps.SCML().fit(rows, [0, 1, 2] * 2)
    ps.SCML().fit(ps.renormalise(rows), [0, 1, 2] * 2)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[0.5, 0.2]], "sums to 0.7, too far from 1 for rounding"),
        ([[0.5, 0.5], [7.0, 0.5]], "row 1 of y_proba sums to 7.5"),
        ([[0.0, 0.0]], "row 0 of y_proba sums to 0"),
        ([[1.2, -0.2]], "a negative value"),
        ([[np.nan, 0.2]], "NaN"),
        ([0.2, 0.8], "must have shape"),
    ],
)
def test_other_rows_are_not_renormalised(rows, said):
    with pytest.raises(ValueError, match=said):
        ps.renormalise(rows)


def test_a_frame_with_an_id_is_not_renormalised_with_it():
    with pytest.raises(ValueError, match="if a column is no class, name the others with classes="):
        ps.renormalise(pd.DataFrame(ROWS, columns=CLASSES).assign(id=range(6)))


@pytest.mark.parametrize("form", ["p_{}", "{}"])
def test_whole_numbers_with_a_point_name_columns_without(form):
    frame = pd.DataFrame({form.format(k): [0.7, 0.3, 0.6] for k in (0, 1)}) / 1.0
    frame[form.format(1)] = 1 - frame[form.format(0)]
    found = ps.SCML().fit(frame, [0.0, 1.0, 0.0])
    assert found.classes_.tolist() == ["0", "1"]
    whole = ps.SCML().fit(frame, [0, 1, 0]).estimate(frame)
    assert found.estimate(frame).priors.tolist() == whole.priors.tolist()


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([2.0, -1.0], ["2", "-1"]),
        ([2.0, 1.5], ["2.0", "1.5"]),
        ([2.0, 2.0**53], ["2", "9007199254740992"]),
        ([2.0, 2.0**54], ["2.0", "1.8014398509481984e+16"]),
    ],
)
def test_labels_become_text_without_losing_digits(labels, text):
    assert as_text(np.array(labels)).tolist() == text


@pytest.mark.parametrize(
    ("header", "classes", "found"),
    [
        (["scat", "sdog"], ["cat", "dog"], False),  # within a word
        (["SCat", "SDog"], ["Cat", "Dog"], False),
        (["scoreCat", "scoreDog"], ["Cat", "Dog"], True),
        (["p1", "p2"], ["1", "2"], True),
        (["p11", "p12"], ["1", "2"], False),
    ],
)
def test_a_name_ends_where_its_word_does(header, classes, found):
    matched = match_columns(header, classes)
    assert matched == (dict(zip(classes, header, strict=True)) if found else None)


def test_a_class_without_a_column_is_named_with_the_column_that_may_be_meant():
    """As on the command line."""
    pandas = pytest.importorskip("pandas")
    y = ["cat", "dog"] * 20
    frame = pandas.DataFrame({"cat": [0.9, 0.2] * 20, "dog": [0.1, 0.8] * 20})
    typo = frame.rename(columns={"dog": "dgo"})
    said = r"y_proba_target has no column 'dog'; it has 'cat', 'dgo'.*Did you mean 'dgo'\?"
    with pytest.raises(ValueError, match=said):
        ps.assess(frame, y, typo)
    said = r"y_proba_val has no column 'dgo'; it has 'cat', 'dog'.*Did you mean 'dog'\?"
    with pytest.raises(ValueError, match=said):
        ps.assess(frame, y, frame, classes=["cat", "dgo"])

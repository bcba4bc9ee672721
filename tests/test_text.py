"""Numbers and names as a reader sees them."""

import json
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priorshift.report._page import as_json
from priorshift.text import (
    number,
    percent,
    plain,
    points,
    quoted,
    shown_names,
    shown_text,
)

ANY_TEXT = st.text(st.characters())  # lone surrogates and control characters as well


@given(ANY_TEXT)
def test_any_name_can_be_shown(name):
    shown = shown_text(name)
    assert len(shown) == len(name)
    shown.encode("utf-8")
    element = ElementTree.fromstring(f"<text>{escape(shown)}</text>")
    assert (element.text or "") == shown


@given(st.text("abcäöü <>&'\"🦔שלום"))
def test_good_names_are_left_alone(name):
    assert shown_text(name) == name


def test_names_that_are_nothing():
    assert shown_names(np.array(["", "a"])).tolist() == ["(empty)", "a"]


def test_letters_that_run_right_to_left_are_isolated():
    assert quoted("shirt") == "“shirt”"
    assert quoted("שלום") == "“\u2068שלום\u2069”"
    assert len(quoted("x" * 500)) <= 64  # quotes and isolates


@given(ANY_TEXT, st.floats(allow_nan=False, allow_infinity=False))
def test_json_survives_a_page(name, value):
    data = {"classes": [name], "value": value}
    text = as_json(data)
    assert json.loads(text) == data
    assert not set("<>&\u2028\u2029") & set(text)
    text.encode("ascii")


def test_json_knows_no_infinity():
    values = {"a": np.array([1.0, np.inf]), "b": (np.float64("nan"), np.int64(3)), "c": "x"}
    assert plain(values) == {"a": [1.0, None], "b": [None, 3], "c": "x"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"a": np.inf})


@given(st.floats(5e-5, 1))
def test_percentages_are_near_the_share(share):
    shown = float(percent(share).removesuffix("%")) / 100
    assert shown == pytest.approx(share, abs=5.1e-4 if share > 0.09 else 5.1e-5)


@given(st.floats(-1, 1))
def test_points_have_the_sign_of_the_change(change):
    shown = float(points(change).replace("−", "-"))
    assert shown == pytest.approx(100 * change, abs=0.0501)
    assert shown * change >= 0


@given(st.floats(-1e12, 1e12))
def test_numbers_keep_their_figures(value):
    shown = float(number(value).replace(",", "").replace("−", "-"))
    assert shown == pytest.approx(value, rel=5.1e-3)


def test_what_is_no_number():
    assert [number(None), number(np.nan), percent(None), percent(np.nan)] == ["–"] * 4
    assert number(np.inf) == "infinite"
    assert percent(1e-9) == "< 0.01%"

"""The page itself: whole, safe, the same every time, and of itself alone."""

import base64
import hashlib
import re
import sys
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import priorshift as ps
from priorshift.report import render_report, write_report


def hash_of(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture(params=["pets_html", "hostile_html"])
def html(request):
    return request.getfixturevalue(request.param)


def test_nothing_is_loaded_from_elsewhere(html, read):
    page = read(html)
    loading = {"src", "srcset", "data", "poster", "action", "formaction", "background", "ping"}
    for tag, attributes in page.elements:
        assert not loading & set(attributes), f"<{tag}> loads {attributes}"
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        for name in ("href", "xlink:href"):
            target = attributes.get(name, "#")
            known = ("#", "data:image/png;base64,", "https://doi.org/", "https://arxiv.org/")
            assert target.startswith(known) or target == "data:,"
        for value in attributes.values():
            assert re.fullmatch(r"#[\w-]+", re.sub(r".*url\((.*)\).*", r"\1", value or "#x")) or (
                "url(" not in (value or "")
            )
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_allows_the_page_itself_and_no_more(html, read):
    (policy,) = [meta["content"] for meta in read(html).find("meta") if "http-equiv" in meta]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert rules == {
        "default-src": "'none'",
        "style-src": hash_of(style),
        "script-src": hash_of(script),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_ids_are_unique_and_references_resolve(html, read):
    page = read(html)
    ids = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert not [name for name, times in ids.items() if times > 1]
    for _, attributes in page.elements:
        for name in ("aria-labelledby", "for", "aria-describedby"):
            if name in attributes:
                assert attributes[name] in ids
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids
        for value in attributes.values():
            for reference in re.findall(r"url\(#([^)]+)\)", value or ""):
                assert reference in ids


def test_structure(html, read):
    page = read(html)
    names = [tag for tag, _ in page.elements]
    assert page.find("html") == [{"lang": "en"}]
    images = [svg for svg in page.find("svg") if "role" in svg]
    for landmark in ("header", "nav", "main", "footer", "h1", "title"):
        assert names.count(landmark) == (1 if landmark != "title" else 1 + len(images))
    levels = [int(tag[1]) for tag in names if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert images
    for svg in images:
        assert svg["role"] == "img"
        assert page.texts[svg["aria-labelledby"]].strip()
    for table in page.tables.values():
        assert {len(row) for row in table} == {len(table[0])}


def test_hostile_names_are_text(hostile_html, hostile, read):
    page = read(hostile_html)
    assert [a.get("type") for a in page.find("script")] == ["application/json", None]
    assert not page.find("img")
    assert not page.find("b")
    assert "<h1>&lt;script&gt;alert(&#39;title&#39;)&lt;/script&gt;</h1>" in hostile_html
    shown = list(page.column("priors-table", "Class"))
    expected = [str(name) for name in hostile.classes]
    expected[-1] = "two lines\ufffd\ufffd"  # a page can hold neither NUL nor escape
    assert shown == expected
    assert page.data["estimate"]["classes"] == hostile.classes.tolist()
    assert list(page.data["estimate"]["priors"]) == hostile.classes.tolist()
    assert "</pre><script>alert(2)</script>" in page.texts["reproduce"]
    assert "<img src=x onerror=alert(3)>" in page.texts["warnings"]


def test_names_in_figures_are_text(hostile_html, read):
    figure = " ".join(re.findall(r"<figure>.*?</figure>", hostile_html, re.DOTALL))
    assert "<text" in figure
    assert "$5 - $10 {{ x }}" in figure  # neither mathematics nor a template
    assert "&lt;script&gt;alert…" in figure
    assert "שלום" in figure
    assert "🦔" in figure


@pytest.mark.usefixtures("blank_figures")
def test_only_the_date_differs_from_page_to_page(pets):
    first, later = pets.render(), pets.render(created=datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert later != first
    assert later.replace("2027-01-02", "2026-01-02") == first


def test_the_users_style_neither_matters_nor_changes(pets, plain_html):
    changed = {"font.size": 30.0, "text.color": "red", "axes.grid": True, "svg.fonttype": "path"}
    with mpl.rc_context(changed):
        before = dict(mpl.rcParams)
        assert pets.render() == plain_html
        assert dict(mpl.rcParams) == before


def test_the_picture_says_the_shares_in_words_and_in_place(pets, pets_page, pets_html):
    estimate = pets.estimate()
    report = np.array(list(pets_page.data["shares_to_report"]["priors"].values()))
    order = np.argsort(-np.abs(report - estimate.source_priors))
    names = re.findall(r'<span class="name"><bdi>(.*?)</bdi>', pets_html)
    assert names == pets.classes[order].tolist()
    found = re.findall(r'<circle class="before" cx="([\d.]+)%"', pets_html)
    scale = float(re.search(r"scale: 0 to ([\d.]+)%", pets_page.texts["shares"])[1]) / 100
    expected = 1 + 97 * estimate.source_priors[order] / scale
    np.testing.assert_allclose([float(x) for x in found], expected, atol=0.01)


@pytest.mark.slow
def test_size_of_a_thousand_classes(read):
    K, rng = 1000, np.random.default_rng(0)
    y = np.arange(2000) % K
    proba = rng.dirichlet(np.full(K, 0.02), size=y.size)
    proba[np.arange(y.size), y] += 1.0
    proba /= proba.sum(axis=1, keepdims=True)
    classes = np.array([f"a species with a longish name, {k}" for k in range(K)])
    estimator = ps.EM().fit(proba, classes[y], classes=classes)
    target = proba[rng.choice(y.size, 1000, p=(y + 1) / (y + 1).sum())]
    with threadpool_limits(1):  # threads that wait for each other slow a decomposition down
        html = render_report(
            estimator.estimate(target), y_proba_val=proba, y_val=classes[y], y_proba_target=target
        )
    assert len(html.encode()) < 3_000_000
    page = read(html)
    changes = page.values("priors-table", "Change, points")
    assert len(changes) == K
    sizes = np.abs(list(changes.values()))
    assert (np.diff(sizes) <= 1e-6).all(), "the largest change comes first"
    assert len(page.tables["decisions-table"]) <= 21
    assert html.count('class="more"') == K - 100  # what is not printed
    assert "The tests are left out: with 1,000 classes" in page.texts["shift"]
    assert "the other 990 classes" in page.texts["shares"]
    assert len(page.data["diagnostics"]["confusable"]) <= 100


@pytest.mark.usefixtures("blank_figures")
def test_write_report_is_whole_or_not_at_all(pets, tmp_path):
    path = tmp_path / "r\N{LATIN SMALL LETTER E WITH ACUTE}port.html"
    assert pets.estimate().report(path, **pets.data) == path
    first = path.read_text(encoding="utf-8")
    assert first.startswith("<!DOCTYPE html>")
    with pytest.raises(ValueError, match="y_val has 1 labels"):
        write_report(path, pets.estimate(), y_proba_val=pets.y_proba_val, y_val=["cat"])
    assert path.read_text(encoding="utf-8") == first
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_missing_package_names_the_extra(pets, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ImportError, match=rf"{package}, which is not installed: pip install jinja2"
    ):
        render_report(pets.estimate())


def test_the_line_of_python_repeats_the_verdict(tmp_path):
    rng = np.random.default_rng(0)
    y, y_target = rng.integers(2, size=400), (rng.random(400) < 0.9).astype(int)
    val, target = (0.3 + 0.4 * np.eye(2)[rows] for rows in (y, y_target))
    labelled = np.where(np.arange(400) < 60, y_target.astype(object), None)
    found = ps.assess(val, y, target, y_target=labelled, random_state=0)
    html = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "y_proba_target, y_target=y_target)" in html

"""Figures as inline SVG."""

import re
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from priorshift.report._figures import _attributes, inline_svg, report_style


def drawn(text="a label", prefix="one"):
    with report_style():
        figure = Figure(figsize=(3, 2))
        ax = figure.subplots()
        ax.plot([0, 1, 2], [0, 1, 0], color="#0072B2")
        ax.imshow([[0.0, 1.0], [1.0, 0.0]], aspect="auto")
        ax.set_title(text, fontweight="bold")
        ax.grid()
        return inline_svg(figure, prefix=prefix, title="What it <shows>")


@pytest.fixture(scope="module")
def svg():
    return drawn()


def test_it_is_an_image_with_a_name(svg):
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root[0].tag == "title"
    assert root[0].text == "What it <shows>"
    assert root[0].attrib["id"] == root.attrib["aria-labelledby"]
    assert "width" not in root.attrib, "the page sets the size"


def test_ids_begin_with_the_prefix_and_references_follow(svg):
    root = ElementTree.fromstring(svg)
    ids = {e.attrib["id"] for e in root.iter() if "id" in e.attrib}
    assert all(name.startswith("one-") for name in ids)
    references = set(re.findall(r"url\(#([^)]+)\)", svg))
    references |= {
        e.attrib["href"][1:] for e in root.iter() if e.attrib.get("href", "").startswith("#")
    }
    assert references
    assert references <= ids
    others = {e.attrib.get("id") for e in ElementTree.fromstring(drawn(prefix="two")).iter()}
    assert not ids & others


def test_text_and_lines_take_the_pages_colours(svg):
    root = ElementTree.fromstring(svg)
    labels = [e for e in root.iter("text") if e.text == "a label"]
    assert labels[0].attrib["fill"] == "currentColor"
    assert labels[0].attrib["font-weight"] in ("700", "bold")
    assert float(labels[0].attrib["font-size"].removesuffix("px")) > 8
    assert 'stroke="var(--line-strong)"' in svg
    assert "#0072b2" in svg, "colours that mean something stay"
    assert "#010203" not in svg
    assert "#040506" not in svg


def test_pictures_are_embedded(svg):
    (image,) = ElementTree.fromstring(svg).iter("image")
    assert image.attrib["href"].startswith("data:image/png;base64,")


@pytest.mark.parametrize(
    ("font", "attributes"),
    [
        ("10.5px 'DejaVu Sans'", {"font-size": "10.5px"}),
        ("italic 700 8px serif", {"font-size": "8px", "font-weight": "700"}),
        ("serif", {}),
    ],
)
def test_fonts_as_older_matplotlib_writes_them(font, attributes):
    style = f"font: {font}; text-anchor: middle"
    assert dict(_attributes("style", style, "x")) == {**attributes, "text-anchor": "middle"}

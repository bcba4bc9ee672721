"""Cases to report on, and an HTML reader that shares nothing with the report's own code."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html.parser import HTMLParser

import numpy as np
import pytest

import priorshift as ps
from priorshift.compare import compare
from priorshift.report import render_report

CREATED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VOID = {"meta", "link", "input", "br", "path", "use", "image", "rect", "circle", "line"}
METHODS = ("na", "cm", "scm-l", "em", "rlls")


@dataclass(frozen=True)
class Case:
    """Predictions of a calibrated classifier, whose target has another balance."""

    classes: np.ndarray
    y_proba_val: np.ndarray
    y_val: np.ndarray
    y_proba_target: np.ndarray
    y_target: np.ndarray

    @classmethod
    def draw(cls, classes, *, n_val=600, n_target=500, spread=1.5, dim=4, seed=0):
        K, rng = len(classes), np.random.default_rng(seed)
        means = spread * rng.standard_normal((K, dim))
        source, target = 0.5 / K + 0.5 * rng.dirichlet(np.ones(K), size=2)

        def sample(priors, n):
            y = rng.choice(K, n, p=priors)
            x = means[y] + rng.standard_normal((n, dim))
            z = x @ means.T - 0.5 * (means**2).sum(axis=1) + np.log(source)
            proba = np.exp(z - z.max(axis=1, keepdims=True))
            return proba / proba.sum(axis=1, keepdims=True), y

        names = np.asarray(classes)
        (proba_val, val), (proba_target, y) = sample(source, n_val), sample(target, n_target)
        return cls(names, proba_val, names[val], proba_target, names[y])

    def estimate(self, method="scm-l", **given):
        estimator = ps.get_estimator(method)
        estimator.fit(self.y_proba_val, self.y_val, classes=self.classes, **given)
        return estimator.estimate(self.y_proba_target)

    def compare(self, methods=METHODS, **more):
        return compare(
            self.y_proba_val,
            self.y_val,
            self.y_proba_target,
            methods=methods,
            classes=self.classes,
            **more,
        )

    @property
    def data(self):
        """What a report can be given, but for a comparison."""
        return {
            "y_proba_val": self.y_proba_val,
            "y_val": self.y_val,
            "y_proba_target": self.y_proba_target,
            "y_target": self.y_target,
        }

    def render(self, method="scm-l", **changes):
        return render_report(self.estimate(method), **{**self.data, "created": CREATED, **changes})


@dataclass
class Page(HTMLParser):
    """What an HTML page holds, read without knowing how it was made."""

    html: str
    elements: list = field(default_factory=list)
    tables: dict = field(default_factory=dict)
    texts: dict = field(default_factory=dict)
    """Text by id of the element around it."""

    def __post_init__(self):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.feed(self.html)
        self.close()
        assert not self.open, f"elements left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if tag in VOID:
            return
        self.open.append((tag, attributes))
        if tag == "table":
            self.tables[attributes["id"]] = []
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._table[-1].append(["", attributes.get("data-v")])

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open[-1][0] == tag, f"</{tag}> closes {self.open[-1]}"
        self.open.pop()

    def handle_data(self, data):
        for tag, attributes in self.open:
            if "id" in attributes:
                self.texts[attributes["id"]] = self.texts.get(attributes["id"], "") + data
            if tag in ("td", "th"):
                self._table[-1][-1][0] += data

    @property
    def _table(self):
        (identity,) = [a["id"] for tag, a in self.open if tag == "table"]
        return self.tables[identity]

    def find(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def column(self, table, name):
        """Return the texts of a column, by the text of its first cell."""
        header, *rows = self.tables[table]
        at = [text for text, _ in header].index(name)
        return {row[0][0]: row[at][0] for row in rows}

    def values(self, table, name):
        """Return the values that a column is sorted by."""
        header, *rows = self.tables[table]
        at = [text for text, _ in header].index(name)
        return {row[0][0]: float(row[at][1]) for row in rows}

    @property
    def data(self):
        return json.loads(self.texts["priorshift-data"])


@pytest.fixture(scope="session")
def draw():
    """Make a case from class names."""
    return Case.draw


@pytest.fixture(scope="session")
def read():
    """Read a page."""
    return Page


@pytest.fixture(scope="session")
def pets():
    """Make four classes with plain names."""
    return Case.draw(["cat", "dog", "hen", "pig"])


@pytest.fixture(scope="session")
def plain_html(pets):
    """Render a report without a comparison."""
    return pets.render()


@pytest.fixture(scope="session")
def pets_html(pets):
    """Render everything a report can show."""
    return pets.render(
        comparison=pets.compare(y_target=pets.y_target),
        command="priorshift report --validation 'my file.csv'",
        random_state=7,
        warnings=("look here",),
    )


@pytest.fixture(scope="session")
def pets_page(pets_html):
    return Page(pets_html)


HOSTILE = [
    "<script>alert(1)</script>",
    "</script><!--",
    "\"quotes\" & 'more'",
    "$5 - $10 {{ x }}",
    "\u202eשלום עולם",
    "🦔 <b>bold</b>",
    "a" * 300,
    "two\nlines\x00\x1b",
]


@pytest.fixture(scope="session")
def hostile():
    """Make classes whose names would break a page that does not escape them."""
    return Case.draw(HOSTILE, seed=3)


@pytest.fixture(scope="session")
def hostile_html(hostile):
    return hostile.render(
        comparison=hostile.compare(),
        title="<script>alert('title')</script>",
        command="echo '</pre><script>alert(2)</script>'",
        warnings=("<img src=x onerror=alert(3)>",),
        random_state="<i>1</i>",
    )

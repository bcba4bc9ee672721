"""Render a report: facts, words, tables and figures into one page."""

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from priorshift.assessment import Assessment
from priorshift.compare import Comparison
from priorshift.estimators import PriorEstimate
from priorshift.exceptions import missing
from priorshift.files import write_text
from priorshift.report._content import (
    about_report,
    as_json,
    page_content,
    report_data,
    title_of,
)
from priorshift.report._facts import Facts, check_inputs, gather
from priorshift.report._figures import draw_figures

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_HYPHENATED = re.compile(r"\b(?:s?cm-[lm](?:-shrunk)?|bbse-s|em-(?:labels|bcts|ts|vs))\b")


def render_report(
    estimate: PriorEstimate,
    *,
    assessment: Assessment | None = None,
    y_proba_val: ArrayLike | None = None,
    y_val: ArrayLike | None = None,
    y_proba_target: ArrayLike | None = None,
    y_target: ArrayLike | None = None,
    y_pred_val: ArrayLike | None = None,
    y_pred_target: ArrayLike | None = None,
    comparison: Comparison | None = None,
    source_label_priors: Any = None,
    title: str | None = None,
    command: str | None = None,
    options: str | None = None,
    random_state: Any = None,
    warnings: Sequence[str] = (),
    created: datetime | None = None,
) -> str:
    """Render an estimate as one self-contained HTML page.

    The page begins with the verdict of `assess`. What is not given is left out, and the page says
    what to pass for it.

    Parameters
    ----------
    estimate : PriorEstimate
        What the report is about.
    assessment : Assessment, optional
        From `priorshift.assess`. Without one the report makes its own from `y_proba_val`, `y_val`
        and `y_proba_target`, if these are given; it has no verdict otherwise, nor where the
        priors were given rather than estimated.
    y_proba_val : array-like of shape (n_val, n_classes) or (n_val,), optional
        Predicted probabilities on validation, columns in the order of `estimate.classes` or, in a
        frame, named so; 1-D is the probability of the second class.
    y_val : array-like of shape (n_val,), optional
        Validation labels: for the confusion matrix and calibration and, with `y_proba_target`, the
        verdict.
    y_proba_target : array-like of shape (n_target, n_classes) or (n_target,), optional
        Predicted probabilities on the target: for how decisions change.
    y_target : array-like of shape (n_target,), optional
        The target's labels, if there are any: for scores.
    y_pred_val, y_pred_target : array-like of shape (n_val,) and (n_target,), optional
        Decisions instead of probabilities: the report is then about the class shares, corrected
        for the errors of the decisions.
    comparison : Comparison, optional
        Other methods on the same data, from `priorshift.compare.compare`.
    source_label_priors : array-like of shape (n_classes,) or mapping, optional
        Label frequencies of the training set, for the shift test; by default the target is
        compared with validation.
    title : str, optional
        Heading of the page; by default it names the classes.
    command : str, optional
        What was run, for whoever wants to run it again.
    options : str, optional
        Options that name the data on the command line, for the command to run next.
    random_state : object, optional
        The seed that was used.
    warnings : sequence of str, default=()
        What was warned of on the way to the estimate.
    created : datetime, optional
        Date of the report, by default now. All else depends on the arguments alone.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> from priorshift.report import render_report
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
    >>> estimate = ps.EM().fit(source_priors=[0.5, 0.5], classes=["cat", "dog"]).estimate(y_proba)
    >>> html = render_report(estimate, y_proba_target=y_proba, title="Cats and dogs")
    >>> "<h1>Cats and dogs</h1>" in html
    True
    """
    require_packages()
    facts = gather(
        check_inputs(
            estimate,
            assessment=assessment,
            y_proba_val=y_proba_val,
            y_val=y_val,
            y_proba_target=y_proba_target,
            y_target=y_target,
            y_pred_val=y_pred_val,
            y_pred_target=y_pred_target,
            comparison=comparison,
            source_label_priors=source_label_priors,
            warned=tuple(map(str, warnings)),
        )
    )
    about = about_report(title or title_of(facts), command, random_state, created)
    return _render(facts, about, options)


def write_report(path: str | os.PathLike[str], estimate: PriorEstimate, **given: Any) -> Path:
    """Write a report to a file, whole or not at all.

    Parameters
    ----------
    path : path-like
        Where to write the page.
    estimate : PriorEstimate
        What the report is about.
    **given
        As for `render_report`.

    Returns
    -------
    Path
        The file written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import priorshift as ps
    >>> from priorshift.report import write_report
    >>> estimate = ps.EM().fit(source_priors=[0.5, 0.5]).estimate([0.2, 0.9, 0.8])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(Path(folder) / "report.html", estimate).name
    'report.html'
    """
    return write_text(path, render_report(estimate, **given))


def require_packages() -> None:
    """Name the extra to install where a package is missing."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise missing("a report", error.name or "jinja2", "report") from None


def _render(facts: Facts, about: dict[str, Any], options: str | None) -> str:
    environment = _environment()
    css, script = (_source(environment, f"report.{kind}") for kind in ("css", "js"))
    return environment.get_template("report.html.j2").render(
        **page_content(facts, about, options),
        figures=draw_figures(facts),
        json=as_json(report_data(facts, **about)),
        css=css,
        script=script,
        policy=_policy(css, script),
    )


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("priorshift.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["together"] = _together
    return environment


def _together(sentence: str) -> "Markup":
    """Keep lines from breaking at the hyphens of method names."""
    from markupsafe import Markup, escape

    return Markup(_HYPHENATED.sub(r'<span class="together">\g<0></span>', str(escape(sentence))))


def _source(environment: "Environment", name: str) -> str:
    """Return a file of the package as it is, to be written into the page."""
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _policy(css: str, script: str) -> str:
    """Allow this page's own style, script and pictures, and nothing else."""
    return (
        f"default-src 'none'; style-src {_hash(css)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

"""The page: facts, tables and pictures filled into a template, which holds the prose."""

import base64
import hashlib
import json
import os
import platform
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Vector
from priorshift._version import __version__
from priorshift.assessment import FEW_ROWS, Assessment, vaguest_share
from priorshift.compare import Comparison
from priorshift.estimators import PriorEstimate, Reference, traits_of
from priorshift.exceptions import missing
from priorshift.files import write_text
from priorshift.report._facts import ENOUGH, KNOWN, ROUNDING, TYPED, Facts, gather, planned_shares
from priorshift.report._figures import draw_figures, picture, place
from priorshift.report._tables import make_tables
from priorshift.text import (
    count,
    listed,
    movers,
    number,
    numbers,
    percent,
    percents,
    plain,
    plural,
    points,
    quoted,
    short_percent,
    shorten,
    shown_names,
    shown_text,
    signed_number,
)
from priorshift.words import ENOUGH_POWER

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

SCHEMA_VERSION = 3
"""Of the JSON in the page; raised when a name goes or changes its meaning."""

GUIDE = Reference(
    "The Hitchhiker’s Guide to Prior-Shift Adaptation, 2021", "https://arxiv.org/abs/2106.11695"
)
CALIBRATION = Reference("Guo et al., 2017", "https://arxiv.org/abs/1706.04599")

MOST_PAIRS = 100
"""Pairs kept of those that cannot be told apart: a thousand classes may have 100,000."""

_HYPHENATED = re.compile(
    r"\b(?:s?cm-[lm](?:-shrunk)?|bbse-s|em-(?:labels|bcts|ts|vs))\b|[\d.,]+-fold"
)


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

    The page begins with the verdict of `assess`. It leaves out what you do not give, and says what
    to pass for it.

    Parameters
    ----------
    estimate : PriorEstimate
        What the report is about.
    assessment : Assessment, optional
        From `priorshift.assess`. Without one the report makes its own from `y_proba_val`, `y_val`
        and `y_proba_target`, if you give these; it has no verdict otherwise, nor where the priors
        were given rather than estimated.
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
    about = about_page(title or _title(facts), command, random_state, created)
    names = shown_names(estimate.classes)
    traits, found = traits_of(estimate.method), facts.assessment
    papers = GUIDE, traits.reference, CALIBRATION if facts.reliability is not None else None
    return fill(
        "report.html.j2",
        about,
        _data(facts),
        facts=facts,
        found=found,
        estimate=estimate,
        shown=facts.shown,
        traits=traits,
        names=names,
        lights=judge_checks(facts),
        picture=picture(facts, names),
        moves=[(names[k], describe_move(facts, k)) for k in _biggest_moves(facts)],
        tables=make_tables(facts, names),
        figures=draw_figures(facts),
        plan_command=_plan_command(facts, options) if facts.plans else "",
        options=options,
        same=np.array_equal(facts.shown.priors, estimate.priors),
        vague=vaguest_share(facts.shown),
        vaguest=_unsure_move(facts),
        widest=None
        if facts.shown.interval is None
        else np.ptp(facts.shown.interval, axis=1).argmax(),
        rare=_rare(facts),
        estimating=sum(r.disagreement is not None for r in comparison.results) if comparison else 0,
        off=miscalibrated(facts),
        few=_few_rows(facts),
        gone=np.flatnonzero((estimate.priors <= 1e-12) & (estimate.source_priors > 1e-12)),
        unseen=_unseen(facts),
        enough=ENOUGH,
        rounding=ROUNDING,
        references=list(dict.fromkeys(paper for paper in papers if paper is not None)),
    )


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


# What the page says that depends on more than one number


def judge_checks(facts: Facts) -> dict[str, tuple[str, str]]:
    """Return a traffic light and its word for each doubt, in the order in which doubts arise."""
    lights: dict[str, tuple[str, str]] = {}
    found = facts.assessment
    if found is not None:
        test = found.shift_test
        if test is None:
            lights["shift"] = "unknown", "Not tested"
        elif test.rejected:
            lights["shift"] = "good", "Clear change"
        elif test.power >= ENOUGH_POWER:
            lights["shift"] = "good", "No change"
        else:
            lights["shift"] = "care", "Too few rows"
        if facts.decided is not None:
            lights["assumption"] = "unknown", "Cannot tell"
        elif found.explained is None:
            known = bool(found.say("nothing_changed"))
            lights["assumption"] = ("good", "No change") if known else ("unknown", "Not measured")
        elif found.kind.well_explained:
            lights["assumption"] = "good", "Explained"
        elif not found.kind.possible:
            lights["assumption"] = "poor", "Not explained"
        else:
            lights["assumption"] = "care", "In doubt"
        if found.backtest is not None:
            lights["history"] = {
                None: ("unknown", "Too few groups"),
                "adapt": ("good", "It helped"),
                "leave": ("good", "Nothing to gain"),
                "unclear": ("care", "Unclear"),
            }[found.backtest.verdict]
        if found.measured is not None:
            seen, gain = found.measured.gain, found.gain
            meet = seen.low <= gain.high and gain.low <= seen.high
            if facts.decided is not None:
                meet = found.measured.p_value is None or found.measured.p_value > 0.05
            lights["labels"] = ("good", "As expected") if meet else ("care", "Unexpected")
        if found.diagnostics is not None:
            few = found.diagnostics.effective_sample_size < FEW_ROWS
            lights["sample"] = ("care", "Few rows") if few else ("good", "Enough rows")
            if found.say("seen_before"):
                lights["sample"] = "poor", "Seen before?"
    if facts.reliability is not None:
        error, off = facts.reliability.error, miscalibrated(facts)
        if facts.estimate.calibrator is not None and (off is not None or error >= 0.05):
            lights["calibration"] = "good", "Corrected"
        elif off is None and error < 0.05:
            lights["calibration"] = "good", "Calibrated"
        else:
            lights["calibration"] = ("care", "Off") if error < 0.15 else ("poor", "Far off")
    if facts.comparison is not None and facts.comparison.disagreement is not None:
        ratio = facts.comparison.disagreement.ratio
        lights["methods"] = (
            ("good", "Agree")
            if ratio <= 1.5
            else ("poor", "Disagree")
            if facts.comparison.disagreement.n_methods > 0.25 * len(facts.comparison.estimates)
            else ("care", "Mostly agree")
        )
    return lights


def miscalibrated(facts: Facts) -> int | None:
    """Return the class whose mean probability is farthest from its share on validation, by ratio.

    None where no ratio is beyond 1.25, or where three standard errors explain it.
    """
    predicted, observed = facts.predicted, facts.observed
    if predicted is None or observed is None or facts.confusion is None:
        return None
    n = facts.confusion.class_weights.sum()
    noise = np.sqrt(np.maximum(observed, 1 / n) / n)
    ratio = np.maximum(predicted, 1 / n) / np.maximum(observed, 1 / n)
    ratio = np.where(np.abs(predicted - observed) > 3 * noise, np.maximum(ratio, 1 / ratio), 1.0)
    return int(ratio.argmax()) if ratio.max() > 1.25 else None


def describe_move(facts: Facts, k: int) -> str:
    """Say how a share moved: in times where it moved far, else from what to what."""
    before, after = float(facts.shown.source_priors[k]), float(facts.shown.priors[k])
    if before <= 1e-12:
        return f"appeared, with {short_percent(after)}"
    ratio = after / before
    if ratio < 1e-3:
        return "disappeared" if after <= 1e-12 else "all but disappeared"
    if ratio >= 1.9:
        known = {2: "roughly doubled", 3: "roughly tripled"}
        times = number(ratio, 2).removesuffix(".0")
        return known.get(round(ratio), f"grew {times}-fold")
    if ratio <= 0.55:
        parts = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth"}
        times = number(1 / ratio, 2).removesuffix(".0")
        part = parts.get(round(1 / ratio))
        return f"shrank {times}-fold" if part is None else f"shrank to {part}"
    verb = "grew" if ratio >= 1 else "shrank"
    return f"{verb} from {short_percent(before)} to {short_percent(after)}"


def _biggest_moves(facts: Facts) -> list[int]:
    """Return the class that grew most and the one that shrank most; of two classes the one."""
    change = facts.change
    ends = [int(change.argmax()), int(change.argmin())]
    moved = [k for k in ends if abs(change[k]) >= 5e-4]
    return moved[:1] if change.size == 2 else moved


def _rare(facts: Facts) -> int | None:
    """Return the rarer of two classes where accuracy says little: below 5%."""
    shares = facts.shown.priors
    rare = int(shares.argmin())
    return rare if shares.size == 2 and shares[rare] < 0.05 else None


def _few_rows(facts: Facts) -> Any:
    """Return the classes of which validation has few rows."""
    if facts.confusion is None:
        return np.array([], dtype=int)
    weights = facts.confusion.class_weights
    return np.flatnonzero((weights > 0) & (weights < ENOUGH))


def _unseen(facts: Facts) -> Any:
    """Return the classes of which validation has no row."""
    unseen = np.isin(facts.estimate.classes, list(facts.estimate.unseen_classes))
    return np.flatnonzero(unseen if facts.confusion is None else unseen | ~facts.confusion.seen)


def _unsure_move(facts: Facts) -> int | None:
    """Return the class that moved most, if its share may also be what it was."""
    shown, moved = facts.shown, _biggest_moves(facts)
    if shown.interval is None or not moved:
        return None
    low, high = shown.interval[moved[0]]
    return moved[0] if low <= shown.source_priors[moved[0]] <= high else None


def _title(facts: Facts) -> str:
    """Name a report that was given no title by its classes."""
    names = [shorten(name, 30) for name in shown_names(facts.estimate.classes)]
    if len(names) > 12:
        return f"Class balance of {len(names):,} classes"
    if len(names) > 3:
        names = [*names[:2], f"{len(names) - 2:,} other classes"]
    return f"Class balance of {listed(names)}"


PLANNED = ("--validation", "--labels", "--label-column", "--class-columns", "--predicted-column")
"""Options that name validation data, as `priorshift plan` takes them too; --logits beside them."""


def _plan_command(facts: Facts, options: str | None) -> str:
    """Return the command that plans again: with the shares typed, or from a file if many."""
    options = options or "--validation validation.csv --target target.csv"
    words = shlex.split(options)
    shown = facts.estimate if facts.decided is None else facts.shown
    kept = ["--logits"] if "--logits" in words else []
    for option, value in pairwise(words):
        kept += [option, value] if option in PLANNED else []
    plan = f"priorshift plan --width {facts.plans[0].width:g} {shlex.join(kept)}"
    if shown.confidence_level not in (None, 0.95):
        plan += f" --confidence-level {shown.confidence_level:g}"
    names = [str(name) for name in shown.classes.tolist()]
    if len(names) <= TYPED and not any(set(',"=\n') & set(name) for name in names):
        pairs = zip(names, planned_shares(shown).tolist(), strict=True)
        return f"{plan} --priors {shlex.quote(','.join(f'{k}={p:.4g}' for k, p in pairs))}"
    return f"priorshift estimate {options} --output shares.csv\n{plan} --priors shares.csv"


# The numbers as JSON


def _data(facts: Facts) -> dict[str, Any]:
    """Return the facts as plain values: those of the assessment, and what the report counted."""
    found = facts.assessment
    assessed: dict[str, Any] = {"verdict": None} if found is None else found.to_dict()
    if found is not None and found.diagnostics is not None:
        pairs = assessed["diagnostics"]["confusable"]
        kept = {"confusable": pairs[:MOST_PAIRS], "n_confusable": len(pairs)}
        assessed["diagnostics"] = {**assessed["diagnostics"], **kept}
    return dict(
        plain(
            {
                **assessed,
                "estimate": facts.estimate.to_dict(),
                "total_variation": facts.shown.total_variation,
                "n_val": facts.n_val,
                "n_target": facts.n_target,
                "decisions": _decisions_data(facts),
                "decided_shares": facts.decided,
                "confusion": _confusion_data(facts),
                "calibration": None
                if facts.reliability is None
                else {**asdict(facts.reliability), "error": facts.reliability.error},
                "target_labels": None
                if facts.scores is None
                else {
                    "priors": facts.truth,
                    "before": asdict(facts.scores[0]),
                    "after": asdict(facts.scores[1]),
                },
                "labels_needed": [plan._asdict() for plan in facts.plans],
                "comparison": facts.comparison and facts.comparison.to_dict()["methods"],
                "what_if": None
                if facts.what_if is None
                else {
                    **asdict(facts.what_if),
                    "rows": facts.what_if.rows,
                },
                "warnings": facts.warnings,
            }
        )
    )


def _decisions_data(facts: Facts) -> dict[str, Any] | None:
    if facts.routes is None or facts.flows is None:
        return None
    classes, (before, after) = facts.estimate.classes.tolist(), facts.routes
    return {
        "n_rows": int(before.sum()),
        "n_changed": facts.n_changed,
        "before": before,
        "after": after,
        "n_flows": len(facts.flows),
        "largest_flows": [
            {"from": classes[k], "to": classes[j], "rows": rows} for k, j, rows in facts.flows[:15]
        ],
    }


def _confusion_data(facts: Facts) -> dict[str, Any] | None:
    """Keep what is not 0 of the matrix: most of a large one is."""
    if facts.confusion is None or facts.conditions is None:
        return None
    counts = facts.confusion.counts
    decided, truth = counts.nonzero()
    return {
        "condition_number_hard": facts.conditions[0],
        "condition_number_soft": facts.conditions[1],
        "accuracy": float(np.trace(counts) / counts.sum()),
        "rows_of_class": facts.confusion.class_weights.astype(int),
        "counts": {
            "decision": decided,
            "class": truth,
            "rows": counts[decided, truth].astype(int),
        },
    }


# What every page needs


def about_page(
    title: str, command: str | None, random_state: Any, created: datetime | None
) -> dict[str, Any]:
    """Say what a page is called, and how it was made."""
    when = (created or datetime.now(UTC)).replace(microsecond=0)
    packages = ("numpy", "scipy", "scikit-learn")
    return {
        "title": shown_text(title),
        "created": when.isoformat(),
        "command": None if command is None else shown_text(command, keep_lines=True),
        "random_state": None if random_state is None else shown_text(str(random_state)),
        "versions": {
            "priorshift": __version__,
            "Python": platform.python_version(),
            **{package: version(package) for package in packages},
        },
    }


def fill(template: str, about: dict[str, Any], data: dict[str, Any], **content: Any) -> str:
    """Fill a template; its style, its script and its numbers are written into the page."""
    environment = _environment()
    assert environment.loader is not None
    css, script = (
        environment.loader.get_source(environment, f"report.{kind}")[0] for kind in ("css", "js")
    )
    policy = (  # the page's own style, script and pictures, and nothing else
        f"default-src 'none'; style-src {_hash(css)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    numbers = as_json({"schema_version": SCHEMA_VERSION, **about, **data})
    return environment.get_template(template).render(
        about=about, json=numbers, css=css, script=script, policy=policy, **content
    )


def as_json(data: dict[str, Any]) -> str:
    r"""Write JSON that neither ends a script element nor begins a comment.

    Examples
    --------
    >>> as_json({"class": "</script><!--"})
    '{"class":"\\u003c/script\\u003e\\u003c!--"}'
    """
    found = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return found.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


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
    environment.filters |= {
        "together": _together,
        "short": short_percent,
        "some": _some,
        "isinf": np.isinf,
        **{
            one.__name__: one
            for one in (count, number, percent, points, quoted, shown_text, signed_number)
        },
    }
    environment.globals |= {
        "plural": plural,
        "percents": percents,
        "numbers": numbers,
        "movers": movers,
        "place": place,
        "abs": abs,
        "known": KNOWN,
    }
    return environment


def _some(which: Vector, names: Sequence[str]) -> str:
    """Name a few classes of many."""
    if which.size <= 3:
        return listed([quoted(names[k]) for k in which])
    shown = ", ".join(quoted(names[k]) for k in which[:3])
    return f"{plural(which.size, 'class', 'classes')} ({shown}, …)"


def _together(sentence: str) -> "Markup":
    """Keep lines from breaking at the hyphens of method names."""
    from markupsafe import Markup, escape

    return Markup(_HYPHENATED.sub(r'<span class="together">\g<0></span>', str(escape(sentence))))


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

"""The page: facts and pictures filled into a template, which holds its tables and its prose."""

import base64
import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from priorshift import text
from priorshift._typing import Indices, Labels
from priorshift._version import __version__
from priorshift.adapt import GOAL_WORDS
from priorshift.assessment import vaguest_share
from priorshift.compare import Scores
from priorshift.estimators import PriorEstimate, Reference, traits_of
from priorshift.evidence import FEW_ROWS
from priorshift.exceptions import require
from priorshift.files import write_text
from priorshift.report._facts import ENOUGH, KNOWN, ROUNDING, Facts, gather
from priorshift.report._figures import draw_figures
from priorshift.text import listed, number, plural, quoted, short_percent, shorten, shown_text
from priorshift.words import ENOUGH_POWER, fact, say

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


def render_report(
    estimate: PriorEstimate,
    *,
    title: str | None = None,
    command: str | None = None,
    options: str | None = None,
    random_state: Any = None,
    warnings: Sequence[str] = (),
    created: datetime | None = None,
    **given: Any,
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
    facts = gather(estimate, warned=tuple(map(str, warnings)), **given)
    names, K, shown = text.shown_names(estimate.classes), estimate.classes.size, facts.shown
    if title is None:
        called = [shorten(name, 30) for name in (names if K <= 3 else names[:2])]
        called += [f"{K - 2:,} other classes"] if K > 3 else []
        title = f"Class balance of {listed(called) if K <= 12 else f'{K:,} classes'}"
    # the class that grew most and the one that shrank most; of two classes the positive one
    change = facts.change
    most = (1,) if K == 2 else (int(change.argmax()), int(change.argmin()))
    moved = [k for k in most if abs(change[k]) >= 5e-4]
    unsure = None
    if shown.interval is not None and moved:
        low, high = shown.interval[moved[0]]
        unsure = moved[0] if low <= shown.source_priors[moved[0]] <= high else None
    rows = np.zeros(0) if facts.confusion is None else facts.confusion.class_weights
    unseen = np.isin(estimate.classes, list(estimate.unseen_classes))
    papers = GUIDE, traits_of(estimate.method).reference, facts.reliability and CALIBRATION
    return fill(
        "report.html.j2",
        _data(facts),
        title=title,
        command=command,
        random_state=random_state,
        created=created,
        facts=facts,
        found=facts.assessment,
        estimate=estimate,
        shown=shown,
        traits=traits_of(estimate.method),
        names=names,
        lights=judge_checks(facts),
        picture=picture(facts, names),
        moves=[(names[k], describe_move(facts, k)) for k in moved],
        unsure=unsure,
        figures=draw_figures(facts),
        options=options,
        same=np.array_equal(shown.priors, estimate.priors),
        vague=vaguest_share(shown),
        off=miscalibrated(facts),
        few=np.flatnonzero((rows > 0) & (rows < ENOUGH)),
        gone=np.flatnonzero((estimate.priors <= 1e-12) & (estimate.source_priors > 1e-12)),
        unseen=np.flatnonzero(unseen | (rows == 0) if rows.size else unseen),
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
    require("a report", "report", "jinja2", "matplotlib")


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
            fit = found.assumption_test
            lights["assumption"] = "unknown", "Cannot tell"
            if fit is not None and fit.p_value is not None:
                lights["assumption"] = (
                    ("poor", "Drifted") if fit.rejected else ("good", "As before")
                )
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
    comparison = facts.comparison
    if comparison is not None and (odd := comparison.disagreement) is not None:
        many = odd.n_methods > 0.25 * len(comparison.estimates)
        doubt = ("poor", "Disagree") if many else ("care", "Mostly agree")
        lights["methods"] = ("good", "Agree") if odd.ratio <= 1.5 else doubt
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
    verb = "grew" if ratio >= 1 else "shrank"
    times = max(ratio, 1 / ratio)
    if times < 1.9:
        return f"{verb} from {short_percent(before)} to {short_percent(after)}"
    return f"{verb} {number(times, 2).removesuffix('.0')}-fold"


def picture(facts: Facts, names: Labels) -> dict[str, Any]:
    """Return the classes that moved most, and of more than twelve the rest together.

    The scale holds every share shown, and intervals up to twice as far: one class of which nothing
    is known must not hide the others.
    """
    shown, K = facts.shown, len(names)
    parts = {"before": shown.source_priors, "now": shown.priors}
    parts |= {} if facts.truth is None else {"truth": facts.truth}
    parts |= {} if facts.decided is None else {"decided": facts.decided}
    order = text.movers(facts.change, K if K <= 12 else 10)
    largest = max(float(part[order].max()) for part in parts.values())
    if shown.interval is not None:
        largest = max(largest, min(float(shown.interval[order, 1].max()), 2 * largest))
    rows = [
        {
            "name": shorten(names[k], 28),  # names differ at either end
            "interval": None if shown.interval is None else shown.interval[k].tolist(),
            **{name: float(part[k]) for name, part in parts.items()},
        }
        for k in order
    ]
    rest = None
    if order.size < K:
        others = np.delete(np.arange(K), order)
        sums = {name: float(part[others].sum()) for name, part in parts.items()}
        rest = {"name": f"the other {others.size:,} classes", "interval": None, **sums}
    return {"rows": rows, "rest": rest, "scale": round_up(largest), "parts": parts}


def round_up(largest: float) -> float:
    """Return the round share at which a scale ends that holds the largest.

    Examples
    --------
    >>> round_up(0.23), round_up(0.95), round_up(0.0031)
    (0.25, 1.0, 0.004)
    """
    largest = max(largest, 1e-4)
    size = 10.0 ** np.floor(np.log10(largest))
    step = float(size * next(s for s in (0.1, 0.2, 0.5, 1.0, 2.0) if largest / (s * size) <= 5))
    return float(f"{np.ceil(largest / step - 1e-9) * step:.6g}")


# The numbers as JSON


def _data(facts: Facts) -> dict[str, Any]:
    """Return the facts as plain values: those of the assessment, and what the report counted."""
    found, classes = facts.assessment, facts.estimate.classes.tolist()
    data: dict[str, Any] = {"verdict": None} if found is None else found.to_dict()
    if found is not None and found.diagnostics is not None:
        pairs = data["diagnostics"]["confusable"]
        data["diagnostics"] |= {"confusable": pairs[:MOST_PAIRS], "n_confusable": len(pairs)}
    data |= {
        "estimate": facts.estimate.to_dict(),
        "total_variation": facts.shown.total_variation,
        "n_val": facts.n_val,
        "n_target": facts.n_target,
        "decisions": None,
        "decided_shares": facts.decided,
        "confusion": None,
        "calibration": None,
        "target_labels": None,
        "labels_needed": facts.plans,
        "comparison": facts.comparison and facts.comparison.to_dict()["methods"],
        "what_if": None,
        "warnings": facts.warnings,
    }
    if facts.routes is not None and facts.flows is not None:
        data["decisions"] = {
            "n_rows": facts.routes[0].sum(),
            "n_changed": facts.n_changed,
            "before": facts.routes[0],
            "after": facts.routes[1],
            "n_flows": facts.flows[2].size,
            "largest_flows": [
                {"from": classes[k], "to": classes[j], "rows": n}
                for k, j, n in zip(*(part[:15] for part in facts.flows), strict=True)
            ],
        }
    if facts.confusion is not None and facts.conditions is not None:
        counts = facts.confusion.counts
        decided, truth = counts.nonzero()  # most of a large one is 0
        data["confusion"] = {
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
    if facts.reliability is not None:
        shown = ("rows", "confidence", "accuracy", "histogram", "error")
        data["calibration"] = {name: getattr(facts.reliability, name) for name in shown}
    if facts.scores is not None:
        before, after = map(asdict, facts.scores)
        data["target_labels"] = {"priors": facts.truth, "before": before, "after": after}
    if facts.what_if is not None:
        data["what_if"] = {**asdict(facts.what_if), "rows": facts.what_if.rows}
    return dict(text.plain(data))


# What every page needs


def fill(
    template: str,
    data: dict[str, Any],
    *,
    title: str,
    command: str | None,
    created: datetime | None,
    random_state: Any = None,
    **content: Any,
) -> str:
    """Fill a template; its style, its script and its numbers are written into the page."""
    when = (created or datetime.now(UTC)).replace(microsecond=0)
    packages = ("numpy", "scipy", "scikit-learn")
    about = {
        "title": shown_text(title),
        "created": when.isoformat(),
        "command": None if command is None else "\n".join(map(shown_text, command.splitlines())),
        "random_state": None if random_state is None else shown_text(str(random_state)),
        "versions": {
            "priorshift": __version__,
            "Python": platform.python_version(),
            **{package: version(package) for package in packages},
        },
    }
    environment = _environment()
    assert environment.loader is not None
    css, script = (
        environment.loader.get_source(environment, f"report.{kind}")[0] for kind in ("css", "js")
    )
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'"
        for part in (css, script)
    ]
    policy = (  # the page's own style, script and pictures, and nothing else
        f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}; "
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
    shows = ("count", "number", "percent", "points", "quoted", "shown_text", "signed_number")
    environment.filters |= {name: getattr(text, name) for name in shows}
    environment.filters |= {
        "short": short_percent,
        "cell": make_cell,
        "bounded": _interval_cells,
        "scores_of": _score_cells,
        "some": _name_few,
        "together": _keep_whole,
        "isinf": np.isinf,
    }
    more = ("at_level", "plural", "percents", "numbers", "movers", "short_percent", "signed")
    environment.globals |= {name: getattr(text, name) for name in (*shows, *more)}
    environment.globals["say_fact"] = lambda name, **numbers: say(fact(name, **numbers))
    environment.globals |= {"place": place, "abs": abs, "known": KNOWN, "traits_of": traits_of}
    environment.globals |= {"goal_words": GOAL_WORDS, "nan": math.nan}
    return environment


Column = tuple[str, Any, Callable[[Any], str] | None]
"""Heading, values or cells, and how a number is shown; None for text."""


def make_cell(value: Any, show: Callable[[Any], str] | None) -> tuple[str, Any]:
    """Return what is shown and, of a number, what it is sorted by; what is missing sorts last."""
    if isinstance(value, tuple):  # a cell already
        return value
    if show is None:
        return str(value), None
    if value is None or math.isnan(value):
        return text.MISSING, ""
    value = float(value)
    if math.isinf(value):
        return show(value), "Infinity" if value > 0 else "-Infinity"
    return show(value), int(value) if value.is_integer() else float(f"{value:.6g}")


def _interval_cells(reading: PriorEstimate) -> list[tuple[str, float]]:
    """Return cells of shares with their intervals."""
    shares, bounds = reading.priors.tolist(), reading.interval
    if bounds is None:
        return [(text.percent(share), share) for share in shares]
    spans = [f"{short_percent(low)[:-1]} to {short_percent(high)}" for low, high in bounds.tolist()]
    shown = zip(shares, spans, strict=True)
    return [(f"{text.percent(share)} ({span})", share) for share, span in shown]


def _score_cells(scores: Iterable[Column], side: Scores) -> list[tuple[str, Any]]:
    """Return cells of the scores on one side."""
    return [make_cell(getattr(side, name), show) for _, name, show in scores]


def place(share: float, scale: float) -> float:
    """Return where a share stands on a track, in per cent of its width."""
    return round(1 + 97 * min(share / scale, 1.0), 2)


def _name_few(which: Indices, names: Labels) -> str:
    """Name a few classes of many."""
    if which.size <= 3:
        return listed([quoted(names[k]) for k in which])
    shown = ", ".join(quoted(names[k]) for k in which[:3])
    return f"{plural(which.size, 'class', 'classes')} ({shown}, …)"


def _keep_whole(sentence: str) -> "Markup":
    """Keep lines from breaking at the hyphens of method names."""
    from markupsafe import Markup, escape

    form = r"\b(?:s?cm-[lm](?:-shrunk)?|bbse-s|em-(?:labels|bcts|ts|vs))\b|[\d.,]+-fold"
    return Markup(re.sub(form, r'<span class="together">\g<0></span>', str(escape(sentence))))

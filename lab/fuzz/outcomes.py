"""What a call may end in: a valid answer, or a refusal of ours in words."""

import dataclasses
import inspect
import json
import re
import signal
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import priorshift
from priorshift import ConvergenceWarning, PriorShiftWarning, TopK

HOME = str(Path(priorshift.__file__).parent)
OURS = (PriorShiftWarning, ConvergenceWarning)
LONGEST = 180
"""Seconds that a call may take before it counts as hanging; most take milliseconds."""

ON_SIMPLEX = {"priors", "source_priors", "source_label_priors", "target_priors_", "frequencies"}
IN_UNIT_INTERVAL = {"p_value", "power", "interval", "weight", "lower", "upper", "strength"}
# a posterior with alpha below 1 has no bound where a prior is 0
MAY_BE_INFINITE = {"pooling", "condition_number", "log_e_value", "detectable_effect", "objective"}
ROUNDING = 1e-5
SUM_TOLERANCE = 2e-3
"""The library takes rows that sum to 1 within 1e-3, and adapting keeps what they lack."""


class BadAnswerError(Exception):
    """An answer that no caller could use."""


class Proba:
    """Mark an array as probabilities: each row must be a distribution."""

    def __init__(self, values: Any) -> None:
        self.values = values


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a case ended: `failure` says what was wrong, or is None."""

    kind: str
    failure: str | None = None
    detail: str = ""


def judge(case: Callable[[], Any]) -> Outcome:
    """Run a case and judge how it ended; a case that returns text says so itself."""
    with warnings.catch_warnings(record=True) as caught, time_limit(LONGEST):
        warnings.simplefilter("always")
        try:
            answer = case()
            require_valid(answer)
            outcome = Outcome(answer if isinstance(answer, str) else "answered")
        except (ValueError, TypeError) as error:
            outcome = refusal(error)
        except BadAnswerError as error:
            outcome = Outcome("bad answer", f"bad answer: {error}", traceback.format_exc())
        except Exception as error:
            outcome = _fault(error, "not a ValueError or TypeError")
    if outcome.failure is None:
        strange = [w for w in caught if not issubclass(w.category, OURS) and not _of_labels(w)]
        if strange:
            w = strange[0]
            text = f"{w.category.__name__}: {w.message} ({_short(w.filename)}:{w.lineno})"
            return Outcome("warning", f"a warning that is not ours: {text}")
    return outcome


def _of_labels(warning: warnings.WarningMessage) -> bool:
    """Tell whether scikit-learn wonders about labels given to a classifier, as it always does."""
    wonders = ("The number of unique classes is greater", "A column-vector y was passed")
    return str(warning.message).startswith(wonders)


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in code that hangs, where the system has alarms."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeoutError(f"no answer within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# Refusals


def refusal(error: Exception) -> Outcome:
    """Judge an error: raised by our own code, naming an argument, with what to do."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    # NumPy raises without a frame of its own, so the line must be a raise, not a call
    ours = frame.filename.startswith(HOME) and (frame.line or "").startswith("raise ")
    if _scikit_learns(error, frame):
        return Outcome("refused", None, f"{type(error).__name__}: {error}")
    if not ours:
        return _fault(error, "the message is not ours")
    message = str(error)
    if "came out as NaN" in message:
        return _fault(error, "nothing but the last line of defence refused this")
    if not _ARGUMENTS.search(message):
        return _fault(error, "the message names no argument")
    if not _REMEDY.search(message):
        return _fault(error, "the message has no remedy")
    return Outcome("refused", None, f"{type(error).__name__}: {message}")


def _scikit_learns(error: Exception, frame: traceback.FrameSummary) -> bool:
    """Tell whether scikit-learn speaks of what is its own: features, and models not fitted."""
    if type(error).__name__ == "NotFittedError":
        return True
    within = [f.filename for f in traceback.extract_tb(error.__traceback__)]
    model = any("linear_model" in name or "naive_bayes" in name for name in within)
    wrapped = any(name.startswith(f"{HOME}/sklearn") for name in within)
    return "sklearn" in frame.filename and (model or wrapped)


def _fault(error: Exception, what: str) -> Outcome:
    ours = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(HOME)]
    where = f"{_short(ours[-1].filename)}:{ours[-1].lineno}" if ours else "outside priorshift"
    text = f"{what}: {type(error).__name__}: {error} ({where})"
    shown = "".join(traceback.format_exception(error))
    return Outcome("fault", text, shown)


def _short(filename: str) -> str:
    return filename.removeprefix(f"{HOME}/")


def _arguments() -> re.Pattern[str]:
    """Collect the names of all public arguments, and the nouns that stand for them."""
    names = {"validation", "target", "classes", "columns", "header", "class", "row", "rows"}
    for name in priorshift.__all__:
        thing = getattr(priorshift, name)
        if not callable(thing):
            continue
        functions = [thing, *(f for _, f in inspect.getmembers(thing, inspect.isroutine))]
        for function in functions:
            try:
                names.update(inspect.signature(function).parameters)
            except (ValueError, TypeError):
                continue
    names |= {"y_target", "methods", "groups", "path", "estimate", "estimator", "adapter"}
    names -= {"self", "args", "kwargs", "_", "__"}
    return re.compile(rf"(?<!\w)({'|'.join(sorted(map(re.escape, names), key=len)[::-1])})(?!\w)")


_ARGUMENTS = _arguments()
_REMEDY = re.compile(
    r"must|requires|; |\. [A-Z]|pass |give|use |needs? |add |take|choose|one of|leave|read as"
)


# Answers


def require_valid(answer: Any, name: str = "answer", owner: str = "") -> None:
    """Go through an answer, and raise BadAnswerError for what is not valid in it."""
    if isinstance(answer, Proba):
        _require_distributions(answer.values, name)
    elif isinstance(answer, np.ndarray | float | np.floating):
        _require_numbers(np.asarray(answer), name, owner)
    elif isinstance(answer, tuple) and hasattr(answer, "_fields"):
        for field in answer._fields:
            require_valid(getattr(answer, field), field, type(answer).__name__)
    elif dataclasses.is_dataclass(answer) and not isinstance(answer, TopK | type):
        _require_valid_result(answer)
    elif isinstance(answer, Mapping):
        for key, value in answer.items():
            require_valid(value, str(key), owner)
    elif isinstance(answer, list | tuple):
        for value in answer:
            require_valid(value, name, owner)


def _require_valid_result(result: Any) -> None:
    kind = type(result).__name__
    for field in dataclasses.fields(result):
        require_valid(getattr(result, field.name), field.name, kind)
    _require_interval_holds(result)
    repr(result)
    if hasattr(result, "_repr_html_"):
        result._repr_html_()
    if hasattr(result, "to_dict"):
        try:
            json.dumps(result.to_dict(), allow_nan=False)
        except (ValueError, TypeError) as error:
            raise BadAnswerError(f"{kind}.to_dict() is no JSON: {error}") from error
    if hasattr(result, "to_frame"):
        result.to_frame()


def _require_interval_holds(result: Any) -> None:
    interval = getattr(result, "interval", None)
    if interval is None:
        return
    lower, upper = interval[..., 0], interval[..., 1]
    if (lower > upper).any():
        raise BadAnswerError(f"an interval of {type(result).__name__} ends before it begins")
    priors = result.priors
    if (priors < lower - ROUNDING).any() or (priors > upper + ROUNDING).any():
        if getattr(result, "method", "") == "auto":
            return  # its interval is of the label shares
        raise BadAnswerError(f"an interval of {type(result).__name__} misses the estimate")


def _require_numbers(values: np.ndarray, name: str, owner: str) -> None:
    where = f"{owner}.{name}" if owner else name
    if values.dtype.kind not in "fc":
        return
    if np.isnan(values).any():
        raise BadAnswerError(f"{where} has NaN")
    unbounded = name in MAY_BE_INFINITE or where == "GroupEstimates.gap"
    if not unbounded and np.isinf(values).any():
        raise BadAnswerError(f"{where} is infinite")
    if name in ON_SIMPLEX:
        _require_distributions(values, where, ROUNDING)
    if name in IN_UNIT_INTERVAL and ((values < -ROUNDING) | (values > 1 + ROUNDING)).any():
        raise BadAnswerError(f"{where} is outside [0, 1]")
    if name == "standard_error" and (values < 0).any():
        raise BadAnswerError(f"{where} is negative")


def _require_distributions(values: Any, where: str, tolerance: float = SUM_TOLERANCE) -> None:
    values = _as_array(values)
    if values.dtype.kind != "f":
        raise BadAnswerError(f"{where} are of type {values.dtype}")
    if not np.isfinite(values).all():
        raise BadAnswerError(f"{where} are not finite")
    if (values < 0).any() or (values > 1 + tolerance).any():
        raise BadAnswerError(f"{where} are outside [0, 1]")
    if values.ndim == 1 and tolerance == SUM_TOLERANCE:
        return  # the probability of a positive class alone
    if (abs(values.sum(axis=-1, dtype=np.float64) - 1) > tolerance).any():
        raise BadAnswerError(f"{where} do not sum to 1")


def _as_array(values: Any) -> np.ndarray:
    if hasattr(values, "toarray"):
        return values.toarray()
    if hasattr(values, "to_numpy"):
        return values.to_numpy()
    return np.asarray(values)


# Inputs


def fingerprint(value: Any) -> Any:
    """Return what changes when somebody writes to an input."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        # a masked array's own tobytes fills in 1e20, which float16 does not hold
        masked = np.ma.getmaskarray(value).tobytes()
        return np.ma.getdata(value).tobytes(), masked, value.dtype.str, value.shape
    if isinstance(value, np.ndarray | list | tuple | dict):
        return repr(value)
    if hasattr(value, "tocsr"):
        return repr(value.tocoo().data.tolist())
    if hasattr(value, "to_numpy") and not isinstance(value, types.GeneratorType):
        return repr(value)
    return None

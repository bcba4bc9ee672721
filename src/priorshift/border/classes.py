"""The classes: their names and order, the labels that are known, decisions, and class priors."""

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from priorshift._typing import NUMBERS, Indices, Labels, Vector
from priorshift.border.check import (
    Predictions,
    are_positions,
    as_array,
    as_float,
    as_mapping,
    check_proba,
    column_of,
    is_missing,
    read_labels,
    require_unique,
)
from priorshift.border.columns import NEGATIVE_NAMES, POSITIVE_NAMES, as_text
from priorshift.border.rows import SUM_TOLERANCE, Block, Rows, Table, map_reduce
from priorshift.border.sparse import SparseTable
from priorshift.exceptions import PriorShiftWarning, argument, warn_user
from priorshift.text import brief, some

NO_PRIOR = 1e-30
"""A prior up to this counts as 0: dividing by it would be meaningless."""

FAR_HIGHER, SURE = 0.2, 4.0
"""Another order of columns is worth a warning if it raises accuracy and mean recall by the first,
and accuracy by so many standard errors too."""

FEW_ROWS, FEW_PER_CLASS = 500, 5
"""Rows that show, in most cases, that no other order of columns can be far better."""


def read_labelled(
    y_proba: Any,
    y: Any,
    classes: ArrayLike | None = None,
    *,
    name: str = "y_proba",
    label_name: str = "y",
    tables: bool = False,
) -> tuple[Labels, Predictions, Indices]:
    """Check predictions beside their labels: classes, rows in their order, labels as positions.

    `y` may be the name of a column of the frame `y_proba`.

    Examples
    --------
    >>> classes, rows, y = read_labelled([[0.9, 0.1], [0.4, 0.6]], ["cat", "dog"])
    >>> classes.tolist(), rows.shape, y.tolist()
    (['cat', 'dog'], (2, 2), [0, 1])
    """
    y_proba, y = column_of(y_proba, y, label_name, name)
    labels = read_labels(y, name=label_name)
    predictions = check_proba(y_proba, name, tables=tables, classes=classes, labels=labels)
    labels = read_labels(labels, predictions.values.shape[0], label_name)
    names = settle_classes(predictions, labels, classes)
    return names, ordered(predictions, names, name), encode_labels(labels, names, label_name)


def settle_classes(
    predictions: Predictions,
    labels: Labels | None = None,
    classes: ArrayLike | None = None,
    name: str = "y_proba",
) -> Labels:
    """Name the columns: by `classes`, otherwise by a frame's header, otherwise by the labels.

    Without `classes` or a header, the sorted labels name the columns if there are exactly K of
    them; otherwise integer labels stand for columns 0..K-1.
    """
    n_columns = predictions.values.shape[1]
    if classes is not None:
        return check_classes(classes, n_columns)
    if predictions.names is not None and not are_positions(predictions.names):
        return np.asarray(predictions.names)
    if labels is None:
        return np.arange(n_columns)
    found = np.unique(labels)
    if predictions.binary and not set(found.tolist()) <= {0, 1} and found.tolist() != [-1, 1]:
        raise ValueError(
            "y_proba is 1-D and the labels do not say which class it is the probability of; pass "
            "classes=[negative, positive]."
        )
    if found.size == n_columns:
        if said := by_case(found):
            warn_user(said, PriorShiftWarning)
        return found
    if found.dtype.kind in "iub" and found.size and found[0] >= 0 and found[-1] < n_columns:
        return np.arange(n_columns)
    raise ValueError(
        f"y has {found.size} distinct labels but {name} has {n_columns} columns, so the columns "
        f"cannot be named; pass {argument('class_columns', 'classes=')} in their order."
    )


def by_case(names: Labels) -> str:
    """Say which names differ only by case, or by blanks around them; single letters may.

    Examples
    --------
    >>> by_case(np.array(["PASS", "fail", "pass"]))
    "labels differ only by case: 'PASS', 'pass'; spell them alike if they are one class."
    """
    if names.dtype.kind != "U":
        return ""
    folded = np.char.strip(np.char.lower(names))
    unique, times = np.unique(folded, return_counts=True)
    alike = names[np.isin(folded, unique[(times > 1) & (np.char.str_len(unique) > 1)])]
    if not alike.size:
        return ""
    return (
        f"labels differ only by case: {some(alike.tolist())}; spell them alike if they are one "
        "class."
    )


def check_classes(classes: ArrayLike, n_columns: int | None = None) -> Labels:
    """Check the names of classes: each once, and as many as columns where there are any."""
    named = read_labels(classes, None, "classes")
    if n_columns is not None and named.size != n_columns:
        raise ValueError(
            f"classes has {named.size} entries but y_proba has {n_columns} columns; name every "
            "column once, in order."
        )
    require_unique(named.tolist(), "classes")
    return named


def classes_of_priors(priors: Any, classes: ArrayLike | None = None) -> Labels:
    """Name the classes if there are only priors: by `classes`, otherwise by sorted keys."""
    priors = as_mapping(priors)
    n_classes = 2 if isinstance(priors, Real) else 0  # one number is that of the positive class
    if isinstance(priors, Mapping):
        classes, n_classes = np.unique(list(priors)) if classes is None else classes, len(priors)
    elif not n_classes:
        values = as_array(priors, "source_priors")
        if values.ndim != 1:
            raise ValueError(
                "source_priors must be a vector or a mapping, one prior per class; got "
                f"{brief(priors)}."
            )
        n_classes = values.size
    return np.arange(n_classes) if classes is None else check_classes(classes, n_classes)


def read_decisions(
    y_pred: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
) -> tuple[Labels, Indices, Any]:
    """Read decisions and labels; return classes and both as positions in them.

    Without `classes`, the sorted decisions and labels name the classes.

    Examples
    --------
    >>> read_decisions(["good", "bad", "good"], ["good", "good", "bad"])
    (array(['bad', 'good'], dtype='<U4'), array([1, 0, 1]), array([1, 1, 0]))
    """
    if isinstance(y_pred, Predictions):
        names, rows, encoded = read_labelled(y_pred, y, classes, tables=True)
        return names, rows.decided, encoded  # type: ignore[return-value]
    decided, labels = read_labels(y_pred, name="y_pred"), read_labels(y)
    if labels.size != decided.size:
        raise ValueError(
            f"y has {labels.size} labels but y_pred has {decided.size} decisions; give one of "
            "each per row."
        )
    if classes is None:
        if (decided.dtype.kind == "U") != (labels.dtype.kind == "U"):
            raise ValueError(
                f"y_pred and y have different types (y_pred: {some(decided[:3].tolist())}; y: "
                f"{some(labels[:3].tolist())}); use the same names in both."
            )
        names = np.unique(np.concatenate([decided, labels]))
        if said := by_case(names):
            warn_user(said, PriorShiftWarning)
    else:
        names = check_classes(classes)
    if names.size < 2:
        raise ValueError(
            f"y_pred and y know one class only ({some(names.tolist())}); name all classes with "
            "classes=."
        )
    return names, encode_labels(decided, names, "y_pred"), encode_labels(labels, names)


def as_decisions(y_pred: Any, classes: Labels) -> Predictions:
    """Read decisions for `classes` as rows that can go wherever predictions go.

    Examples
    --------
    >>> import numpy as np
    >>> as_decisions(["b", "a"], np.array(["a", "b"])).decided
    array([1, 0])
    """
    decided = encode_labels(read_labels(y_pred, name="y_pred"), classes, "y_pred")
    return Predictions.from_decisions(decided, classes.size)


def read_proba(
    y_proba: Any,
    classes: Labels,
    name: str = "y_proba",
    *,
    tables: bool = False,
    named: bool = False,
) -> Predictions:
    """Check probabilities of known classes; columns come in their order.

    With `named`, a frame came before, and an array gets a warning: its order cannot be checked.
    """
    predictions = check_proba(y_proba, name, tables=tables, classes=classes)
    if named:
        warn_of_missing_names(y_proba, classes, name)
    return ordered(predictions, classes, name)


def ordered(predictions: Predictions, classes: Labels, name: str = "y_proba") -> Predictions:
    """Return predictions with columns in the order of `classes`, matched by name where possible."""
    values, names = predictions.values, predictions.names
    if values.shape[1] != classes.size:
        raise ValueError(
            f"{name} has {values.shape[1]} columns but there are {classes.size} classes "
            f"({some(classes.tolist())}); give one column per class."
        )
    if names is None or list(names) == classes.tolist():
        return predictions
    at = {str(column): i for i, column in enumerate(names)}
    same = set(at) == {str(label) for label in classes.tolist()}
    if are_positions(names):
        if same:
            raise ValueError(
                f"the columns of {name} are numbered 0..{classes.size - 1} but the classes are in "
                f"the order {some(classes.tolist())}: are these names or positions? Name the "
                "columns, or pass a plain array in class order."
            )
        return predictions
    if not same:
        wanted = [str(label) for label in classes.tolist()]
        missing = [label for label in wanted if label not in at]
        close = get_close_matches(missing[0], [column for column in at if column not in wanted], 1)
        hint = f"Did you mean {close[0]!r}? Rename it" if close else "Rename the columns"
        raise ValueError(
            f"{name} has no column {some(missing)}; it has {some(list(at))}, which are not the "
            f"classes. {hint}, or pass a plain array whose columns are in class order."
        )
    order = [at[str(label)] for label in classes.tolist()]
    if order == list(range(len(order))):
        return predictions
    values = values.columns(order) if isinstance(values, Table) else values[:, order]
    return replace(predictions, values=values, names=tuple(classes.tolist()))


def like_input(predictions: Predictions, adapted: Any, classes: Labels) -> Any:
    """Return new probabilities, whose columns are `classes`, in the kind and order of the input.

    A frame gets them in its own columns, and keeps its index and all other columns; a tensor stays
    on its device; for 1-D input it is the positive class's column.
    """
    origin, names = predictions.origin, predictions.names
    if predictions.binary:
        adapted = adapted[:, 1].copy()
    if origin is None:
        return adapted
    at = {str(label): i for i, label in enumerate(classes.tolist())}
    if names is not None and at.keys() == set(map(str, names)):
        adapted = adapted[:, [at[str(column)] for column in names]]
    return origin.with_numbers(adapted)


def encode_labels(labels: Labels, classes: Labels, name: str = "y") -> Indices:
    """Turn labels into indices of `classes`."""
    if classes.dtype.kind == "U" and labels.dtype.kind in "iubf":
        labels = as_text(labels)  # a table's header is text even where its labels are numbers
    if (classes.dtype.kind == "U") != (labels.dtype.kind == "U"):
        raise ValueError(
            f"{name} and classes have different types ({name}: {some(labels[:3].tolist())}; "
            f"classes: {some(classes.tolist())}); use the same names in both."
        )
    numbered = labels.dtype.kind in "iu" and np.array_equal(classes, np.arange(classes.size))
    if numbered and labels.min(initial=0) >= 0 and labels.max(initial=0) < classes.size:
        return labels.astype(np.intp)  # they are indices already
    order = np.argsort(classes)
    nearest = np.searchsorted(classes, labels, sorter=order).clip(max=classes.size - 1)
    indices = order[nearest]
    unknown = np.flatnonzero(classes[indices] != labels)
    if unknown.size:
        hint = by_case(np.union1d(classes, labels))
        raise ValueError(
            f"{name} has a label outside classes: {brief(labels[unknown[0]].item())} at position "
            f"{unknown[0]} ({unknown.size} such labels); classes are {some(classes.tolist())}. "
            f"{hint and f'These {hint} '}Pass classes= with every label, in the order of the "
            "columns."
        )
    return indices.astype(np.intp, copy=False)


def check_priors(priors: Any, classes: Labels, name: str) -> Vector:
    """Check class priors: an array in class order, or a mapping from class to prior.

    A pandas Series counts as a mapping, because `value_counts` sorts by frequency. Of two classes,
    one number is the prior of the positive class, the last of `classes`.
    """
    priors = as_mapping(priors, name)
    if isinstance(priors, Real) and not isinstance(priors, bool | np.bool_):
        prior, names = as_float(priors), classes.tolist()
        if classes.size != 2:
            raise ValueError(
                f"{name} is a single number ({prior:g}), the prior of the positive class of two, "
                f"but there are {classes.size} classes ({some(names)}); give one prior per class."
            )
        first, last = (str(each).strip().lower() for each in names)
        turned = first in POSITIVE_NAMES and last in NEGATIVE_NAMES
        if classes.dtype.kind in "iufb":
            turned = names[0] > names[1]
        if turned:
            raise ValueError(
                f"{name} is a single number ({prior:g}), the prior of the positive class, which "
                f"should come last, but the classes are in the order {some(names)}; say which is "
                f"which: {{{brief(names[0])}: ..., {brief(names[1])}: ...}}."
            )
        if not 0 <= prior <= 1:
            raise ValueError(
                f"{name} is a single number, the prior of the positive class ({brief(names[1])}); "
                f"it must be in [0, 1], but is {prior:g}."
            )
        priors = [1 - prior, prior]
    if isinstance(priors, Mapping):
        by_name = {str(label): value for label, value in priors.items()}
        wanted = [str(label) for label in classes.tolist()]
        if set(by_name) != set(wanted):
            raise ValueError(
                f"{name} names the classes {some(list(priors))} but the classes are "
                f"{some(classes.tolist())}; give each class its prior."
            )
        priors = [by_name[label] for label in wanted]
    values = as_array(priors, name)
    if values.dtype.kind not in NUMBERS or values.ndim != 1 or values.size != classes.size:
        raise ValueError(
            f"{name} must be {classes.size} numbers, one per class ({some(classes.tolist())}); got "
            f"an array of shape {values.shape} and type {values.dtype}."
        )
    values = values.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if bad.size:
        raise ValueError(
            f"{name} must be finite and at least 0; got {values[bad[0]]} for class "
            f"{brief(classes[bad[0]].item())} (position {bad[0]})."
        )
    with np.errstate(over="ignore"):
        total = values.sum()
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(
            f"{name} must sum to 1 (tolerance {SUM_TOLERANCE:.1g}) but sums to {total:.6g}; if "
            "these are counts, divide them by their sum."
        )
    values[values <= NO_PRIOR] = 0
    return values / values.sum()


def check_source_mass(
    source_priors: Vector,
    outputs: Rows,
    classes: Labels,
    *,
    from_logits: bool = False,
    origin: str = "given",
) -> None:
    """Refuse a source prior of 0 for a class that the classifier predicts.

    So are source priors that rounding would lose in what sparse rows spread. `origin` says in words
    where the source priors come from, if they were not given.
    """
    if isinstance(outputs, SparseTable) and outputs.base is not None:
        present, room, trend = source_priors > NO_PRIOR, source_priors, outputs.trend
        if trend is not None:  # rows that were adapted spread their rest by it
            even = np.full_like(source_priors, np.inf)
            with np.errstate(over="ignore"):  # a trend of next to nothing leaves all the room
                np.divide(source_priors, trend, out=even, where=present & (trend > 0))
            largest = even.max(where=np.isfinite(even), initial=NO_PRIOR)
            room = np.minimum(source_priors, even / largest)
        tiny = np.flatnonzero(present & (room < 1e-10))  # listed scores are stored as differences
        if tiny.size:
            raise ValueError(
                f"source_priors is {source_priors[tiny[0]]:.3g} for class "
                f"{brief(classes[tiny[0]].item())} (position {tiny[0]}), which rounding loses in "
                "what rows of a TopK spread over the classes that they do not list; pass an array "
                "(toarray()), rest='drop', or larger source priors."
            )
    absent = np.flatnonzero(source_priors <= NO_PRIOR)
    if not absent.size:
        return
    largest = np.max(map_reduce(partial(_largest_mass, absent, from_logits), outputs), axis=0)
    if largest.max() > 1e-6:  # less does not contradict a source prior of 0
        at = int(np.argmax(largest))
        k = absent[at]
        where = f"class {brief(classes[k].item())} (position {k}), yet y_proba gives it up to"
        if origin == "given":
            raise ValueError(
                f"{argument('source_priors')} is 0 for {where} {largest[at]:.3g}; a classifier "
                "cannot predict a class it was never trained on. Give the class its share of the "
                "training data."
            )
        raise ValueError(
            f"the source prior ({origin}) is 0 for {where} {largest[at]:.3g}: validation does not "
            "show how often the classifier predicts it where it was trained. Pass "
            f"{argument('source_priors', 'source_priors=')} with the class's share of the training "
            "data, or validate on rows for which the classifier predicts the class."
        )


def _largest_mass(columns: Indices, from_logits: bool, block: Block, _: slice) -> list[Vector]:
    """Return the largest probability of some columns in a block."""
    if from_logits:
        with np.errstate(over="ignore"):  # logits further apart than floats reach
            block = softmax(block.astype(np.float64), axis=1)
    return [np.asarray(block[:, columns].max(axis=0))]


def known_labels(
    y_target: Any, classes: Labels, n: int, unlabelled: Any = None
) -> tuple[Indices, Indices]:
    """Return which rows have a label, and these labels as positions in `classes`.

    None and NaN mean that the label is unknown, and so does -1 unless it is a class; `unlabelled`
    names something else that means it.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.border import known_labels
    >>> known_labels([None, "b", "a"], np.array(["a", "b"]), 3)
    (array([1, 2]), array([1, 0]))
    >>> known_labels([-1, 1, 0], np.array([0, 1]), 3)
    (array([1, 2]), array([1, 0]))
    """
    nothing = np.zeros(0, dtype=np.intp)
    if y_target is None:
        return nothing, nothing
    # as objects, so that None and NaN survive next to strings
    given = y_target.to_numpy() if hasattr(y_target, "to_numpy") else y_target
    labels = as_array(given, "y_target", object)
    if labels.shape != (n,):
        raise ValueError(
            f"y_target has shape {labels.shape} but there are {n} rows of predictions; "
            "give one entry per row, and None where the label is unknown."
        )
    numbers = classes.dtype.kind in "iuf" and -1 not in classes.tolist()  # -1 is no class

    def is_known(label: Any) -> bool:
        if unlabelled is not None or is_missing(label):
            return unlabelled is not None and bool(label != unlabelled)
        return not numbers or isinstance(label, str) or bool(label != -1)

    rows = np.flatnonzero([is_known(label) for label in labels.tolist()])
    if not rows.size:
        return nothing, nothing
    known = read_labels(labels[rows], name="the labelled part of y_target")
    return rows, encode_labels(known, classes, "the labelled part of y_target")


# Guards: columns that are probably in another order than the classes


def order_in_words(values: Any, y: Indices | None, classes: Labels) -> str | None:
    """Say in which order the columns seem to be, if validation's accuracy is far higher then.

    In most cases, a few rows rule that out. Otherwise the order is found on half of each class's
    rows and judged on the rest, so that chance finds none. Both accuracy and mean recall must
    rise: where a model prefers one class, accuracy alone may rise.
    """
    # it is quick up to a thousand classes
    K = classes.size
    if y is None or not isinstance(values, np.ndarray) or K > 1000 or y.size < 2:
        return None
    # a few rows show in most cases that no other order can be far better
    for n_rows in (max(FEW_ROWS, FEW_PER_CLASS * K), 20_000):
        rows: Any = slice(None)  # or rows spread over all of them
        if y.size > n_rows:
            rows = np.arange(n_rows) * (y.size - 1) // (n_rows - 1)
        truth, decided = y[rows], values[rows].argmax(axis=1)
        # no order gains more than giving each class the column that is decided for most often
        least = np.count_nonzero(decided == truth) + FAR_HIGHER * truth.size
        best = np.bincount(truth * K + decided, minlength=K**2).reshape(K, K).max(axis=1).sum()
        if min(best, truth.size) < least:
            return None
    from scipy.optimize import linear_sum_assignment  # heavy, and rarely needed

    by_class = np.argsort(truth, kind="stable")  # so that both halves have each class
    first, second = (
        np.bincount(truth[half] * K + decided[half], minlength=K**2).reshape(K, K)
        for half in (by_class[::2], by_class[1::2])
    )
    recall = first / np.maximum(first.sum(axis=1, keepdims=True), 1)
    # classes without rows keep their columns where they can
    order: Indices = linear_sum_assignment(recall + 1e-9 * np.eye(K), maximize=True)[1]
    n, each = second.sum(axis=1), np.arange(K)
    gain = second[each, order] - second[each, each]
    moved = np.where(order == each, 0, second[each, order] + second[each, each]).sum()
    sure = gain.sum() > SURE * np.sqrt(moved) and gain.sum() >= FAR_HIGHER * n.sum()
    if not sure or (gain[n > 0] / n[n > 0]).mean() < FAR_HIGHER:
        return None
    before, after = ((decided == truth).mean(), (decided == order[truth]).mean())
    names = classes[np.argsort(order)].tolist()
    return (
        "the columns seem to be in a different order from the classes: accuracy on validation is "
        f"{before:.0%}, but {after:.0%} if the columns were {some(names)}. Check "
        f"{argument('order_of_columns', 'classes=')} and the header."
    )


def warn_of_missing_names(given: Any, classes: Labels, name: str) -> None:
    """Warn of an array after a fit on a frame, as scikit-learn does: its order cannot be checked.

    `given` is the input as it came; predictions that were checked before have been warned of.
    """
    if isinstance(given, np.ndarray | list | tuple) and np.ndim(given[:1]) == 2:
        warn_user(
            f"{name} has no column names, but a frame came before it; its columns are taken to be "
            f"in the order {some(classes.tolist())}. Pass a frame to match them by name.",
            PriorShiftWarning,
        )

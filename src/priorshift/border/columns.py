"""Which column and which label is which class, the labels that are known, and class priors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from numbers import Real
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from priorshift._typing import NUMBERS, Floats, Indices, Labels, Mask, Vector
from priorshift.border.check import (
    HEAD_ROWS,
    SUM_TOLERANCE,
    Predictions,
    as_array,
    as_float,
    as_labels,
    as_mapping,
    is_missing,
    require_unique,
)
from priorshift.border.frames import among_others, match_columns, misspelt
from priorshift.border.join import as_text
from priorshift.border.rows import Block, Rows, Table, map_reduce
from priorshift.border.sparse import SparseTable
from priorshift.exceptions import PriorShiftWarning, argument, warn_user
from priorshift.text import brief, some

NO_PRIOR = 1e-30
"""A prior up to this counts as 0: dividing by it would be meaningless."""

LEAST_BESIDE_REST = 1e-10
"""Smallest source prior for rows that spread a rest: listed scores are stored as differences."""

FAR_HIGHER, SURE = 0.2, 4.0
"""Another order of columns is worth a warning if it raises accuracy and mean recall by the first,
and accuracy by so many standard errors too."""

FEW_ROWS, FEW_PER_CLASS = 500, 5
"""Rows that show, in most cases, that no other order of columns can be far better."""

ORDER_ROWS, MOST_ORDERED = 20_000, 1000
"""Rows that are used to find another order, and classes up to which that is quick."""

NEGLIGIBLE_MASS = 1e-6
"""A predicted probability up to this does not contradict a source prior of 0."""

MISSING_NUMBER = -1

POSITIVE_NAMES = ("yes", "true", "positive", "pos", "1", "case", "ill", "sick")
NEGATIVE_NAMES = ("no", "false", "negative", "neg", "0", "-1", "control", "well", "healthy")
"""Names that say which of two classes is the positive one."""


def settle_classes(
    predictions: Predictions,
    labels: Labels | None = None,
    classes: ArrayLike | None = None,
    positive_class: Any = None,
) -> Labels:
    """Name the columns: by `classes`, otherwise by a frame's header, otherwise by the labels.

    Without `classes` or a header, the sorted labels name the columns if there are exactly K of
    them; otherwise integer labels stand for columns 0..K-1.
    """
    n_columns = predictions.values.shape[1]
    if positive_class is not None:
        return _binary_classes(predictions, labels, classes, positive_class)
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
            "classes=[negative, positive] (fit also accepts positive_class=)."
        )
    if found.size == n_columns:
        return found
    if found.dtype.kind in "iub" and found.size and found[0] >= 0 and found[-1] < n_columns:
        return np.arange(n_columns)
    raise ValueError(
        f"y has {found.size} distinct labels but y_proba has {n_columns} columns, so the columns "
        "cannot be named; pass classes= in the order of the columns."
    )


def check_classes(classes: ArrayLike, n_columns: int) -> Labels:
    """Check the names of the columns: as many as columns, each once."""
    named = as_labels(classes, "classes")
    if named.size != n_columns:
        raise ValueError(
            f"classes has {named.size} entries but y_proba has {n_columns} columns; name every "
            "column once, in order."
        )
    require_unique(named.tolist(), "classes")
    return named


def classes_of_priors(priors: Any, classes: ArrayLike | None = None) -> Labels:
    """Name the classes if there are only priors: by `classes`, otherwise by sorted keys."""
    priors = as_mapping(priors)
    if isinstance(priors, Real):  # the prior of the positive class
        return check_classes(np.arange(2) if classes is None else classes, 2)
    if not isinstance(priors, Mapping) and as_array(priors, "source_priors").ndim != 1:
        raise ValueError(
            "source_priors must be a vector or a mapping, one prior per class; got "
            f"{brief(priors)}."
        )
    if classes is None:
        classes = np.unique(list(priors)) if isinstance(priors, Mapping) else np.arange(len(priors))
    return check_classes(classes, len(priors))


def classes_of_labels(labels: Labels, classes: ArrayLike | None = None) -> Labels:
    """Name the classes if there are only labels: by `classes`, otherwise sorted."""
    if classes is None:
        return np.unique(labels)
    named = read_labels(classes, name="classes")
    require_unique(named.tolist(), "classes")
    return named


def read_decisions(
    y_pred: ArrayLike, y: ArrayLike | None = None, classes: ArrayLike | None = None
) -> tuple[Labels, Indices, Indices | None]:
    """Read decisions, and labels if there are any; return classes and both as positions in them.

    Without `classes`, the sorted decisions and labels name the classes.

    Examples
    --------
    >>> read_decisions(["good", "bad", "good"], ["good", "good", "bad"])
    (array(['bad', 'good'], dtype='<U4'), array([1, 0, 1]), array([1, 1, 0]))
    """
    decided = read_labels(y_pred, name="y_pred")
    labels = None if y is None else as_labels(y, "y")
    if labels is not None and labels.size != decided.size:
        raise ValueError(
            f"y has {labels.size} labels but y_pred has {decided.size} decisions; give one of "
            "each per row."
        )
    if classes is None:
        both = [decided] if labels is None else [decided, labels]
        if len({each.dtype.kind == "U" for each in both}) == 2:
            raise ValueError(
                f"y_pred and y have different types (y_pred: {some(decided[:3].tolist())}; y: "
                f"{some(both[1][:3].tolist())}); use the same names in both."
            )
        names = np.unique(np.concatenate(both))
    else:
        names = classes_of_labels(decided, classes)
    if names.size < 2:
        raise ValueError(
            f"y_pred and y know one class only ({some(names.tolist())}); name all classes with "
            "classes=."
        )
    found = encode_labels(decided, names, "y_pred")
    return names, found, None if labels is None else encode_labels(labels, names)


def as_decisions(y_pred: Any, classes: Labels) -> Predictions:
    """Read decisions for `classes` as rows that can go wherever predictions go.

    Examples
    --------
    >>> import numpy as np
    >>> as_decisions(["b", "a"], np.array(["a", "b"])).decided
    array([1, 0])
    """
    _, decided, _ = read_decisions(y_pred, classes=classes)
    return Predictions.from_decisions(decided, classes.size)


def in_class_order(predictions: Predictions, classes: Labels, name: str = "y_proba") -> Any:
    """Return the values of `ordered`: an array or a table."""
    return ordered(predictions, classes, name).values


def _name_missing(columns: list[str], classes: list[str], name: str) -> str:
    """Say which class has no column, and which column may be meant for it."""
    missing = [label for label in classes if label not in columns]
    others = [column for column in columns if column not in classes]
    close = get_close_matches(missing[0], others, 1)
    hint = f"Did you mean {close[0]!r}? Rename it" if close else "Rename the columns"
    return (
        f"{name} has no column {some(missing)}; it has {some(columns)}, which are not the classes. "
        f"{hint}, or pass a plain array whose columns are in class order."
    )


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
        raise ValueError(_name_missing(list(at), [str(label) for label in classes.tolist()], name))
    order = [at[str(label)] for label in classes.tolist()]
    if order == list(range(len(order))):
        return predictions
    values = values.columns(order) if isinstance(values, Table) else values[:, order]
    return replace(predictions, values=values, names=tuple(classes.tolist()))


def like_input(predictions: Predictions, adapted: Any, classes: Labels) -> Any:
    """Return new probabilities, whose columns are `classes`, in the kind and order of the input.

    A frame gets them in its own columns, and keeps its index and all other columns; for 1-D input
    it is the positive class's column.
    """
    frame, names = predictions.frame, predictions.names
    if predictions.binary:
        adapted = adapted[:, 1].copy() if isinstance(adapted, np.ndarray) else adapted[:, 1]
    if frame is None:
        return adapted
    at = {str(label): i for i, label in enumerate(classes.tolist())}
    if names is not None and at.keys() == set(map(str, names)):
        adapted = adapted[:, [at[str(column)] for column in names]]
    return frame.with_numbers(adapted)


def read_labels(y: ArrayLike, n_samples: int | None = None, name: str = "y") -> Labels:
    """Read labels as a 1-D array, one per row of the predictions if there are any."""
    labels = as_labels(y, name)
    if labels.size == 0:
        raise ValueError(f"{name} is empty; give at least one label.")
    if n_samples is not None and labels.size != n_samples:
        raise ValueError(
            f"{name} has {labels.size} labels but there are {n_samples} rows of predictions; give "
            "one label per row."
        )
    return labels


def encode_labels(labels: Labels, classes: Labels, name: str = "y") -> Indices:
    """Turn labels into indices of `classes`."""
    if classes.dtype.kind == "U" and labels.dtype.kind in "iub":
        labels = labels.astype(str)  # a table's header is text even where its labels are numbers
    if (classes.dtype.kind == "U") != (labels.dtype.kind == "U"):
        raise ValueError(
            f"{name} and classes have different types ({name}: {some(labels[:3].tolist())}; "
            f"classes: {some(classes.tolist())}); use the same names in both."
        )
    order = np.argsort(classes)
    nearest = np.searchsorted(classes, labels, sorter=order).clip(max=classes.size - 1)
    indices = order[nearest]
    unknown = np.flatnonzero(classes[indices] != labels)
    if unknown.size:
        raise ValueError(
            f"{name} has a label outside classes: {brief(labels[unknown[0]].item())} at position "
            f"{unknown[0]} ({unknown.size} such labels); classes are {some(classes.tolist())}. "
            "Pass classes= with every label, in the order of the columns."
        )
    return indices.astype(np.intp, copy=False)


def _binary_classes(
    predictions: Predictions, labels: Labels | None, classes: Any, positive_class: Any
) -> Labels:
    """Order two classes as [negative, positive]."""
    if not predictions.binary:
        raise ValueError("positive_class is for 1-D y_proba; name matrix columns with classes=.")
    known = labels if classes is None else check_classes(classes, 2)
    others = [] if known is None else [c for c in np.unique(known).tolist() if c != positive_class]
    if len(others) != 1:
        raise ValueError(
            f"positive_class={brief(positive_class)} leaves {len(others)} other classes "
            f"({some(others)}) where one is needed; pass classes=[negative, positive]."
        )
    return np.asarray([others[0], positive_class])


def are_positions(names: tuple[Any, ...]) -> bool:
    """Tell whether a header is the 0..K-1 that pandas gives columns without names."""
    return list(map(repr, names)) == list(map(repr, range(len(names))))


def check_indices(y: ArrayLike, n_samples: int, n_classes: int) -> Indices:
    """Check labels that are column numbers already."""
    index = read_labels(y, n_samples)
    if index.dtype.kind not in "iu":
        raise ValueError(f"y must hold column numbers 0..{n_classes - 1}; got {index.dtype}.")
    bad = np.flatnonzero((index < 0) | (index >= n_classes))
    if bad.size:
        raise ValueError(
            f"y must hold column numbers 0..{n_classes - 1}; got {index[bad[0]]} at position "
            f"{bad[0]} ({bad.size} such labels)."
        )
    return index.astype(np.intp, copy=False)


def check_priors(priors: Any, classes: Labels, name: str) -> Vector:
    """Check class priors: an array in class order, or a mapping from class to prior.

    A pandas Series counts as a mapping, because `value_counts` sorts by frequency. Of two classes,
    one number is the prior of the positive class, the last of `classes`.
    """
    priors = as_mapping(priors, name)
    if isinstance(priors, Real) and not isinstance(priors, bool | np.bool_):
        priors = _both_priors(as_float(priors), classes, name)
    if isinstance(priors, Mapping):
        priors = _from_mapping(priors, classes, name)
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
            f"{name} must sum to 1 (tolerance {SUM_TOLERANCE}) but sums to {total:.6g}; if these "
            "are counts, divide them by their sum."
        )
    values[values <= NO_PRIOR] = 0
    return values / values.sum()


def _both_priors(prior: float, classes: Labels, name: str) -> list[float]:
    """Return the priors of two classes, given that of the positive one, which comes last."""
    names = classes.tolist()
    if classes.size != 2:
        raise ValueError(
            f"{name} is a single number ({prior:g}), the prior of the positive class of two, but "
            f"there are {classes.size} classes ({some(names)}); give one prior per class."
        )
    first, last = (str(each).strip().lower() for each in names)
    numbers = classes.dtype.kind in "iufb"
    if names[0] > names[1] if numbers else first in POSITIVE_NAMES and last in NEGATIVE_NAMES:
        raise ValueError(
            f"{name} is a single number ({prior:g}), the prior of the positive class, which should "
            f"come last, but the classes are in the order {some(names)}; say which is which: "
            f"{{{brief(names[0])}: ..., {brief(names[1])}: ...}}."
        )
    if not 0 <= prior <= 1:
        raise ValueError(
            f"{name} is a single number, the prior of the positive class ({brief(names[1])}); it "
            f"must be in [0, 1], but is {prior:g}."
        )
    return [1 - prior, prior]


def check_source_mass(
    source_priors: Vector,
    outputs: Rows,
    classes: Labels,
    *,
    from_logits: bool = False,
    origin: str = "given",
) -> None:
    """Refuse a source prior of 0 for a class that the classifier predicts.

    `origin` says in words where the source priors come from, if they were not given.
    """
    if isinstance(outputs, SparseTable) and not outputs.exact:
        _require_room_for_rest(source_priors, outputs.whole.trend, classes)
    absent = np.flatnonzero(source_priors <= NO_PRIOR)
    if not absent.size:
        return
    largest = _largest_mass(outputs, absent, from_logits)
    if largest.max() > NEGLIGIBLE_MASS:
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


def _require_room_for_rest(source_priors: Vector, trend: Floats | None, classes: Labels) -> None:
    """Refuse source priors that rounding would lose in what sparse rows spread.

    Rows that were adapted spread their rest unevenly: by the trend.
    """
    present, room = source_priors > NO_PRIOR, source_priors
    if trend is not None:
        even = np.divide(
            source_priors,
            trend,
            out=np.full_like(source_priors, np.inf),
            where=present & (trend > 0),
        )
        room = np.minimum(source_priors, even / even.max(where=np.isfinite(even), initial=NO_PRIOR))
    tiny = np.flatnonzero(present & (room < LEAST_BESIDE_REST))
    if tiny.size:
        raise ValueError(
            f"source_priors is {source_priors[tiny[0]]:.3g} for class "
            f"{brief(classes[tiny[0]].item())} (position {tiny[0]}), which rounding loses in what "
            "rows of a TopK spread over the classes that they do not list; pass an array "
            "(toarray()), rest='drop', or larger source priors."
        )


def _from_mapping(priors: Mapping[Any, Any], classes: Labels, name: str) -> list[Any]:
    by_name = {str(label): value for label, value in priors.items()}
    wanted = [str(label) for label in classes.tolist()]
    if set(by_name) != set(wanted):
        raise ValueError(
            f"{name} names the classes {some(list(priors))} but the classes are "
            f"{some(classes.tolist())}; give each class its prior."
        )
    return [by_name[label] for label in wanted]


def _largest_mass(outputs: Rows, columns: Indices, from_logits: bool) -> Vector:
    """Return the largest probability in each of the columns, in one pass."""
    found = map_reduce(_LargestMass(columns, from_logits), outputs)
    return np.max(found, axis=0)


@dataclass(frozen=True)
class _LargestMass:
    """Returns the largest probability of some columns in a block."""

    columns: Indices
    from_logits: bool

    def __call__(self, block: Block, rows: slice) -> list[Vector]:  # noqa: ARG002
        if self.from_logits:
            with np.errstate(over="ignore"):  # logits further apart than floats reach
                block = softmax(block.astype(np.float64), axis=1)
        block = block[:, self.columns]
        largest = block.max(axis=0)
        return [largest if isinstance(largest, np.ndarray) else largest.toarray().ravel()]


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
    labels = _as_objects(y_target)
    if labels.shape != (n,):
        raise ValueError(
            f"y_target has shape {labels.shape} but there are {n} rows of predictions; "
            "give one entry per row, and None where the label is unknown."
        )
    rows = np.flatnonzero(_is_known(labels, classes, unlabelled))
    if not rows.size:
        return nothing, nothing
    known = read_labels(labels[rows], name="the labelled part of y_target")
    if known.dtype.kind == "f" and classes.dtype.kind in "iu" and (known % 1 == 0).all():
        known = known.astype(np.int64)  # a column with NaN holds its whole numbers as floats
    return rows, encode_labels(known, classes, "the labelled part of y_target")


def _is_known(labels: NDArray[np.object_], classes: Labels, unlabelled: Any) -> Mask:
    if unlabelled is not None:
        return np.fromiter((label != unlabelled for label in labels), bool, labels.size)
    known = ~np.fromiter((is_missing(label) for label in labels), bool, labels.size)
    if classes.dtype.kind in "iuf" and MISSING_NUMBER not in classes.tolist():
        known &= np.fromiter((_differs(label) for label in labels), bool, labels.size)
    return known


def _differs(label: Any) -> bool:
    return isinstance(label, str) or is_missing(label) or label != MISSING_NUMBER


def _as_objects(y_target: Any) -> NDArray[np.object_]:
    """Return labels as Python objects, so that None and NaN survive next to strings."""
    values = y_target.to_numpy() if hasattr(y_target, "to_numpy") else y_target
    return as_array(values, "y_target", object)


# Tables: which of their columns are which class, where several belong together


class NamedTable(Protocol):
    """What tells which columns of a file are classes."""

    @property
    def where(self) -> str:
        """What messages call it."""

    @property
    def header(self) -> Sequence[str]:
        """All names."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The possible class columns: numeric ones, or classes that an array names."""

    @property
    def is_table(self) -> bool:
        """Whether the classes must be found among its columns."""

    @property
    def single(self) -> bool:
        """Whether there is one column of predictions only."""

    @property
    def kind(self) -> Literal["proba", "logits"]:
        """What the predictions are."""

    def head(self, n_rows: int, names: Sequence[str] | None = None) -> Floats:
        """Read the predictions of the first rows."""


class ClassColumns(NamedTuple):
    """Per table the column of each class, None for all as they are; or two classes of one column.

    `binary` are the negative and the positive class, whose probability the column is. `remark` says
    what was assumed.
    """

    columns: list[Mapping[str, str] | None]
    binary: tuple[str, str] | None = None
    remark: str = ""


def find_class_columns(
    tables: Sequence[NamedTable],
    known: Sequence[str],
    columns: Mapping[str, str] | None = None,
    positive: str | None = None,
    far: float = SUM_TOLERANCE,
) -> ClassColumns:
    """Find the class columns of tables that belong together.

    Parameters
    ----------
    tables : sequence of NamedTable
    known : sequence of str
        Classes to look for, by name or with a common prefix and suffix: the labels of validation.
    columns : mapping from class to column, optional
        If the caller says so.
    positive : str, optional
        The class whose probability the only column is.
    far : float
        How far rows may be from a sum of 1.
    """
    common = _common(tables)
    if positive is None and columns is not None:
        return ClassColumns([columns] * len(tables))
    if positive is None:
        found = [match_table(table, known) for table in tables]
        alone = [table.single for table in tables]
        if all(table.is_table for table in tables):
            two = len(known) == 2 and len(_probability_columns(tables, common)) == 1
            alone = [len(common) == 1 or two]
        if any(each and list(each) != list(each.values()) for each in found):
            return ClassColumns([*found])
        if any(found) or not all(alone):
            return _without_others(tables, common, known, far)
    return _one_column(tables, known, columns, positive)


def _common(tables: Sequence[NamedTable]) -> list[str]:
    """Return the possible class columns that all tables have, in the order of the first."""
    others = [set(table.names or ()) for table in tables[1:]]
    return [name for name in tables[0].names or () if all(name in names for names in others)]


def match_table(table: NamedTable, known: Sequence[str]) -> dict[str, str] | None:
    """Match columns to classes; None where they do not match, or have no names."""
    if table.names is None:
        return None
    for names in (known, _without_point(known)):
        try:
            found = match_columns(table.names, names)
        except ValueError as error:
            choose = argument("class_columns", "classes=")
            raise ValueError(f"{table.where}: {error} Use {choose}.") from None
        if found is not None:
            return found
    return None


def _without_point(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of whole numbers without a point, as in 1.0; none if there are others."""
    try:
        return tuple(as_text(np.array(names, dtype=np.float64)).tolist())
    except (ValueError, OverflowError):
        return ()


def _without_others(
    tables: Sequence[NamedTable], common: Sequence[str], known: Sequence[str], far: float
) -> ClassColumns:
    """Leave out numbers that are no class, such as an id: only without them, rows sum to 1."""
    everything = ClassColumns([None] * len(tables))
    usable = all(table.is_table and table.kind == "proba" for table in tables)
    if not usable or set(common) <= set(known):
        return everything
    classes = among_others(common, known, tables[0].head(HEAD_ROWS, common), far)
    others = [name for name in common if name not in classes]
    if not others:
        return everything
    remark = (
        f"Not taken as classes: {some(others)}. Rows sum to 1 without them, and no label has their "
        "name."
    )
    return ClassColumns([{name: name for name in classes}] * len(tables), remark=remark)


def _probability_columns(tables: Sequence[NamedTable], common: Sequence[str]) -> Sequence[str]:
    """Return the columns that may hold probabilities: an id or an age does not."""
    if not common or any(table.kind == "logits" for table in tables):
        return common
    heads = [table.head(HEAD_ROWS, common) for table in tables]
    fine = np.all([((head >= 0) & (head <= 1)).all(axis=0) for head in heads], axis=0)
    return [name for name, good in zip(common, fine, strict=True) if good]


def _one_column(
    tables: Sequence[NamedTable],
    known: Sequence[str],
    columns: Mapping[str, str] | None,
    positive: str | None,
) -> ClassColumns:
    """Find the only column of each table, and the two classes that it tells apart."""
    named = [table for table in tables if table.is_table]
    column = None if columns is None else next(iter(columns.values()))
    if column is None and named:
        common: Sequence[str] = _common(named)
        if len(common) > 1:
            common = _probability_columns(named, common)
        if len(common) != 1:
            raise ValueError(
                f"{named[0].where} has {len(common)} columns that may hold the probability "
                f"({some(common)}); say which one it is: "
                f"{argument('class_columns', 'classes=')} {known[-1] if known else '1'}=COLUMN."
            )
        column = common[0]
    binary = _two_classes(tables, known, positive, column)
    for table in tables:
        if not table.is_table and not table.single:
            raise ValueError(
                f"{table.where} has several columns of predictions; "
                f"{argument('positive_class')} is for one."
            )
    remark = ""
    if positive is None:
        what = "its only column" if column is None else repr(column)
        remark = f"{tables[0].where}: {what} is taken as the probability of class {binary[1]!r}."
    of = None if column is None else {binary[1]: column}
    return ClassColumns([of if table.is_table else None for table in tables], binary, remark)


def _two_classes(
    tables: Sequence[NamedTable], known: Sequence[str], positive: str | None, column: str | None
) -> tuple[str, str]:
    """Name the negative and the positive class: by what an array stores, the header, or labels."""
    stored = next((t.names for t in tables if not t.is_table and t.names is not None), ())
    if len(stored) == 2:
        known, positive = stored, positive or stored[1]
    names = _without_point(known) or tuple(known)
    if positive is None and len(names) == 2:
        named = [n for n in names if column is not None and match_columns([column], [n])]
        if len(named) == 1:
            positive = named[0]
        elif set(names) in ({"0", "1"}, {"-1", "1"}, {"False", "True"}):
            positive = max(names)
    if positive is None:
        what = tables[0].where if column is None else f"{column!r} in {tables[0].where}"
        likely = [name for name in names if name.lower() in POSITIVE_NAMES]
        raise ValueError(
            f"{what} is one column of predictions, and nothing says of which class; give one "
            f"column per class, or say whose probability it is: {argument('positive_class')} "
            f"{(likely or list(names) or ['1'])[-1]}."
        )
    others = [name for name in names if name != positive]
    if len(others) > 1:
        raise ValueError(
            f"one column of predictions needs two classes, but the labels are {some(names)}; give "
            f"one column per class, or correct {argument('positive_class')} {positive}."
        )
    implied = {"1": "0", "True": "False", "true": "false", "yes": "no"}
    return (others[0] if others else implied.get(positive, f"not {positive}")), positive


def common_classes(tables: Sequence[NamedTable]) -> tuple[str, ...] | None:
    """Settle the classes of tables whose columns are called by them; None where none has names.

    They are those that an array names; otherwise the numeric columns that all have in common. The
    first that has names settles their order.
    """
    named = [(table, table.names) for table in tables if table.names is not None]
    if not named:
        return None
    fixed = [each for each in named if not each[0].is_table]
    wanted = set(fixed[0][1]) if fixed else set(named[0][1]).intersection(*(n for _, n in named))
    for table, names in named if fixed else ():
        if wanted - set(names) if table.is_table else wanted ^ set(names):
            raise ValueError(say_different([fixed[0][0], table]))
    if not wanted:
        raise ValueError(say_different([table for table, _ in named]))
    return tuple(name for name in named[0][1] if name in wanted)


def say_different(tables: Sequence[NamedTable]) -> str:
    """Say that the classes of the first table are not those of the last."""
    one, other = (
        f"{table.where} ({some(table.names, 20) if table.names else 'no numeric column'})"
        for table in (tables[0], tables[-1])
    )
    return (
        f"the classes of {one} are not those of {other}; rename the columns, or choose with "
        f"{argument('class_columns', 'classes=')}. {_spelling((tables[0], tables[-1]))}".rstrip()
    )


def explain_classes(tables: Sequence[NamedTable], classes: Sequence[str] | None) -> str:
    """Say which columns were taken as classes, and which were not, as a help after an error."""
    if classes is None:
        return ""
    parts = [_spelling(tables), f"Taken as classes: {some(classes, 20)}."]
    for table in tables:
        others = [name for name in table.names or () if name not in classes]
        if others:
            parts.append(f"Numeric only in {table.where}: {some(others, 20)}.")
    choose = argument("class_columns", "classes=")
    parts.append(f"Name them with {choose}, or CLASS=COLUMN,..., if that is wrong.")
    return " ".join(filter(None, parts))


def _spelling(tables: Sequence[NamedTable]) -> str:
    """Suggest the column that another table calls nearly as the first does."""
    for table in tables[1:]:
        said = misspelt(table.header, tables[0].names or ()) if table.is_table else ""
        if said:
            return f"{table.where}: {said}"
    return ""


# Guards: columns that are probably in another order than the classes


def order_in_words(values: Any, y: Indices | None, classes: Labels) -> str | None:
    """Say in which order the columns seem to be, if validation's accuracy is far higher then.

    In most cases, a few rows rule that out. Otherwise the order is found on half of each class's
    rows and judged on the rest, so that chance finds none. Both accuracy and mean recall must
    rise: where a model prefers one class, accuracy alone may rise.
    """
    if y is None or not isinstance(values, np.ndarray) or classes.size > MOST_ORDERED or y.size < 2:
        return None
    few = max(FEW_ROWS, FEW_PER_CLASS * classes.size)
    if not _could_gain(*_decisions(values, y, few), classes.size):
        return None
    truth, decided = _decisions(values, y, ORDER_ROWS)
    order = _better_order(truth, decided, classes.size)
    if order is None:
        return None
    before, after = ((decided == truth).mean(), (decided == order[truth]).mean())
    names = classes[np.argsort(order)].tolist()
    return (
        "the columns seem to be in another order than the classes: accuracy on validation is "
        f"{before:.0%}, but {after:.0%} if the columns were {some(names)}. Check classes= and the "
        "header."
    )


def _decisions(values: Floats, y: Indices, n_rows: int) -> tuple[Indices, Indices]:
    """Return labels and decisions, of rows spread over all of them where there are too many."""
    if y.size <= n_rows:
        return y, values.argmax(axis=1)
    rows = np.arange(n_rows) * (y.size - 1) // (n_rows - 1)
    return y[rows], values[rows].argmax(axis=1)


def _could_gain(truth: Indices, decided: Indices, n_classes: int) -> bool:
    """Tell whether another order of columns could be far better.

    No order gains more than giving each class the column that is decided for most often.
    """
    n_right = np.count_nonzero(decided == truth)
    least = n_right + FAR_HIGHER * truth.size
    if least > truth.size:
        return False
    return bool(_confusion(truth, decided, n_classes).max(axis=1).sum() >= least)


def _confusion(truth: Indices, decided: Indices, n_classes: int) -> Indices:
    counts = np.bincount(truth * n_classes + decided, minlength=n_classes**2)
    return counts.reshape(n_classes, n_classes)


def _better_order(truth: Indices, decided: Indices, n_classes: int) -> Indices | None:
    """Return the column of each class under which decisions are right far more often, if any."""
    from scipy.optimize import linear_sum_assignment  # heavy, and rarely needed

    by_class = np.argsort(truth, kind="stable")  # so that both halves have each class
    first, second = (
        _confusion(truth[half], decided[half], n_classes)
        for half in (by_class[::2], by_class[1::2])
    )
    recall = first / np.maximum(first.sum(axis=1, keepdims=True), 1)
    # classes without rows keep their columns where they can
    order: Indices = linear_sum_assignment(recall + 1e-9 * np.eye(n_classes), maximize=True)[1]
    n, each = second.sum(axis=1), np.arange(n_classes)
    gain = second[each, order] - second[each, each]
    moved = np.where(order == each, 0, second[each, order] + second[each, each]).sum()
    sure = gain.sum() > SURE * np.sqrt(moved) and gain.sum() >= FAR_HIGHER * n.sum()
    balanced = (gain[n > 0] / n[n > 0]).mean() >= FAR_HIGHER if n.any() else False
    return order if sure and balanced else None


def is_named(y_proba: Any) -> bool:
    """Tell whether predictions are a frame with names, rather than numbers, for its columns."""
    if isinstance(y_proba, Predictions):
        return y_proba.frame is not None and not are_positions(y_proba.names or ())
    if isinstance(y_proba, np.ndarray | list | tuple | Table) or hasattr(y_proba, "collect"):
        return False  # a lazy frame, which has to be collected, is refused where it is read
    # Arrow's `columns` are the data
    names = getattr(y_proba, "column_names", getattr(y_proba, "columns", None))
    return names is not None and not callable(names) and not are_positions(tuple(names))


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

r"""Adapt predictions with a small formula that you can save, send and export.

.. math:: \text{adapted}_k \propto r_k^{\text{strength}} \sum_m w_m\, g_m(f)_k, \qquad
    r_k = \frac{p_E(k)}{p_T(k)}

with calibration maps :math:`g_m` and weights :math:`w_m` (without maps, :math:`f` itself). It is
saved as JSON (`schemas/adapter-1.schema.json`); nothing is pickled. `_exports` writes the same
formula for ONNX, PyTorch and SQL.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._results import FrozenArrays
from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift.adapt._adapt import prior_ratio, reweight
from priorshift.adapt._costs import cheapest, check_costs
from priorshift.border import (
    SUM_TOLERANCE,
    check_classes,
    check_fraction,
    check_numbers,
    check_outputs,
    check_priors,
    check_proba,
    check_source_mass,
    in_class_order,
    is_dask_array,
    is_sparse,
    like_input,
    map_chunks,
    require_keys,
    some,
)
from priorshift.calibration import (
    Calibration,
    CalibrationAverage,
    CalibrationMap,
    calibration_from_dict,
)
from priorshift.files import read_json, require_file, sign, verify, write_json, write_text

SCHEMA_VERSION = 1
"""Raised when a field of the JSON changes its meaning, comes or goes; see schemas/."""

KEYS = ("classes", "source_priors", "priors", "calibration", "strength", "costs", "provenance")


@dataclass(frozen=True, eq=False, repr=False)
class Adapter(FrozenArrays):
    """Adapt predictions by a fixed formula: calibration maps, a ratio per class, a normalisation.

    Get one from `PriorEstimate.adapter`, or create one from known priors. An adapter is immutable,
    stores no sample rows, and compares equal to its copies.

    Parameters
    ----------
    classes : array-like of shape (n_classes,)
        Class names in the order of the columns: strings, integers, booleans or floats.
    source_priors : array-like of shape (n_classes,) or mapping from class to prior
        Priors the classifier was trained with.
    priors : array-like of shape (n_classes,) or mapping from class to prior
        Priors to adapt to.
    calibration : CalibrationAverage, CalibrationMap or None, default=None
        Applied to predictions before they are adapted.
    strength : float in [0, 1], default=1
        Exponent of the ratio; 0 leaves the ratio out.
    costs : array-like of shape (n_classes, n_classes) or mapping, optional
        Costs that `decide` minimises: rows are true classes, columns are decisions. Or a mapping
        from (true, decided) to a cost; other errors cost 1, and correct decisions 0.
    provenance : mapping, optional
        Origin of the adapter: strings, numbers, booleans, None, and mappings of these.

    Examples
    --------
    >>> import priorshift as ps
    >>> adapter = ps.Adapter(["cat", "dog"], source_priors=[0.5, 0.5], priors=[0.9, 0.1])
    >>> adapter([[0.5, 0.5], [0.1, 0.9]])
    array([[0.9, 0.1],
           [0.5, 0.5]])
    >>> ps.Adapter.from_json(adapter.to_json()) == adapter
    True
    >>> adapter.with_costs({("dog", "cat"): 10}).decide([[0.5, 0.5]])  # missing a dog costs 10
    array(['dog'], dtype='<U3')
    """

    classes: Labels
    source_priors: Vector
    priors: Vector
    calibration: CalibrationAverage | None = None
    strength: float = 1.0
    costs: Vector | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        classes = _check_labels(self.classes, self.source_priors)
        checked: dict[str, Any] = {
            "classes": classes,
            "source_priors": _check_priors(self.source_priors, classes, "source_priors"),
            "priors": _check_priors(self.priors, classes, "priors"),
            "calibration": _check_calibration(self.calibration, classes.size),
            "strength": check_fraction(self.strength, "strength"),
            "costs": None if self.costs is None else _check_square(self.costs, classes),
            "provenance": _check_provenance(self.provenance, "provenance"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    @property
    def ratio(self) -> Vector:
        """Importance weight of each class: priors / source_priors, 0 where the source has none."""
        return prior_ratio(self.priors, self.source_priors)

    @property
    def log_ratio(self) -> Vector:
        """Logarithm of `ratio`: what adapting adds to logits at full strength; -inf for 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.ratio)

    def __call__(
        self, y_proba: ArrayLike, *, from_logits: bool = False, strength: float = 1.0
    ) -> NDArray[Any]:
        """Adapt predictions: arguments and result are those of `PriorEstimate.adapt`.

        `strength` is a share of the adapter's own.
        """
        if is_dask_array(y_proba):
            return map_chunks(partial(self, from_logits=from_logits, strength=strength), y_proba)
        predictions = check_outputs(
            y_proba,
            from_proba=not from_logits,
            name="y_proba",
            sparse=True,
            tensors=True,
            classes=self.classes,
        )
        values = in_class_order(predictions, self.classes)
        check_source_mass(
            self.source_priors,
            values,
            self.classes,
            from_logits=from_logits,
            origin=self.provenance.get("source_priors_from", "given"),
        )
        if self.calibration is not None:
            if is_sparse(values):
                raise ValueError(
                    f"{self._name} recalibrates predictions, which sparse ones do not allow; pass "
                    "them as an array, some rows at a time."
                )
            values = self.calibration.apply(values, from_logits=from_logits)
            from_logits = False
        power = self.strength * check_fraction(strength, "strength")
        if power == 0 and isinstance(values, np.ndarray) and not from_logits:
            adapted: Any = values.copy()  # there is nothing to do, not even to round
        else:
            adapted = reweight(values, self.ratio**power, from_logits=from_logits)
        return like_input(predictions, adapted, self.classes)

    def decide(self, y_proba: ArrayLike, *, from_logits: bool = False) -> Labels:
        """Adapt predictions and return the most probable class, or the cheapest under `costs`.

        Parameters
        ----------
        y_proba, from_logits
            As in a call, but not sparse.

        Returns
        -------
        ndarray of shape (n_samples,)
            A class per row.
        """
        adapted = self(y_proba, from_logits=from_logits)
        if is_sparse(adapted):
            raise ValueError("decide needs an array; pass some rows at a time, by toarray().")
        predictions = check_proba(adapted, classes=self.classes)  # a frame, a tensor, 1-D
        values = in_class_order(predictions, self.classes)
        return self.classes[self._decisions(values)]

    def with_costs(self, costs: Any) -> "Adapter":
        """Return the same adapter with costs for `decide`, as in the parameter `costs`."""
        return replace(self, costs=costs)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values that follow the schema."""
        calibration = None if self.calibration is None else self.calibration.to_dict()
        values = (
            self.classes.tolist(),
            self.source_priors.tolist(),
            self.priors.tolist(),
            calibration,
            self.strength,
            None if self.costs is None else self.costs.tolist(),
            _thawed(self.provenance),
        )
        return {"schema_version": SCHEMA_VERSION, **dict(zip(KEYS, values, strict=True))}

    @classmethod
    def from_dict(cls, found: Any) -> "Adapter":
        """Create an adapter from the output of `to_dict`; reject anything against the schema."""
        _check_version(found)
        require_keys(found, ("schema_version", *KEYS), "the adapter")
        named = {name: found[name] for name in KEYS}
        for name in ("classes", "source_priors", "priors"):
            if not isinstance(named[name], list):
                raise ValueError(f"{name} must be a list; got {named[name]!r}.")
        named["classes"] = _read_classes(named["classes"])
        if type(named["strength"]) not in (int, float):
            raise ValueError(f"strength must be a number; got {named['strength']!r}.")
        if named["calibration"] is not None:
            require_keys(named["calibration"], ("maps", "weights"), "calibration")
            named["calibration"] = calibration_from_dict(
                named["calibration"], len(named["classes"])
            )
        if not isinstance(named["costs"], list | None):
            raise ValueError(f"costs must be a list of lists, or null; got {named['costs']!r}.")
        return cls(**named)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return the adapter as JSON with exact numbers, and optionally write it to a file.

        Parameters
        ----------
        path : str or path-like, optional
            The file to write, or to replace as a whole.

        Returns
        -------
        str
            The text.
        """
        text = write_json(sign(self.to_dict()))
        if path is not None:
            write_text(path, text)
        return text

    @classmethod
    def from_json(cls, source: str | PathLike[str]) -> "Adapter":
        """Create an adapter from JSON; reject anything against the schema.

        Parameters
        ----------
        source : str or path-like
            The JSON text as a str, or the file as a Path.
        """
        text = source if isinstance(source, str) else _read(Path(source))
        try:
            found = read_json(text)
        except ValueError as error:
            if not isinstance(error, json.JSONDecodeError):
                raise ValueError(f"the adapter cannot be read: {error}.") from None
            hint = "; to read a file, pass a Path" if len(text) < 500 and "{" not in text else ""
            raise ValueError(f"the adapter is not JSON ({error}){hint}.") from None
        _check_version(found)
        try:
            content = verify(found)
        except ValueError as error:
            raise ValueError(
                f"the adapter is damaged or was edited: {error}. Write it again with "
                "Adapter.to_json; Adapter.from_dict makes one of values of your own."
            ) from None
        return cls.from_dict(content)

    def to_onnx(
        self,
        path: str | PathLike[str] | None = None,
        *,
        from_logits: bool = False,
        precision: Literal["float64", "float32"] = "float64",
    ) -> Any:
        """Return an ONNX model (opset 17), and optionally write it to a file (extra `onnx`).

        Its input is float32 of shape (any number of samples, n_classes). Its outputs are
        `adapted`, the adapted probabilities as float32, and `label`, the class that `decide`
        returns.

        Parameters
        ----------
        path : str or path-like, optional
            The file to write, or to replace as a whole.
        from_logits : bool, default=False
            Whether the input holds logits or log-probabilities instead of probabilities.
        precision : {"float64", "float32"}, default="float64"
            Precision of the computation. Some devices have no float64. In float32, results agree to
            1e-5, unless a ratio of 0 leaves only classes with tiny probabilities.

        Returns
        -------
        onnx.ModelProto
        """
        from priorshift.adapt._exports import to_onnx

        return to_onnx(self, path, from_logits=from_logits, precision=precision)

    def append_to_onnx(
        self,
        model: Any,
        path: str | PathLike[str] | None = None,
        *,
        output: str | None = None,
        from_logits: bool = False,
        precision: Literal["float64", "float32"] = "float64",
    ) -> Any:
        """Append the adapter to the graph of an ONNX classifier (extra `onnx`).

        Inputs and outputs keep their names and types, so you can serve the model as before. If the
        model also outputs a label, as with skl2onnx, it becomes the class that `decide` returns.

        Parameters
        ----------
        model : onnx.ModelProto, str or path-like
            A classifier of opset 13 or newer, or its file.
        path : str or path-like, optional
            The file to write, or to replace as a whole.
        output : str, optional
            Name of the output with the probabilities; by default the only matrix of floats.
        from_logits : bool, default=False
            Whether that output contains logits; they become probabilities.
        precision : {"float64", "float32"}, default="float64"
            As in `to_onnx`.

        Returns
        -------
        onnx.ModelProto
        """
        from priorshift.adapt._exports import append_to_onnx

        return append_to_onnx(
            self, model, path, output=output, from_logits=from_logits, precision=precision
        )

    def to_torch(self, *, from_logits: bool = False) -> Any:
        """Return the adapter as a PyTorch module, without parameters (extra `torch`).

        Classes are along the last dimension. The module follows the device and dtype of its input,
        passes gradients through, and works with `torch.jit.script` and `torch.export`.

        Parameters
        ----------
        from_logits : bool, default=False
            Whether the input contains logits. The output contains probabilities either way.

        Returns
        -------
        torch.nn.Module
        """
        from priorshift.adapt._exports import to_torch

        return to_torch(self, from_logits=from_logits)

    def to_sql(
        self,
        table: str | Sequence[str],
        columns: Sequence[str] | Mapping[Any, str],
        dialect: Literal["ansi", "duckdb", "postgres", "spark"] = "ansi",
        *,
        keep: Iterable[str] = (),
    ) -> str:
        """Return a SELECT that adapts the probabilities in the columns of a table.

        Names are quoted, so they must be written as the database stores them.

        Parameters
        ----------
        table : str or sequence of str
            Name of the table, such as "predictions" or "schema.predictions". If parts of the name
            contain dots, pass them as a sequence.
        columns : sequence of str, or mapping from class to str
            Columns with the probability of each class, in class order. The adapted columns have
            the same names.
        dialect : {"ansi", "duckdb", "postgres", "spark"}, default="ansi"
            "ansi" needs LN, EXP and GREATEST (SQL:2023).
        keep : iterable of str
            Other columns to pass through; they come first.

        Returns
        -------
        str
            The statement, without a semicolon, so that you can select from it.

        Examples
        --------
        >>> import priorshift as ps
        >>> adapter = ps.Adapter(["cat", "dog"], [0.5, 0.5], [0.75, 0.25])
        >>> print(adapter.to_sql("pets", ["p_cat", "p_dog"], keep=["id"])[:31])
        SELECT "id", CASE WHEN ps_total
        """
        from priorshift.adapt._exports import to_sql

        return to_sql(self, table, columns, dialect=dialect, keep=keep)

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from plain values: a read-only mapping cannot be pickled."""
        return Adapter.from_dict, (self.to_dict(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Adapter) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        """Show what it does, and where it is from."""
        maps = () if self.calibration is None else self.calibration.maps
        parts = [f"classes=[{some(self.classes.tolist(), 3)}]"]
        if maps:
            parts.append(f"calibration=[{some((one.name for one in maps), 3)}]")
        parts.append(f"strength={self.strength:g}")
        if self.costs is not None:
            parts.append("costs=...")
        if "method" in self.provenance:
            parts.append(f"method={self.provenance['method']!r}")
        return f"Adapter({', '.join(parts)})"

    @property
    def _name(self) -> str:
        return str(self.provenance.get("method", "this adapter"))

    def _decisions(self, adapted: Floats) -> Indices:
        """Return the column to decide for in each row."""
        if self.costs is None:
            return adapted.argmax(axis=1)
        return cheapest(adapted, self.costs)


def _check_square(costs: Any, classes: Labels) -> Vector:
    """Check costs as `decide` does; an adapter decides for its own classes only."""
    if not isinstance(costs, Mapping):
        costs = check_numbers(costs, ((classes.size, classes.size),), "costs")
    return np.asarray(check_costs(costs, classes, classes.size))


def _check_labels(classes: Any, source_priors: Any) -> Labels:
    """Check the classes; integers become int64 and floats float64, as JSON restores them."""
    n_classes = len(source_priors) if hasattr(source_priors, "__len__") else 0
    found = check_classes(classes, n_classes)
    if found.size < 2:
        raise ValueError("an adapter needs at least two classes.")
    plain = found.tolist()
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ValueError(f"classes must be finite; got {some(plain)}.")
    return _held(plain)


def _read_classes(classes: list[Any]) -> Labels:
    """Reject classes of mixed types, and classes that an array would convert."""
    kinds = {type(label) for label in classes}
    if len(kinds) != 1 or not kinds <= {str, bool, int, float}:
        raise ValueError(
            f"classes must be strings, integers, booleans or floats, all of one kind; got "
            f"{some(classes)}."
        )
    held = _held(classes)
    if held.tolist() != classes:
        raise ValueError(f"classes cannot be held exactly: {some(classes)}; rename them.")
    return held


def _held(plain: list[Any]) -> Labels:
    """Return an array of plain values; NumPy would make floats of some large integers."""
    if type(plain[0]) is not int:
        return np.array(plain)
    try:
        return np.array(plain, np.uint64 if max(plain) >= 2**63 else np.int64)
    except OverflowError:
        raise ValueError(f"classes cannot be held exactly: {some(plain)}; rename them.") from None


def _check_priors(priors: Any, classes: Labels, name: str) -> Vector:
    """Check priors without rescaling them, so that a copy is the same to the last bit."""
    if isinstance(priors, Mapping):
        return check_priors(priors, classes, name)
    values = check_numbers(priors, ((classes.size,),), name, least=0)
    if abs(values.sum() - 1) > SUM_TOLERANCE:
        raise ValueError(
            f"{name} must sum to 1 (tolerance {SUM_TOLERANCE}) but sums to {values.sum():.6g}."
        )
    return values


def _check_calibration(given: Calibration | None, n_classes: int) -> CalibrationAverage | None:
    """Copy the maps, checked and read-only; a single map is an average of one."""
    if given is None:
        return None
    if isinstance(given, CalibrationMap):
        given = CalibrationAverage((given,), (1.0,))
    if not isinstance(given, CalibrationAverage):
        raise ValueError(
            "calibration must be a CalibrationMap, a CalibrationAverage or None; got "
            f"{type(given).__name__}."
        )
    checked = calibration_from_dict(given.to_dict(), n_classes)
    assert isinstance(checked, CalibrationAverage)
    for one in checked.maps:
        for array in (one.slope, one.bias, one.floor):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)
    return checked


def _check_provenance(found: Any, where: str) -> Any:
    """Copy plain values, read-only; reject values that JSON cannot represent."""
    if isinstance(found, Mapping):
        if not all(isinstance(name, str) for name in found):
            raise ValueError(f"{where} must have strings for keys; got {some(found)}.")
        return MappingProxyType(
            {name: _check_provenance(v, f"{where}.{name}") for name, v in found.items()}
        )
    if where == "provenance":
        raise ValueError(f"provenance must be a mapping; got {found!r}.")
    plain = found.item() if isinstance(found, np.generic) else found
    if plain is not None and type(plain) not in (str, bool, int, float):
        raise ValueError(f"{where} must be a string, number, boolean, null or mapping of these.")
    if isinstance(plain, float) and not np.isfinite(plain):
        raise ValueError(f"{where} must be finite; got {plain}.")
    return plain


def _thawed(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _thawed(value) for name, value in found.items()}
    return found


def _read(path: Path) -> str:
    require_file(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8, so it is no adapter.") from None


def _check_version(found: Any) -> None:
    version = found.get("schema_version") if isinstance(found, Mapping) else None
    if type(version) is not int or version != SCHEMA_VERSION:
        raise ValueError(
            f"an adapter must have schema_version {SCHEMA_VERSION}; found {version!r}. Write it "
            "with Adapter.to_json, or read it with the version of priorshift that wrote it."
        )

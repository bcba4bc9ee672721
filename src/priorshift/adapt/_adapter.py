r"""Adapt predictions with a small formula that you can save, send and export.

.. math:: \text{adapted}_k \propto r_k^{\text{strength}} \sum_m w_m\, g_m(f)_k, \qquad
    r_k = \frac{p_E(k)}{p_T(k)}

with calibration maps :math:`g_m` and weights :math:`w_m` (without maps, :math:`f` itself). It is
saved as JSON (`schemas/adapter-1.schema.json`); nothing is pickled. `_exports` writes the same
formula for ONNX, PyTorch and SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._results import FrozenArrays
from priorshift._typing import Labels, Vector
from priorshift.adapt import _exports
from priorshift.adapt._adapt import adapt_predictions, prior_ratio
from priorshift.adapt._costs import cheapest, check_costs
from priorshift.border import (
    SUM_TOLERANCE,
    apply_to,
    check_classes,
    check_number,
    check_numbers,
    check_outputs,
    check_priors,
    mark_adapted,
    read_proba,
    require_keys,
    some,
    warn_if_adapted,
)
from priorshift.calibration import CalibrationAverage, CalibrationMap, calibration_from_dict
from priorshift.files import read_json, require_file, sign, verify, write_json, write_text
from priorshift.text import brief, plain

SCHEMA_VERSION = 1
"""Raised when a field of the JSON changes its meaning, comes or goes; see schemas/."""


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
        sized: Any = self.source_priors
        found = check_classes(self.classes, len(sized) if hasattr(sized, "__len__") else 0)
        if found.size < 2:
            raise ValueError("an adapter needs at least two classes.")
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise ValueError(f"classes must be finite; got {some(found.tolist())}.")
        whole = found.dtype.kind in "iu" and found.max() < 2**63
        classes = found.astype(np.int64) if whole else found
        costs = self.costs
        if costs is not None:  # decisions are its own classes
            costs = check_costs(costs, classes, classes.size)
            costs = check_numbers(costs, ((classes.size, classes.size),), "costs")
        calibration: Any = self.calibration
        if isinstance(calibration, CalibrationMap):
            calibration = CalibrationAverage((calibration,), (1.0,))
        if isinstance(calibration, CalibrationAverage):
            calibration = calibration.to_dict()
        if not isinstance(calibration, Mapping | None):
            raise ValueError(
                "calibration must be a CalibrationMap, a CalibrationAverage or None; got "
                f"{type(calibration).__name__}."
            )
        if calibration is not None:  # copied, checked and read-only
            require_keys(calibration, ("maps", "weights"), "calibration")
            calibration = calibration_from_dict(calibration, classes.size)
            for one in calibration.maps:
                for array in (one.slope, one.bias, one.floor):
                    if isinstance(array, np.ndarray):
                        array.setflags(write=False)
        priors: dict[str, Any] = {"source_priors": self.source_priors, "priors": self.priors}
        for name, given in priors.items():
            if isinstance(given, Mapping):
                priors[name] = check_priors(given, classes, name)
                continue
            # not rescaled, so that a copy is the same to the last bit
            priors[name] = check_numbers(given, ((classes.size,),), name, least=0)
            if abs(priors[name].sum() - 1) > SUM_TOLERANCE:
                raise ValueError(
                    f"{name} must sum to 1 (tolerance {SUM_TOLERANCE:.1g}) but sums to "
                    f"{priors[name].sum():.6g}."
                )
        checked = {
            "classes": classes,
            **priors,
            "calibration": calibration,
            "strength": check_number(self.strength, "strength", 1),
            "costs": costs,
            "provenance": _check_provenance(self.provenance, "provenance"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    @property
    def ratio(self) -> Vector:
        """Importance weight of each class: priors / source_priors, 0 where the source has none."""
        return prior_ratio(self.priors, self.source_priors)

    def __call__(
        self, y_proba: ArrayLike, *, from_logits: bool = False, strength: float = 1.0
    ) -> NDArray[Any]:
        """Adapt predictions: arguments and result are those of `PriorEstimate.adapt`.

        `strength` is a share of the adapter's own.
        """
        warn_if_adapted(y_proba)
        how = partial(self._adapt, from_logits=from_logits, strength=strength)
        return mark_adapted(apply_to(how, y_proba), changed=self.strength * strength > 0)

    def _adapt(self, y_proba: Any, *, from_logits: bool, strength: float) -> Any:
        predictions = check_outputs(
            y_proba,
            from_proba=not from_logits,
            sparse=self.calibration is None,
            classes=self.classes,
        )
        return adapt_predictions(
            predictions,
            self.classes,
            self.source_priors,
            prior_ratio(self.priors, self.source_priors)
            ** (self.strength * check_number(strength, "strength", 1)),
            from_logits=from_logits,
            calibration=self.calibration,
            origin=self.provenance.get("source_priors_from", "given"),
        )

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
        values = read_proba(adapted, self.classes).values  # of a frame, a tensor, 1-D
        return self.classes[cheapest(values, self.costs)]

    def with_costs(self, costs: Any) -> Adapter:
        """Return the same adapter with costs for `decide`, as in the parameter `costs`."""
        return replace(self, costs=costs)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values that follow the schema."""
        return {
            "schema_version": SCHEMA_VERSION,
            "classes": self.classes.tolist(),
            "source_priors": self.source_priors.tolist(),
            "priors": self.priors.tolist(),
            "calibration": None if self.calibration is None else self.calibration.to_dict(),
            "strength": self.strength,
            "costs": None if self.costs is None else self.costs.tolist(),
            "provenance": plain(self.provenance),
        }

    @classmethod
    def from_dict(cls, found: Any) -> Adapter:
        """Create an adapter from the output of `to_dict`; reject anything against the schema."""
        version = found.get("schema_version") if isinstance(found, Mapping) else None
        if type(version) is not int or version != SCHEMA_VERSION:
            raise ValueError(
                f"an adapter must have schema_version {SCHEMA_VERSION}; found {version!r}. Write "
                "it with Adapter.to_json, or read it with the version of priorshift that wrote it."
            )
        keys = [of.name for of in fields(cls)]
        require_keys(found, ("schema_version", *keys), "the adapter")
        named = {name: found[name] for name in keys}
        for name in ("classes", "source_priors", "priors"):
            if not isinstance(named[name], list):
                raise ValueError(f"{name} must be a list; got {named[name]!r}.")
        classes = named["classes"]
        kinds = {type(label) for label in classes}
        if len(kinds) != 1 or not kinds <= {str, bool, int, float}:
            raise ValueError(
                f"classes must be strings, integers, booleans or floats, all of one kind; got "
                f"{some(classes)}."
            )
        held: Any = np.array([])
        with suppress(OverflowError):
            # NumPy would make floats of some large integers
            large = kinds == {int} and max(classes) >= 2**63
            held = np.array(classes, np.uint64 if large else None)
        if held.tolist() != classes:
            raise ValueError(f"classes cannot be held exactly: {some(classes)}; rename them.")
        named["classes"] = held
        if type(named["strength"]) not in (int, float):
            raise ValueError(f"strength must be a number; got {named['strength']!r}.")
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
    def from_json(cls, source: str | PathLike[str]) -> Adapter:
        """Create an adapter from JSON; reject anything against the schema.

        Parameters
        ----------
        source : str or path-like
            The JSON text as a str, or the file as a Path.
        """
        if not isinstance(source, str):
            require_file(Path(source))
            try:
                source = Path(source).read_text(encoding="utf-8-sig")
            except UnicodeDecodeError:
                raise ValueError(f"{source} is not text in UTF-8, so it is no adapter.") from None
        try:
            found = read_json(source)
        except ValueError as error:
            hint = (
                "; to read a file, pass a Path" if len(source) < 500 and "{" not in source else ""
            )
            raise ValueError(f"the adapter is not JSON ({error}){hint}.") from None
        try:
            content = verify(found)
        except ValueError as error:
            raise ValueError(
                f"the adapter is damaged or was edited: {error}. Write it again with "
                "Adapter.to_json; Adapter.from_dict makes one of values of your own."
            ) from None
        return cls.from_dict(content)

    to_onnx = _exports.to_onnx
    to_torch, to_sql = _exports.to_torch, _exports.to_sql

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


def _check_provenance(found: Any, where: str) -> Any:
    """Copy plain values, read-only; reject values that JSON cannot represent."""
    if isinstance(found, Mapping):
        checked = {}
        for name, value in found.items():
            if not isinstance(name, str):
                raise ValueError(f"{where} must have strings for keys; got {some(found)}.")
            checked[name] = _check_provenance(value, f"{where}.{name}")
        return MappingProxyType(checked)
    if where == "provenance":
        raise ValueError(f"provenance must be a mapping; got {brief(found)}.")
    plain = found.item() if isinstance(found, np.generic) else found
    if plain is not None and type(plain) not in (str, bool, int, float):
        raise ValueError(f"{where} must be a string, number, boolean, null or mapping of these.")
    if isinstance(plain, float) and not np.isfinite(plain):
        raise ValueError(f"{where} must be finite; got {plain}.")
    return plain

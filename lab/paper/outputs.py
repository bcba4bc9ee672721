"""Stored outputs: a classifier's logits and labels on its training, validation and test sets."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lab.paper.distributions import Indices, Vector
from priorshift.files import atomic_file

Floats = NDArray[np.floating[Any]]

PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Part:
    """Logits and labels of one set; labels are column numbers."""

    logits: Floats
    y: Indices

    @classmethod
    def of(cls, logits: ArrayLike, y: ArrayLike, name: str) -> "Part":
        """Check logits and labels."""
        values = _checked_logits(logits, f"{name}_logits")
        return cls(values, _checked_labels(y, f"{name}_y", *values.shape))

    def label_frequencies(self) -> Vector:
        """Return the share of each class."""
        return np.bincount(self.y, minlength=self.logits.shape[1]) / self.y.size

    def __getitem__(self, rows: Indices) -> "Part":
        return Part(self.logits[rows], self.y[rows])


@dataclass(frozen=True, eq=False)
class StoredOutputs:
    """Everything that the experiments need from one trained classifier.

    Attributes
    ----------
    name : str
        Name of the classifier or of its data set.
    train, val, test : Part
        Logits and labels. Training outputs are in-sample, as in the paper, which estimates the
        trained priors from them.
    retrained : Part or None
        Test outputs of a second classifier, trained with a sampler that follows the target priors
        of Table 1.
    network : str
        Tells classifiers of one name apart, or that several outputs are of the same one. By default
        outputs of one name are of different classifiers.

    Examples
    --------
    >>> import numpy as np
    >>> part = (np.eye(3)[[0, 1, 2, 2]], [0, 1, 2, 0])
    >>> StoredOutputs.of("toy", train=part, val=part, test=part).n_classes
    3
    """

    name: str
    train: Part
    val: Part
    test: Part
    retrained: Part | None = None
    network: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        *,
        train: tuple[ArrayLike, ArrayLike],
        val: tuple[ArrayLike, ArrayLike],
        test: tuple[ArrayLike, ArrayLike],
        retrained: tuple[ArrayLike, ArrayLike] | None = None,
        network: str = "",
    ) -> "StoredOutputs":
        """Check the outputs."""
        given = {"train": train, "val": val, "test": test, "retrained": retrained}
        parts = {key: Part.of(*part, key) for key, part in given.items() if part is not None}
        widths = {key: part.logits.shape[1] for key, part in parts.items()}
        if len(set(widths.values())) > 1:
            raise ValueError(f"the sets of {name} differ in their number of classes: {widths}.")
        return cls(name, **parts, network=network)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "StoredOutputs":
        """Read an npz with `train_logits`, `train_y`, and the same for val and test.

        `retrained_logits` is optional. Nothing is unpickled.
        """
        path = Path(path)
        with path.open("rb") as stream:
            if not is_zipfile(stream):
                raise ValueError(
                    f"{path} is not an npz: write one with numpy.savez or StoredOutputs.save."
                )
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                return cls.of(path.stem, **_read_parts(file, path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the npz that `load` reads, atomically."""
        arrays: dict[str, Any] = {}
        for name in PARTS:
            part: Part = getattr(self, name)
            arrays |= {f"{name}_logits": part.logits, f"{name}_y": part.y}
        if self.retrained is not None:
            arrays["retrained_logits"] = self.retrained.logits
        with atomic_file(path) as stream:
            np.savez_compressed(stream, **arrays)

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return self.train.logits.shape[1]


def _read_parts(file: Mapping[str, Any], path: Path) -> dict[str, Any]:
    missing = [f"{part}_{what}" for part in PARTS for what in ("logits", "y")]
    missing = [key for key in missing if key not in file]
    if missing:
        raise ValueError(
            f"{path} lacks {', '.join(missing)}; it has {', '.join(sorted(file))}. An npz of "
            "outputs holds train_logits, train_y, val_logits, val_y, test_logits, test_y."
        )
    found = {part: (file[f"{part}_logits"], file[f"{part}_y"]) for part in PARTS}
    if "retrained_logits" in file:
        found["retrained"] = (file["retrained_logits"], file["test_y"])
    return found


def _checked_logits(logits: ArrayLike, name: str) -> Floats:
    """Check a matrix of logits, where -inf stands for probability 0."""
    values = np.asarray(logits)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers; got {values.dtype}.")
    if values.ndim != 2 or values.shape[0] < 1 or values.shape[1] < 2:
        raise ValueError(
            f"{name} must have one row per sample and at least two columns, one per class; got "
            f"shape {values.shape}."
        )
    single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    values = values.astype(np.float32 if single else np.float64, copy=False)
    # NaN and +inf are their row's maximum; a row of only -inf has no distribution
    bad = np.flatnonzero(~np.isfinite(values.max(axis=1)))
    if bad.size:
        raise ValueError(
            f"{name} has NaN, +inf, or nothing but -inf in row {bad[0]} ({bad.size} such rows); "
            "remove or repair these rows."
        )
    return values


def _checked_labels(y: ArrayLike, name: str, n_samples: int, n_classes: int) -> Indices:
    labels = np.asarray(y)
    what = f"{name} must be {n_samples} column numbers from 0 to {n_classes - 1}, one per row"
    if labels.shape != (n_samples,) or labels.dtype.kind not in "iu":
        raise ValueError(f"{what}; got shape {labels.shape} of {labels.dtype}.")
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(f"{what}; got numbers from {labels.min()} to {labels.max()}.")
    return labels.astype(np.intp, copy=False)

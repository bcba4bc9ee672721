"""A classifier's stored outputs on its training, validation and test sets."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Floats, Indices, Vector
from priorshift._validation import check_indices, check_logits
from priorshift.io import atomic_path, require_file

PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Part:
    """Logits of one set with its labels, which are column numbers."""

    logits: Floats
    y: Indices

    @classmethod
    def of(cls, logits: ArrayLike, y: ArrayLike, name: str) -> "Part":
        """Check logits and labels."""
        values = check_logits(logits, f"{name}_logits").values
        return cls(values, check_indices(y, *values.shape))

    def label_frequencies(self) -> Vector:
        """Return the share of each class."""
        return np.bincount(self.y, minlength=self.logits.shape[1]) / self.y.size

    def __getitem__(self, rows: Indices) -> "Part":
        return Part(self.logits[rows], self.y[rows])


@dataclass(frozen=True, eq=False)
class StoredOutputs:
    """What the experiments need of one trained classifier.

    Attributes
    ----------
    name : str
        Of the classifier or its data set.
    train, val, test : Part
        Logits and labels. Training outputs are in-sample, as in the paper, which takes the trained
        priors from them.
    retrained : Part or None
        Outputs on the test set of a classifier trained anew with a sampler that follows the
        target priors of Table 1.

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

    @classmethod
    def of(
        cls,
        name: str,
        *,
        train: tuple[ArrayLike, ArrayLike],
        val: tuple[ArrayLike, ArrayLike],
        test: tuple[ArrayLike, ArrayLike],
        retrained: tuple[ArrayLike, ArrayLike] | None = None,
        from_proba: bool = False,
    ) -> "StoredOutputs":
        """Check the outputs; probabilities become logits by their logarithm."""
        given = {"train": train, "val": val, "test": test, "retrained": retrained}
        parts = {
            key: Part.of(_logarithm(part[0]) if from_proba else part[0], part[1], key)
            for key, part in given.items()
            if part is not None
        }
        widths = {key: part.logits.shape[1] for key, part in parts.items()}
        if len(set(widths.values())) > 1:
            raise ValueError(f"the sets of {name} differ in their number of classes: {widths}.")
        return cls(name, **parts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "StoredOutputs":
        """Read an npz with `train_logits`, `train_y`, and the same for val and test.

        `retrained_logits` is optional. Nothing is unpickled.
        """
        path = Path(path)
        require_file(path)
        if not is_zipfile(path):
            raise ValueError(f"{path} is no npz: write one with numpy.savez or StoredOutputs.save.")
        with np.load(path, allow_pickle=False) as file:
            wanted = [f"{part}_{what}" for part in PARTS for what in ("logits", "y")]
            missing = [key for key in wanted if key not in file]
            if missing:
                raise ValueError(
                    f"{path} lacks {', '.join(missing)}; it has {', '.join(sorted(file))}. An npz "
                    "of outputs holds train_logits, train_y, val_logits, val_y, test_logits, "
                    "test_y."
                )
            train, val, test = ((file[f"{part}_logits"], file[f"{part}_y"]) for part in PARTS)
            retrained = None
            if "retrained_logits" in file:
                retrained = (file["retrained_logits"], file["test_y"])
        return cls.of(path.stem, train=train, val=val, test=test, retrained=retrained)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the npz that `load` reads, atomically."""
        arrays: dict[str, Any] = {}
        for name in PARTS:
            part: Part = getattr(self, name)
            arrays |= {f"{name}_logits": part.logits, f"{name}_y": part.y}
        if self.retrained is not None:
            arrays["retrained_logits"] = self.retrained.logits
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(stream, **arrays)

    @property
    def n_classes(self) -> int:
        """K."""
        return self.train.logits.shape[1]


def _logarithm(y_proba: ArrayLike) -> Floats:
    return np.log(np.maximum(np.asarray(y_proba), np.finfo(np.float32).tiny))

"""The authors' own outputs: read their `outputs.pth.tar`, and check it against their notebook.

The file comes with the notebook `supplementary_material/example.ipynb` of
https://github.com/sipkatom/The-Hitchhiker-s-Guide-to-Prior-Shift-Adaptation: logits of a ResNet-32
trained on CIFAR-100-LT. The notebook reads a dictionary of tensors from it: `outputs_train`,
`targets_train`, and the same for val and test. This module assumes that layout; we had no copy of
the file to try.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from lab.paper.outputs import PARTS, Part, StoredOutputs
from lab.paper.training import require_torch
from lab.paper.trials import Setting, Trial, estimator_of
from lab.show import markdown

PUBLISHED = {
    "na": 33.79,
    "oracle": 36.94,
    "cm": 25.99,
    "scm": 25.74,
    "bbse": 30.44,
    "bbse-s": 28.87,
    "em": 32.19,
    "cm-l": 34.98,
    "scm-l": 35.90,
    "map": 32.65,
    "cm-m": 36.29,
    "scm-m": 36.69,
}
"""Accuracies on the test set, in percent, that the notebook prints after calibration."""

PUBLISHED_LOSS = 3.079
"""Log loss on validation before calibration, as the notebook prints it."""


@dataclass(frozen=True)
class PublishedCheck:
    """The notebook's results beside ours.

    Attributes
    ----------
    loss : float
        Log loss on validation before calibration, with classes weighted as in training. It depends
        on the file alone, so it must round to the notebook's 3.079.
    accuracy : dict from method to float
        Accuracy on the whole test set, in percent, by the released algorithms after the released
        calibration. The notebook calculates in float32 and its cells were not run in order, so the
        last digits may differ.
    """

    loss: float
    accuracy: dict[str, float]

    @property
    def is_same_file(self) -> bool:
        """Whether the loss agrees with the digits that the notebook prints."""
        return math.isclose(self.loss, PUBLISHED_LOSS, abs_tol=6e-4)

    def to_markdown(self) -> str:
        """Return a table of the published numbers, ours, and the differences."""
        rows = [("log loss before calibration", *_beside(self.loss, PUBLISHED_LOSS, digits=3))]
        rows += [
            (method, *_beside(found, PUBLISHED[method], digits=2))
            for method, found in self.accuracy.items()
        ]
        return markdown(["method", "notebook", "here", "difference"], rows)


def _beside(found: float, published: float, digits: int) -> tuple[str, str, str]:
    """Return a published number, ours, and the difference."""
    numbers = f"{published:.{digits}f}", f"{found:.{digits}f}"
    return (*numbers, f"{found - published:+.{digits}f}")


def load_published(path: str | os.PathLike[str]) -> StoredOutputs:
    """Read the authors' `outputs.pth.tar`.

    Only tensors and plain containers are read, by PyTorch (extra `train`): a file that asks for
    anything else is refused. The `save` method of the result writes the npz that `python -m lab
    benchmark` reads.

    Parameters
    ----------
    path : path
        A PyTorch file of a dictionary with the tensors `outputs_train` (n, n_classes),
        `targets_train` (n,), `outputs_val`, `targets_val`, `outputs_test`, `targets_test`.
    """
    path = Path(path)
    torch = require_torch()
    from lab.paper.networks import load_tensors

    found = load_tensors(path)
    wanted = [f"{what}_{part}" for part in PARTS for what in ("outputs", "targets")]
    if not isinstance(found, dict) or any(name not in found for name in wanted):
        has = ", ".join(map(str, found)) if isinstance(found, dict) else type(found).__name__
        raise ValueError(f"{path} should hold the tensors {', '.join(wanted)}; it has {has}.")
    for name in wanted:
        if not torch.is_tensor(found[name]):
            raise ValueError(f"{path} should hold the tensor {name}; it is something else.")
    arrays = {name: found[name].detach().numpy() for name in wanted}
    train, val, test = ((arrays[f"outputs_{part}"], arrays[f"targets_{part}"]) for part in PARTS)
    return StoredOutputs.of("cifar-100-LT", train=train, val=val, test=test)


def check_published(outputs: StoredOutputs) -> PublishedCheck:
    """Run the notebook's methods on its outputs with the released algorithms.

    Parameters
    ----------
    outputs : StoredOutputs
        Outputs from `load_published`.
    """
    target = outputs.test.label_frequencies()
    trial = Setting(outputs, target, calibrated=True, seed=0, share=1.0).draw("released")
    accuracy = {method: _accuracy(method, trial) for method in PUBLISHED}
    return PublishedCheck(_loss(outputs.val, outputs.train), accuracy)


def _accuracy(method: str, trial: Trial) -> float:
    if method == "na":
        return trial.accuracy(trial.y_proba_target)
    if method == "oracle":
        return trial.adapted(trial.truth)
    return trial.adapted_by(trial.estimated(estimator_of(method, "released")))


def _loss(val: Part, train: Part) -> float:
    """Return the mean log loss on validation, with classes weighted to training's shares."""
    weight = train.label_frequencies() / np.maximum(val.label_frequencies(), 1e-300)
    logits = val.logits.astype(np.float64)
    loss = logsumexp(logits, axis=1) - logits[np.arange(val.y.size), val.y]
    return float(np.average(loss, weights=weight[val.y]))

r"""The authors' own outputs: read their `outputs.pth.tar`, and check it against their notebook.

The file comes with the notebook `supplementary_material/example.ipynb` of
https://github.com/sipkatom/The-Hitchhiker-s-Guide-to-Prior-Shift-Adaptation: logits of a ResNet-32
trained on CIFAR-100-LT. The notebook reads a dictionary of tensors from it: `outputs_train`,
`targets_train`, and the same for val and test. That is the layout assumed here; we had no copy of
the file to try.
"""

import math
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from priorshift.evaluation.paper import Part, StoredOutputs, Trial, draw_trial
from priorshift.evaluation.paper._tables import estimator_of
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning
from priorshift.training._tensors import read_tensors

PARTS = ("train", "val", "test")

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
"""Accuracy on the test set, in percent, that the notebook prints after calibration."""

PUBLISHED_LOSS = 3.079
"""Log loss on validation before calibration that the notebook prints."""


@dataclass(frozen=True)
class PublishedCheck:
    """The notebook's row beside ours.

    Attributes
    ----------
    loss : float
        Log loss on validation before calibration, classes weighted as in training. It depends on
        the file alone, so it must round to the notebook's 3.079.
    accuracy : dict from method to float
        In percent, on the whole test set, calibrated. The notebook's calibration stops after 100
        small steps, and ours at the optimum: these differ somewhat, even where all is right.
    """

    loss: float
    accuracy: dict[str, float]

    @property
    def is_same_file(self) -> bool:
        """Whether the loss is the notebook's, to the digits it prints."""
        return math.isclose(self.loss, PUBLISHED_LOSS, abs_tol=6e-4)

    def to_markdown(self) -> str:
        """Return a table of the published numbers and ours."""
        lines = ["| method | notebook | here | difference |", "|---|---:|---:|---:|"]
        lines.append(
            f"| log loss before calibration | {PUBLISHED_LOSS:.3f} | {self.loss:.3f} "
            f"| {self.loss - PUBLISHED_LOSS:+.3f} |"
        )
        lines += [
            f"| {method} | {published:.2f} | {found:.2f} | {found - published:+.2f} |"
            for (method, found), published in zip(
                self.accuracy.items(), PUBLISHED.values(), strict=True
            )
        ]
        return "\n".join(lines)


def load_published(path: str | os.PathLike[str]) -> StoredOutputs:
    """Read the authors' `outputs.pth.tar`.

    Only tensors and plain containers are read, and nothing is unpickled: a file that asks for
    anything else is refused. Its `save` writes the npz that `priorshift benchmark` takes.

    Parameters
    ----------
    path : path
        A PyTorch file of a dictionary with the tensors `outputs_train` (n, n_classes),
        `targets_train` (n,), `outputs_val`, `targets_val`, `outputs_test`, `targets_test`.

    Returns
    -------
    StoredOutputs
    """
    path = Path(path)
    found = read_tensors(path)
    wanted = [f"{what}_{part}" for part in PARTS for what in ("outputs", "targets")]
    if not isinstance(found, dict) or any(name not in found for name in wanted):
        has = ", ".join(map(str, found)) if isinstance(found, dict) else type(found).__name__
        raise ValueError(f"{path} should hold the tensors {', '.join(wanted)}; it has {has}.")
    for name in wanted:
        if not isinstance(found[name], np.ndarray):
            raise ValueError(f"{path} should hold the tensor {name}; it is something else.")
    train, val, test = ((found[f"outputs_{part}"], found[f"targets_{part}"]) for part in PARTS)
    return StoredOutputs.of("cifar-100-LT", train=train, val=val, test=test)


def check_published(outputs: StoredOutputs) -> PublishedCheck:
    """Run the notebook's methods on its outputs, by the published algorithms.

    Parameters
    ----------
    outputs : StoredOutputs
        From `load_published`.

    Returns
    -------
    PublishedCheck
    """
    target = outputs.test.label_frequencies()
    trial = draw_trial(outputs, target, calibrated=True, seed=0, share=1.0)
    accuracy = {method: _accuracy(method, trial) for method in PUBLISHED}
    return PublishedCheck(_loss(outputs.val, outputs.train), accuracy)


def _accuracy(method: str, trial: Trial) -> float:
    if method == "na":
        return trial.accuracy(trial.y_proba_target)
    if method == "oracle":
        return trial.adapted(trial.truth)
    with warnings.catch_warnings():
        for category in (PriorShiftWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        estimate = trial.estimated(estimator_of(method, "paper"))
        return trial.accuracy(estimate.adapt(trial.y_proba_target))


def _loss(val: Part, train: Part) -> float:
    """Return the mean log loss on validation, its classes weighted to training's shares."""
    weight = train.label_frequencies() / np.maximum(val.label_frequencies(), 1e-300)
    logits = val.logits.astype(np.float64)
    loss = logsumexp(logits, axis=1) - logits[np.arange(val.y.size), val.y]
    return float(np.average(loss, weights=weight[val.y]))

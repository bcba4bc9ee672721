"""The networks of the reproduction: train them, and store their outputs in little space.

    python -m lab networks --fashion-mnist FOLDER --cifar-10 FOLDER [--only NAME ...]
        [--trained trained] [--output lab/outputs]

Training needs PyTorch (extra `train`) and resumes where it stopped. Finished networks are left as
they are, and without folders nothing is trained; what is finished is stored. A table of all
networks, with the time that each took, is written beside the outputs.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lab.paper.images import load_images
from lab.paper.outputs import Part, StoredOutputs
from lab.paper.training import Plan, train_classifier
from lab.show import as_csv, parse
from priorshift.files import write_text

OUTPUTS = Path(__file__).parents[1] / "outputs"

BITS = 8
"""Logits are stored less their row's maximum, as float16 of this many binary digits. Decisions and
near ties stay as they are; no probability changes by more than 0.002."""

COLUMNS = (
    *("file", "network", "source", "label_noise", "wrong_labels", "train_images", "epochs", "seed"),
    *("retrained_for", "train", "val", "test", "retrained", "minutes", "torch"),
)


@dataclass(frozen=True)
class Networks:
    """Networks that differ in nothing but their seeds."""

    dataset: str
    source: str
    n_epochs: int
    n_runs: int
    retrain: str | None = None
    largest: int | None = None
    label_noise: float = 0.0
    stored: bool = True

    def plan(self, seed: int) -> Plan:
        """Return what to train."""
        return Plan(
            self.dataset, self.source, None, seed, self.n_epochs, self.largest, self.label_noise
        )


NETWORKS = (
    Networks("fashion-mnist", "LT", 200, 10, "UNI", largest=450),
    Networks("cifar-10", "LT", 200, 3, "UNI", largest=450),
    Networks("fashion-mnist", "UNI", 60, 5, "LT", largest=450),
    Networks("fashion-mnist", "LT", 30, 3, "UNI", label_noise=0.3),
    Networks("fashion-mnist", "LT", 30, 3, "UNI", stored=False),
    Networks("fashion-mnist", "D3", 30, 3, stored=False),
    Networks("fashion-mnist", "UNI", 30, 1, stored=False),
)
"""What `make networks` trains. The last three are too large to be stored in the repository."""


def main(arguments: list[str] | None = None) -> None:
    """Train what is asked for, store it, and list all that is finished."""
    names = [networks.plan(0).name for networks in NETWORKS]
    options = parse(
        __doc__,
        arguments,
        fashion_mnist=Path,
        cifar_10=Path,
        only={"nargs": "+", "choices": names, "default": names},
        trained=Path("trained"),
        output=OUTPUTS,
    )
    options.output.mkdir(parents=True, exist_ok=True)
    rows = []
    for networks in NETWORKS:
        images = getattr(options, networks.dataset.replace("-", "_"))
        for seed in range(networks.n_runs):
            plan = networks.plan(seed)
            folder = folder_of(plan, options.trained)
            path = folder / f"{plan.name}.npz"
            record = path.with_suffix(".json")
            if plan.name in options.only:
                if images is not None:
                    print(f"training {plan.name}, seed {seed}", file=sys.stderr)
                    data = load_images(networks.dataset, images)
                    train_classifier(data, plan, folder, retrain=networks.retrain)
                if networks.stored and record.exists():
                    store(path, options.output / f"{path.stem}-{seed}.npz")
            if record.exists():
                found = row_of(path, json.loads(record.read_text("utf-8")), networks.stored)
                rows.append([found.get(name, "") for name in COLUMNS])
    if not rows:
        sys.exit(
            f"there is no finished network in {options.trained}: name the images by "
            "--fashion-mnist and --cifar-10."
        )
    table = as_csv(rows, COLUMNS)
    write_text(options.output / "networks.csv", table)
    print(table, end="")


def folder_of(plan: Plan, trained: Path) -> Path:
    """Return where a network is kept."""
    return trained / plan.name / f"seed-{plan.seed}"


def store(path: Path, target: Path) -> None:
    """Write the outputs in float16, rounded."""
    outputs = StoredOutputs.load(path)
    parts = (outputs.train, outputs.val, outputs.test, outputs.retrained)
    small = (
        part and Part(rounded(part.logits), part.y.astype(np.min_scalar_type(part.y.max())))
        for part in parts
    )
    StoredOutputs(target.stem, *small).save(target)


def rounded(logits: np.ndarray) -> np.ndarray:
    fraction, exponent = np.frexp(logits - logits.max(axis=1, keepdims=True))
    return np.ldexp(np.round(fraction * 2**BITS) / 2**BITS, exponent).astype(np.float16)


def row_of(path: Path, record: dict[str, Any], stored: bool) -> dict[str, Any]:
    """Return accuracies of a network, and the minutes that it took."""
    seconds = sum(epoch["seconds"] for history in record["history"] for epoch in history)
    known = {name: record[name] for name in COLUMNS if name in record}
    return known | {
        "file": f"{path.stem}-{record['seed']}.npz" if stored else "",
        "label_noise": record.get("label_noise", 0.0),
        "wrong_labels": record.get("wrong_labels", 0.0),
        "train_images": sum(record["train_counts"]),
        **record["accuracy"],
        "minutes": round(seconds / 60, 1),
        "torch": record["versions"]["torch"],
    }

"""The networks of the reproduction: train them, and store their outputs in little space.

    python -m lab networks --fashion-mnist FOLDER --cifar-10 FOLDER [--only NAME ...]
        [--trained trained] [--output lab/outputs] [--store-only]

Training needs PyTorch (extra `train`) and resumes where it stopped. Finished networks are left as
they are; `--store-only` trains nothing and stores what is finished. A table of all networks, with
the time that each took, is written beside the outputs.
"""

import argparse
import csv
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lab.paper.images import load_images
from lab.paper.outputs import Part, StoredOutputs
from lab.paper.training import Plan, train_classifier
from lab.show import parse
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
        store_only=False,
    )
    options.output.mkdir(parents=True, exist_ok=True)
    for networks in NETWORKS:
        if networks.plan(0).name not in options.only:
            continue
        for seed in range(networks.n_runs):
            path = found(networks.plan(seed), options.trained)
            if not options.store_only:
                path = train(networks, seed, options)
            if networks.stored and path is not None:
                store(path, options.output / f"{path.stem}-{seed}.npz")
    table = as_csv(options.trained)
    if table.count("\n") < 2:
        sys.exit(
            f"there is no finished network in {options.trained}: name the images by "
            "--fashion-mnist and --cifar-10."
        )
    write_text(options.output / "networks.csv", table)
    print(table, end="")


def found(plan: Plan, trained: Path) -> Path | None:
    """Return the path of a finished network, or None."""
    path = folder_of(plan, trained) / f"{plan.name}.npz"
    return path if path.with_suffix(".json").exists() else None


def folder_of(plan: Plan, trained: Path) -> Path:
    return trained / plan.name / f"seed-{plan.seed}"


def train(networks: Networks, seed: int, options: argparse.Namespace) -> Path | None:
    """Train one network, unless its data set was not named."""
    folder = getattr(options, networks.dataset.replace("-", "_"))
    if folder is None:
        print(f"{networks.dataset}: no folder was named, nothing is trained.", file=sys.stderr)
        return None
    plan = networks.plan(seed)
    print(f"training {plan.name}, seed {seed}", file=sys.stderr)
    data = load_images(networks.dataset, folder)
    return train_classifier(data, plan, folder_of(plan, options.trained), retrain=networks.retrain)


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


def as_csv(trained: Path) -> str:
    """List every finished network with its accuracies and the minutes that it took."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for networks in NETWORKS:
        for seed in range(networks.n_runs):
            path = found(networks.plan(seed), trained)
            if path is not None:
                record = json.loads(path.with_suffix(".json").read_text("utf-8"))
                writer.writerow(row_of(path, record, networks.stored))
    return stream.getvalue()


def row_of(path: Path, record: dict[str, Any], stored: bool) -> dict[str, Any]:
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

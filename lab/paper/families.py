"""The stored outputs of `../shared/data` as the paper's experiments want them.

The files are no part of the project. Where training outputs are absent, validation stands in for
them: it was drawn as the training set was, so its mean prediction tells the trained priors.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

import priorshift as ps
from lab.paper.distributions import LONG_TAILS, pareto_counts
from lab.paper.outputs import Part, StoredOutputs
from lab.shifts import rank_in_class

SMOOTHING = 0.02
"""Votes that every class has to begin with: 67 networks that say nothing of a class leave it some
chance."""


@dataclass(frozen=True)
class Family:
    """Classifiers on one data set, with the targets that make sense of it.

    `share` is 1 where every run splits the pool anew, which is variation enough.
    docs/reproduction.md says what stands in for what.
    """

    title: str
    load: Callable[[Path, int], Iterator[StoredOutputs]] | None
    targets: tuple[str, ...] = ("UNI",)
    share: float = 0.8
    most_seeds: int = 10
    supplement: bool = False


def cifar100lt(data: Path, n_runs: int) -> Iterator[StoredOutputs]:
    """Yield splits of the pool: a third of every class (5 to 36) validates, the rest tests."""
    with np.load(data / "cifar100lt_if100_logits.npz") as z:
        y_train, y = z["train_y"], z["pool_y"]
        for net in ("ce_baseline", "ride_ce_expert_0"):
            train, pool = z[f"{net}__train_logits"], z[f"{net}__pool_logits"]
            for seed in range(n_runs):
                held = held_out(y, 1 / 3, np.random.default_rng([seed, 100]))
                yield StoredOutputs.of(
                    f"CIFAR-100-LT {net}",
                    train=(as_float(train), y_train),
                    val=(as_float(pool[held]), y[held]),
                    test=(as_float(pool[~held]), y[~held]),
                )


def four_networks(file: str, val: str, name: str, data: Path, _: int) -> Iterator[StoredOutputs]:
    """Yield networks whose validation stands in for training outputs; `{}` names each."""
    with np.load(data / f"{file}_logits_4nets.npz") as z:
        for net in dict.fromkeys(key.split("__")[0] for key in z):
            parts = [
                (as_float(z[f"{net}__{part}_logits"]), z[f"{net}__{part}_y"])
                for part in (val, "test")
            ]
            yield StoredOutputs.of(name.format(net), train=parts[0], val=parts[0], test=parts[1])


def plankton(data: Path, _: int, least: int = 20) -> Iterator[StoredOutputs]:
    """Yield the network; test classes of fewer than `least` images have theirs repeated."""
    with np.load(data / "plankton121.npz") as z:
        y = z["y"]
        parts = {p: (as_float(z[f"{p}_logits"]), y[z[f"{p}_idx"]]) for p in ("train", "val")}
        logits, y_test = z["test_logits"], y[z["test_idx"]]
    rows = repeated_to(y_test, least)
    yield StoredOutputs.of("plankton", **parts, test=(as_float(logits[rows]), y_test[rows]))


def imagenet_votes(data: Path, n_runs: int) -> Iterator[StoredOutputs]:
    """Yield splits of the 50 images per class in halves; logits are log-shares of smoothed votes.

    Only the rows in use are made dense, in float32: 100 MB per half.
    """
    votes, y = read_votes(data)
    for seed in range(n_runs):
        held = held_out(y, 0.5, np.random.default_rng([seed, 1000]))
        val = Part(votes_as_logits(votes[held]), y[held])
        test = Part(votes_as_logits(votes[~held]), y[~held])
        yield StoredOutputs("ImageNet votes", val, val, test)


def imagenet_votes_lt(data: Path, n_runs: int) -> Iterator[StoredOutputs]:
    """Yield the votes as if their networks had seen a long tail: Bayes' rule, not training.

    Of the 50 images per class 10 train, 20 validate (as many as ImageNet-LT's own list has) and 20
    test. A temperature fitted on the 10 makes the votes a posterior under uniform priors; times the
    priors of ImageNet-LT's profile it is one under long-tailed priors. Which class is how frequent
    is drawn anew in every run. Training outputs are the 10 images per class, repeated until their
    labels follow the long tail, 128 to 1.
    """
    votes, y = read_votes(data)
    tail = pareto_counts(*LONG_TAILS["ImageNet-LT"])
    for seed in range(n_runs):
        rng = np.random.default_rng([seed, 1001])
        counts = rng.permutation(tail)
        rank = rank_in_class(y, rng)
        train, val, test = (np.flatnonzero((a <= rank) & (rank < b))
                            for a, b in ((0, 10), (10, 30), (30, 50)))  # fmt: skip
        temperature = ps.TemperatureScaling(logits=True).fit(
            votes_as_logits(votes[train]), y[train]
        )
        shift = np.log(counts / counts.sum()).astype(np.float32)
        wanted = np.ceil(counts / 10).astype(int)
        drawn = np.concatenate([np.resize(train[y[train] == k], n) for k, n in enumerate(wanted)])
        parts = []
        for rows in (drawn, val, test):
            posterior = temperature.predict_proba(votes_as_logits(votes[rows]))
            parts.append(Part(np.log(posterior).astype(np.float32) + shift, y[rows]))
        yield StoredOutputs("ImageNet votes LT", *parts)


FAMILIES = {
    "cifar100lt": Family("CIFAR-100-LT -> UNI", cifar100lt, share=1.0),
    "cifar100": Family(
        "CIFAR-100 -> LT",
        partial(four_networks, "cifar100", "val", "CIFAR-100 4 networks"),
        targets=("LT",),
        most_seeds=5,
        supplement=True,
    ),
    "cifar10lt": Family(
        "CIFAR-10-LT -> UNI",
        partial(four_networks, "cifar10lt", "val_lt", "CIFAR-10-LT {}"),
        supplement=True,
    ),
    "plankton": Family("plankton -> UNI", plankton),
    "imagenet": Family("ImageNet votes -> LT", imagenet_votes, targets=("LT",), share=1.0),
    "imagenet-lt": Family(
        "ImageNet votes, made long-tailed -> UNI", imagenet_votes_lt, share=1.0, most_seeds=5
    ),
}
"""What the tables run on, by name."""


def read_votes(data: Path) -> tuple[csr_matrix, np.ndarray]:
    """Return the shares of votes, sparse, and the labels."""
    with np.load(data / "imagenet_val_votes_csr.npz") as z:
        shares = z["top1_data"].astype(np.float32) / float(z["n_models"])
        parts = (shares, z["top1_indices"].astype(np.int32), z["top1_indptr"])
        y = z["y"].astype(np.intp)
    return csr_matrix(parts, shape=(y.size, 1000)), y


def votes_as_logits(votes: csr_matrix) -> np.ndarray:
    """Return the logarithm of smoothed votes, made dense."""
    smoothed = votes.toarray()
    smoothed += np.float32(SMOOTHING / 67)
    return np.log(smoothed, out=smoothed)


def held_out(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Mark `share` of every class, rounded down but at least one."""
    wanted = np.maximum(1, np.floor(share * np.bincount(y)))
    return rank_in_class(y, rng) < wanted[y]


def repeated_to(y: np.ndarray, least: int) -> np.ndarray:
    """Return rows in which every class occurs at least `least` times, some repeatedly."""
    order = np.argsort(y, kind="stable")
    count = np.bincount(y)
    times = np.ceil(least / count).astype(int).clip(min=1)
    return np.repeat(order, np.repeat(times, count))


def as_float(logits: np.ndarray) -> np.ndarray:
    """Return float32: float16 is how the files are kept, not how to calculate."""
    return logits.astype(np.float32)

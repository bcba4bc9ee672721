"""What a saved monitor must look like: every part is checked before anything is made of it.

A checksum tells damage. It does not tell a file that somebody edited with care, or that was
written by other code: so shapes, types and ranges are checked as well.
"""

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Vector
from priorshift._validation import check_choice, check_classes, check_priors, some
from priorshift.streaming._e_process import n_scores
from priorshift.streaming._saved_estimator import PARTS, SAVED, Arrays
from priorshift.streaming._step import plain_time

Header = dict[str, Any]

LARGEST = 2**53
"""Of counts: beyond it float64 has gaps."""

LARGEST_SEED = 2**63
SUM_TOLERANCE = 1e-6


def checksum(header: Header, arrays: Arrays) -> str:
    """Return a digest of all that a file says, but for the digest itself."""
    digest = hashlib.sha256()
    said = {name: value for name, value in header.items() if name != "checksum"}
    digest.update(json.dumps(said, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def check_state(header: Header, arrays: Arrays) -> None:
    """Refuse, with a ValueError or a KeyError, what is not a whole and sound monitor."""
    state = _State(header, arrays)
    state.check_estimator()
    state.check_past()
    state.check_alarm()
    state.check_history()
    strange = arrays.keys() - state.looked_at
    _require(not strange, f"it has {some(sorted(strange))}, which no monitor has")


class _State:
    """The parts of a file, which are asked for with what they must be."""

    def __init__(self, header: Header, arrays: Arrays) -> None:
        self.header, self.arrays = header, arrays
        self.looked_at: set[str] = set()
        classes = self._array("classes", "biufUSM", None)
        self.classes = check_classes(classes, classes.size)
        self.K = self.classes.size
        self.n_batches = _whole(header["n_batches"], "n_batches")
        self.params = _mapping(header["params"], "the parameters")

    def check_estimator(self) -> None:
        """Check the fitted estimator."""
        named = _mapping(self.header["estimator"], "estimator")
        check_choice(named["method"], SAVED, "the method")
        _mapping(named["params"], "the parameters of the method")
        given = named["given"]
        _require(
            type(given) is list and [type(known) for known in given] == [bool, bool],
            "'given' is not two truth values",
        )
        _require(type(named["source_priors_from"]) is str, "'source_priors_from' is no text")
        for name in ("source_priors", "source_label_priors"):
            check_priors(self._counts(name, self.K), self.classes, name)
        self._check_evidence(_mapping(named["evidence"], "the evidence"))

    def _check_evidence(self, evidence: dict[str, Any]) -> None:
        _require("predicted" in evidence and "confusion" in evidence, "it has no confusion matrix")
        for name, described in evidence.items():
            check_choice(name, PARTS, "a part of the evidence")
            decision, n_samples = described
            check_choice(decision, ("hard", "soft"), f"the decisions of {name}")
            _whole(n_samples, f"the rows of {name}")
            if name == "predicted":
                _some(self._counts(f"{name}.counts", self.K), f"{name}.counts")
            else:
                self._counts(f"{name}.counts", self.K, self.K)
                weights = self._counts(f"{name}.class_weights", self.K)
                _require(bool((weights > 0).all()), f"'{name}' lacks a class")

    def check_past(self) -> None:
        """Check what is kept of the batches so far."""
        sums = self._pools("leading", self.n_batches, self.K, self._counts)
        _some(sums, "leading.sums")
        weights = self._numbers("leading.log_weights", len(sums))
        _require(bool((weights <= 1e-9).all()), "'leading.log_weights' has a weight above 1")
        squares = self.header["squares"]
        _require(_is_finite(squares) and squares >= 0, "'squares' is not a number of at least 0")
        last, pooled = self._counts("leading.last", self.K), self._counts("fading.pooled", self.K)
        window = self._counts("window.counts", None, self.K)
        _require(bool(window.shape[0]) == bool(self.n_batches), "the window has lost its batches")
        if self.n_batches:
            for name, counts in (("last", last), ("pooled", pooled), ("window.counts", window)):
                _some(counts, name)

    def check_alarm(self) -> None:
        """Check the sequential test."""
        alarm = _mapping(self.header["alarm"], "the alarm")
        for name in ("threshold", "log_e_value", "largest"):
            _require(_is_finite(alarm[name]), f"the alarm's {name} is not a finite number")
        _require(alarm["threshold"] > 0, "the alarm's threshold is not above 0")
        _require(
            alarm["largest"] >= max(0.0, alarm["log_e_value"]),
            "the alarm's largest evidence is less than its last",
        )
        _whole(alarm["seed"], "the seed", LARGEST_SEED)
        _whole(alarm["run"], "run")
        self._pools("alarm", None, n_scores(self.K) + 1, self._numbers)
        for name in ("alarm.before", "alarm.since"):
            self._counts(name, self.K)

    def check_history(self) -> None:
        """Check the steps that are kept."""
        times = self.header["times"]
        _require(type(times) is list, "'times' is no list")
        for time in times:
            plain_time(time)
        n = len(times)
        _whole(self.params["max_history"], "max_history")
        _require(n <= self.n_batches, f"the history has {n} steps of {self.n_batches} batches")
        index = self._array("history.index", "i", (n,))
        expected = np.arange(self.n_batches - n, self.n_batches)
        _require(np.array_equal(index, expected), "'history.index' does not count the batches")
        rows = self._array("history.n_samples", "i", (n,))
        _require(bool((rows > 0).all()), "'history.n_samples' has a batch without rows")
        totals = self._counts("history.priors", n, self.K).sum(axis=1)
        _require(bool((abs(totals - 1) <= SUM_TOLERANCE).all()), "'history.priors' do not sum to 1")
        self._numbers("history.log_e_value", n)
        p_values = self._counts("history.p_value", n)
        _require(bool((p_values <= 1).all()), "'history.p_value' has one above 1")
        for name in ("alarm", "raised"):
            self._array(f"history.{name}", "b", (n,))

    def _pools(
        self, name: str, n_batches: int | None, width: int, read: Callable[..., Vector]
    ) -> Vector:
        seen = int(self._array(f"{name}.n_batches", "i", ()))
        _require(
            0 <= seen <= self.n_batches and n_batches in (None, seen),
            f"'{name}.n_batches' is not the number of batches",
        )
        starts = self._array(f"{name}.starts", "i", None)
        rising = np.diff(starts, prepend=-1) > 0
        _require(
            bool(rising.all()) and bool((starts < seen).all()) and (seen == 0 or starts[:1] == [0]),
            f"'{name}.starts' are not batches in their order",
        )
        return read(f"{name}.sums", starts.size, width)

    def _counts(self, name: str, *shape: int | None) -> Vector:
        """Return numbers of at least 0."""
        values = self._numbers(name, *shape)
        _require(bool((values >= 0).all()), f"'{name}' has a number below 0")
        return values

    def _numbers(self, name: str, *shape: int | None) -> Vector:
        """Return finite numbers that leave room for sums of them."""
        values = self._array(name, "f", shape)
        finite = bool((np.abs(values) <= LARGEST).all())
        _require(finite, f"'{name}' has a number that is too large or not finite")
        return values

    def _array(self, name: str, kinds: str, shape: tuple[int | None, ...] | None) -> NDArray[Any]:
        """Return an array of one of some types; None is a length, or a vector, of any."""
        array = self.arrays[name]
        self.looked_at.add(name)
        wanted = (None,) if shape is None else shape
        fits = array.ndim == len(wanted) and all(
            m in (None, n) for n, m in zip(array.shape, wanted, strict=True)
        )
        narrow = array.dtype.kind in "fi" and array.dtype.itemsize < 4  # sums would overflow
        _require(
            fits and array.dtype.kind in kinds and not narrow,
            f"'{name}' has the shape {array.shape} and the type {array.dtype}",
        )
        return array


def _mapping(value: Any, name: str) -> dict[str, Any]:
    _require(type(value) is dict, f"{name} is no mapping")
    return dict(value)


def _some(counts: Vector, name: str) -> None:
    """Require something in every row: it will be divided by their sums."""
    _require(bool((counts.sum(axis=-1) > 0).all()), f"'{name}' counts nothing")


def _whole(value: Any, name: str, most: int = LARGEST) -> int:
    _require(
        type(value) is int and 0 <= value <= most, f"{name} is not a whole number in its range"
    )
    return int(value)


def _is_finite(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)

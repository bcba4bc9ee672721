"""Inputs from plain to hostile: predictions, labels, priors, and what they come in."""

import functools
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, csr_matrix

Rng = np.random.Generator
Array = np.ndarray

TINY = 1e-300
DENORMAL = 5e-324


def chance(rng: Rng, probability: float) -> bool:
    """Toss a coin."""
    return bool(rng.random() < probability)


def pick(rng: Rng, options: Any) -> Any:
    """Take one of a sequence, whatever it holds."""
    return options[int(rng.integers(len(options)))]


# Predictions: valid numbers of many shapes


def _softmax(z: Array) -> Array:
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def informative(rng: Rng, y: Array, K: int) -> Array:
    """Outputs of a classifier that knows something of the labels."""
    z = rng.normal(size=(y.size, K))
    z[np.arange(y.size), y] += rng.uniform(0, 4)
    return _softmax(z * rng.choice([0.3, 1, 3, 30]))


def one_hot(rng: Rng, y: Array, K: int) -> Array:
    """Exact zeros and ones, right or at random."""
    return np.eye(K)[y if chance(rng, 0.5) else rng.integers(K, size=y.size)]


def constant(rng: Rng, y: Array, K: int) -> Array:
    """One row again and again."""
    return np.tile(rng.dirichlet(np.ones(K)), (y.size, 1))


def uniform(rng: Rng, y: Array, K: int) -> Array:
    """Nothing but ties."""
    return np.full((y.size, K), 1 / K)


def lacking(rng: Rng, y: Array, K: int) -> Array:
    """A class that is never predicted, or almost never."""
    P = informative(rng, y, K)
    P[:, rng.integers(K)] *= pick(rng, [0.0, 1e-30, TINY])
    return P / P.sum(axis=1, keepdims=True)


def one_sided(rng: Rng, y: Array, K: int) -> Array:
    """One class takes everything, or almost."""
    P = np.full((y.size, K), pick(rng, [0.0, DENORMAL, TINY, 1e-30, 1e-9]))
    P[:, rng.integers(K)] = 1.0
    return P


def steep(rng: Rng, y: Array, K: int) -> Array:
    """Probabilities from 1 down to what underflows."""
    with np.errstate(under="ignore"):
        return _softmax(rng.normal(size=(y.size, K)) * pick(rng, [50, 300, 2000]))


def half_and_half(rng: Rng, y: Array, K: int) -> Array:
    """Certain of two classes: rows of exact halves."""
    P = np.zeros((y.size, K))
    P[:, 0] = P[:, -1] = 0.5
    P[y == rng.integers(K)] = np.eye(K)[rng.integers(K)]
    return P


STYLES = (
    *(informative,) * 6,
    one_hot,
    constant,
    uniform,
    lacking,
    one_sided,
    steep,
    half_and_half,
)


def predictions(rng: Rng, y: Array, K: int) -> Array:
    """Draw valid predictions for samples with these labels."""
    return pick(rng, STYLES)(rng, y, K)


# Predictions: what is wrong with numbers


def _with_value(value: float) -> Callable[[Rng, Array], Any]:
    def spoil(rng: Rng, P: Array) -> Any:
        P = P.copy()
        if P.size:
            P[rng.integers(P.shape[0]), rng.integers(P.shape[1])] = value
        return P

    return spoil


def _of_shape(change: Callable[[Array], Any]) -> Callable[[Rng, Array], Any]:
    return lambda _, P: change(P)


CORRUPTIONS: tuple[Callable[[Rng, Array], Any], ...] = (
    *map(_with_value, (np.nan, np.inf, -np.inf, -0.1, -1e-300, 2.0, 1e300, -0.0, 1.0005)),
    _of_shape(lambda P: P[:0]),
    _of_shape(lambda P: P[:, :0]),
    _of_shape(lambda P: P[:, :1]),
    _of_shape(lambda P: P[:, 0]),
    _of_shape(lambda P: P[0]),
    _of_shape(lambda P: P[None]),
    _of_shape(lambda P: P[:1]),
    _of_shape(lambda P: P.T),
    _of_shape(lambda P: np.hstack([P, np.zeros((len(P), 1))])),
    _of_shape(lambda P: P[:, :-1]),
    _of_shape(np.zeros_like),
    _of_shape(lambda P: P * 100),
    _of_shape(lambda P: P + 0j),
    _of_shape(lambda P: np.log(P, out=np.full_like(P, -np.inf), where=P > 0)),
    _of_shape(lambda P: P.astype("U12")),
    _of_shape(lambda P: P.astype("S12")),
    _of_shape(lambda P: P.astype("M8[s]")),
    _of_shape(lambda P: P.astype("V8")),
    _of_shape(lambda P: np.ma.masked_less(P, 0.5)),
    _of_shape(lambda P: [[None, *row[1:]] for row in P.tolist()]),
    _of_shape(lambda P: [*P.tolist(), [1.0]]),
    _of_shape(lambda P: (row for row in P)),
    _of_shape(lambda P: {"a": P[:, 0]}),
    _of_shape(lambda P: P.astype(object) + date(2026, 1, 1).toordinal()),
    _of_shape(lambda P: None),
    _of_shape(lambda P: 0.5),
    _of_shape(lambda P: "y_proba.npy"),
    _of_shape(lambda P: np.float64(1)),
    _of_shape(lambda P: b"0.5"),
    _of_shape(lambda P: object()),
)


# Predictions: what numbers come in


def _non_contiguous(P: Array) -> Array:
    wide = np.zeros((len(P), 2 * P.shape[1]))
    wide[:, ::2] = P
    return wide[:, ::2]


def _read_only(P: Array) -> Array:
    P = P.copy()
    P.setflags(write=False)
    return P


def _pandas(P: Array, names: list[Any] | None) -> Any:
    import pandas as pd

    return pd.DataFrame(P, columns=names)


def _polars(P: Array, names: list[Any] | None) -> Any:
    import polars as pl

    return pl.DataFrame(P, schema=_text(names, P))


def _arrow(P: Array, names: list[Any] | None) -> Any:
    import pyarrow as pa

    return pa.table([pa.array(column) for column in P.T], names=_text(names, P))


def _lazy(P: Array, names: list[Any] | None) -> Any:
    return _polars(P, names).lazy()


def _object_frame(P: Array, names: list[Any] | None) -> Any:
    return _pandas(P, names).astype(object)


def _indexed_frame(P: Array, names: list[Any] | None) -> Any:
    frame = _pandas(P, names)
    frame.index = np.arange(len(P))[::-1] // 2
    return frame


def _text(names: list[Any] | None, P: Array) -> list[str]:
    return [str(name) for name in (names or [f"column {i}" for i in range(P.shape[1])])]


def _duplicated(P: Array, names: list[Any] | None) -> Any:
    return _pandas(P, ["twice"] * P.shape[1])


def _multi_index(P: Array, names: list[Any] | None) -> Any:
    import pandas as pd

    columns = pd.MultiIndex.from_product([["p"], _text(names, P)])
    return pd.DataFrame(P, columns=columns)


def _permuted(P: Array, names: list[Any] | None) -> Any:
    return _pandas(P[:, ::-1], None if names is None else names[::-1])


def _nullable(P: Array, names: list[Any] | None) -> Any:
    return _pandas(P, names).astype("Float64")


ARRAYS: tuple[Callable[[Array], Any], ...] = (
    np.asfortranarray,
    _non_contiguous,
    _read_only,
    lambda P: P[::-1][::-1],
    lambda P: P.astype(">f8"),
    lambda P: P.astype(">f4"),
    lambda P: P.astype(np.float32),
    lambda P: P.astype(np.float16),
    lambda P: P.astype(np.longdouble),
    lambda P: P.astype(object),
    lambda P: P > 0.5,
    lambda P: P.round().astype(np.uint8),
    lambda P: P.tolist(),
    lambda P: tuple(map(tuple, P.tolist())),
    lambda P: list(P),
    lambda P: P.view(np.recarray) if P.size else P,
    csr_array,
    csr_matrix,
    coo_array,
    lambda P: csr_array(P.astype(np.float32)),
)

FRAMES = (
    *(_pandas, _polars, _arrow) * 2,
    _lazy,
    _object_frame,
    _indexed_frame,
    _duplicated,
    _multi_index,
    _permuted,
    _nullable,
)


def contained(rng: Rng, P: Array, names: list[Any] | None) -> Any:
    """Give the same numbers as another array, a frame, or something like them."""
    if chance(rng, 0.5):
        return pick(rng, FRAMES)(P, names)
    return pick(rng, ARRAYS)(P)


def hostile(rng: Rng, P: Array, names: list[Any] | None, how_often: float = 0.2) -> Any:
    """Give predictions as they are, in another container, or spoilt."""
    if chance(rng, how_often):
        spoilt = pick(rng, CORRUPTIONS)(rng, P)
        usual = isinstance(spoilt, np.ndarray) and spoilt.ndim == 2 and spoilt.dtype.kind == "f"
        return contained(rng, spoilt, None) if usual and chance(rng, 0.2) else spoilt
    return contained(rng, P, names) if chance(rng, 0.25) else P


# Labels

NAMES = {
    "numbers": lambda K: list(range(K)),
    "text": lambda K: [f"class {k}" for k in range(K)],
    "later numbers": lambda K: [10 * k + 5 for k in range(K)],
    "floats": lambda K: [k / 2 for k in range(K)],
    "signs": lambda K: list(range(-1, 2 * K - 1, 2)),
    "odd text": lambda K: (
        ["", " ", "nan", "é", "<b>", "0", "None", "a,b", '"', "\n"][:K]
        + [f"x{k}" for k in range(10, K)]
    ),
}


@functools.cache
def label_containers() -> tuple[Callable[[Array], Any], ...]:
    """Make the ways to hold labels; frames are imported when they are asked for."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    return (
        lambda y: y.tolist(),
        lambda y: tuple(y.tolist()),
        lambda y: y.astype(object),
        pd.Series,
        lambda y: pd.Series(y).astype("category"),
        lambda y: pl.Series(y.tolist()),
        lambda y: pa.chunked_array([y.tolist()]),
        lambda y: y[::-1][::-1],
    )


def _spoil_at(value: Any) -> Callable[[Rng, Array], Any]:
    def spoil(rng: Rng, y: Array) -> Any:
        y = y.tolist()
        if y:
            y[rng.integers(len(y))] = value
        return y if chance(rng, 0.5) else np.array([*y, None], dtype=object)[:-1]

    return spoil


WRONG_LABELS: tuple[Callable[[Rng, Array], Any], ...] = (
    *map(_spoil_at, (np.nan, None, b"a", date(2026, 1, 1), "unknown", 10**6, 2**70, -(2**63))),
    *map(_spoil_at, (1j, (1, 2), [0], True, 0.5, np.datetime64("2026-01-01"), object())),
    lambda _, y: y[:-1],
    lambda _, y: np.append(y, y[:1]),
    lambda _, y: y[:0],
    lambda _, y: y[:, None],
    lambda _, y: y[None],
    lambda _, y: np.arange(y.size),
    lambda _, y: y[0],
    lambda _, y: (label for label in y.tolist()),
    lambda _, y: set(y.tolist()),
    lambda _, y: {"y": y},
    lambda _, y: np.ma.masked_array(y, mask=np.arange(y.size) == 0),
    lambda _, y: np.zeros(y.size, dtype="M8[D]"),
    lambda _, y: np.full(y.size, b"a"),
    lambda _, y: None,
    lambda _, y: "labels",
    lambda _, y: np.zeros(y.size, dtype="V4"),
    lambda _, y: csr_array(np.arange(y.size)[None]),
)


def hostile_labels(rng: Rng, y: Array, how_often: float = 0.15) -> Any:
    """Give labels as they are, in another container, or spoilt."""
    if chance(rng, how_often):
        return pick(rng, WRONG_LABELS)(rng, y)
    return pick(rng, label_containers())(y) if chance(rng, 0.3) else y


# Priors and other vectors


def priors(rng: Rng, K: int) -> Array:
    """Draw valid priors, some of them far from equal."""
    drawn = rng.dirichlet(np.full(K, pick(rng, [0.3, 1.0, 10.0])))
    if chance(rng, 0.25):
        drawn[rng.integers(K)] = pick(rng, [0.0, 1e-12, 1e-29, 1e-31, TINY, DENORMAL])
        drawn /= drawn.sum()
    return drawn


def _as_series(p: Array, names: list[Any]) -> Any:
    import pandas as pd

    return pd.Series(p, index=names)


WRONG_PRIORS: tuple[Callable[[Array, list[Any]], Any], ...] = (
    lambda p, _: p * 2,
    lambda p, _: -p,
    lambda p, _: p[:-1],
    lambda p, _: np.append(p, 0.0),
    lambda p, _: p[:, None],
    lambda p, _: p * np.nan,
    lambda p, _: p * np.inf,
    lambda p, _: np.zeros_like(p),
    lambda p, _: p + 0j,
    lambda p, _: (p * 1000).astype(int),
    lambda p, _: [*p[:-1].tolist(), None],
    lambda p, _: 0.5,
    lambda p, _: "0.5,0.5",
    lambda p, _: {},
    lambda p, names: dict(zip(names[:-1], p, strict=False)),
    lambda p, names: dict.fromkeys(names),
    lambda p, names: dict(zip(names, map(str, p), strict=True)),
    lambda p, names: {(name, 0): value for name, value in zip(names, p, strict=True)},
    lambda p, _: [p.tolist(), 1.0],
    lambda p, _: np.ma.masked_array(p, mask=np.arange(p.size) == 0),
    lambda p, _: object(),
    lambda p, _: iter(p.tolist()),
    lambda p, _: p.astype("U8"),
    lambda p, _: np.eye(p.size)[0] * -0.0,
    lambda p, names: _as_series(p[:0:-1], names[:0:-1]),
    lambda p, _: {0.5},
)

PRIOR_CONTAINERS: tuple[Callable[[Array, list[Any]], Any], ...] = (
    *(lambda p, _: p,) * 4,
    lambda p, _: p.tolist(),
    lambda p, _: p.astype(np.float32),
    lambda p, _: p.astype(np.longdouble),
    lambda p, names: dict(zip(names, p.tolist(), strict=True)),
    _as_series,
    lambda p, names: _as_series(p, names)[::-1],
    lambda p, _: np.full(p.size, 1 / p.size),
    lambda p, _: np.eye(p.size)[0],
)


def hostile_priors(rng: Rng, names: list[Any], how_often: float = 0.2) -> Any:
    """Give priors in some container, or spoilt."""
    drawn = priors(rng, len(names))
    with np.errstate(all="ignore"):
        return pick(rng, WRONG_PRIORS if chance(rng, how_often) else PRIOR_CONTAINERS)(drawn, names)


WRONG_WEIGHTS: tuple[Callable[[Array], Any], ...] = (
    np.zeros_like,
    lambda w: -w,
    lambda w: w * np.nan,
    lambda w: w * np.inf,
    lambda w: w[:-1],
    lambda w: w[:, None],
    lambda w: w + 0j,
    lambda w: w.astype("U5"),
    lambda w: 1.0,
    lambda w: "balanced",
    lambda w: [None] * w.size,
    lambda w: np.ma.masked_less(w, 1),
    lambda w: csr_array(w[None]),
)


def hostile_weights(rng: Rng, n: int, how_often: float = 0.3) -> Any:
    """Give sample weights: none, whole, tiny, huge, or spoilt."""
    if chance(rng, 0.6):
        return None
    weights = rng.exponential(size=n)
    if chance(rng, how_often):
        return pick(rng, WRONG_WEIGHTS)(weights)
    scale = pick(rng, [1.0, 1.0, 1e-12, 1e-300, 1e12, 1e300])
    weights = weights * scale * (rng.random(n) < pick(rng, [1.0, 0.9, 0.5]))
    return weights.tolist() if chance(rng, 0.2) else weights


NUMBERS = (0, 1, 2, 0.5, 0.05, 0.95, 1.0, 3, 10, 1e-300, 1e300, np.float32(0.5), np.int64(3))
NOT_NUMBERS = (-1, np.nan, np.inf, -np.inf, None, "x", "auto", b"1", [1], [], 1j, True, object)


def number(rng: Rng, usual: Any, how_often: float = 0.2) -> Any:
    """Give a parameter: mostly one of the usual, else anything."""
    if chance(rng, how_often):
        return pick(rng, NUMBERS + NOT_NUMBERS)
    return pick(rng, usual)

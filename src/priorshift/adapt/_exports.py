r"""The formula of an `Adapter` in other languages: ONNX, PyTorch and SQL.

Every export computes, in float64 as NumPy does,

.. math:: z_m = \log \max(f + \varepsilon_m, \text{TINY}), \quad
    q = \sum_m w_m\, \mathrm{softmax}(z_m S_m + b_m), \quad
    \text{adapted}_k = \frac{q_k r_k}{\sum_j q_j r_j}

where q is f itself without calibration, and a row whose sum is 0 keeps its q.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from priorshift.border import check_choice, some
from priorshift.calibration import TINY, CalibrationMap
from priorshift.files import atomic_file
from priorshift.text import brief

if TYPE_CHECKING:
    from priorshift.adapt._adapter import Adapter


def _maps(adapter: Adapter) -> list[tuple[CalibrationMap, float]]:
    """Return the calibration maps with their weights; none where nothing is calibrated."""
    if adapter.calibration is None:
        return []
    return list(zip(adapter.calibration.maps, adapter.calibration.weights, strict=True))


# ONNX

OPSET = 17
"""Of the models that are written here."""


def to_onnx(
    self: Adapter,
    path: str | PathLike[str] | None = None,
    *,
    from_logits: bool = False,
    precision: Literal["float64", "float32"] = "float64",
) -> Any:
    """Return an ONNX model (opset 17), and optionally write it to a file (extra `onnx`).

    Its input is float32 of shape (any number of samples, n_classes). Its outputs are
    `adapted`, the adapted probabilities as float32, and `label`, the class that `decide`
    returns.

    Parameters
    ----------
    path : str or path-like, optional
        The file to write, or to replace as a whole.
    from_logits : bool, default=False
        Whether the input holds logits or log-probabilities instead of probabilities.
    precision : {"float64", "float32"}, default="float64"
        Precision of the computation. Some devices have no float64. In float32, results agree to
        1e-5, unless a ratio of 0 leaves only classes with tiny probabilities.

    Returns
    -------
    onnx.ModelProto
    """
    check_choice(precision, ("float64", "float32"), "precision")
    try:
        import onnx
    except ImportError:
        raise ImportError("ONNX models need onnx: pip install 'priorshift[onnx]'") from None
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    dtype = np.dtype(precision)
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(values: Any, floats: Any = dtype) -> str:
        array, name = np.asarray(values), f"priorshift_constant_{len(constants)}"
        if array.dtype.kind == "U":
            text = [str(value).encode() for value in array]
            made = helper.make_tensor(name, onnx.TensorProto.STRING, array.shape, text)
        else:
            array = array.astype(floats) if array.dtype.kind == "f" else array
            made = onnx.numpy_helper.from_array(array, name)
        constants.append(made)
        return name

    def add(operator: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """Add a node, to names of others or to constants; return the name of its output."""
        named = [one if isinstance(one, str) else constant(one) for one in inputs]
        name = output or f"priorshift_{len(nodes)}_{operator.lower()}"
        nodes.append(helper.make_node(operator, named, [name], name=f"{name}_node", **attributes))
        return name

    kind, rows = helper.np_dtype_to_tensor_dtype(dtype), np.array([1])
    name = "logits" if from_logits else "y_proba"
    maps, ratio = _maps(self), self.ratio**self.strength
    values = add("Cast", name, to=kind)
    if maps:
        proba, parts = add("Softmax", values, axis=1) if from_logits else values, []
        for one, weight in maps:
            floor = np.asarray(one.floor, np.float64)
            z = add("Log", add("Max", add("Add", proba, floor), TINY))
            linear = add("Mul" if one.slope.ndim == 1 else "MatMul", z, one.slope)
            softmax = add("Softmax", add("Add", linear, one.bias), axis=1)
            parts.append(add("Mul", softmax, float(weight)))
        values = parts[0] if len(parts) == 1 else add("Sum", *parts)
    if from_logits and not maps:
        with np.errstate(divide="ignore"):
            shifted = add("Add", values, np.log(ratio))
        left = add("Cast", add("Greater", shifted, float(np.finfo(dtype).min)), to=kind)
        lost = add("Equal", add("ReduceSum", left, rows, keepdims=1), 0.0)
        adapted = add("Softmax", add("Where", lost, values, shifted), axis=1)
    else:
        # in float32, a factor keeps products of tiny probabilities above 0
        scale = 2.0**64 if dtype == np.float32 else 1.0
        ratio = scale * ratio / (ratio.max() or 1.0)
        lost = add("Equal", add("MatMul", values, ratio[:, None]), 0.0)
        same = np.full((1, ratio.size), scale)
        scaled = add("Mul", values, add("Where", lost, same, ratio[None]))
        adapted = add("Div", scaled, add("ReduceSum", scaled, rows, keepdims=1))
    add("Cast", adapted, output="adapted", to=float32)
    best = ("ArgMax", adapted)
    if self.costs is not None:
        best = ("ArgMin", add("MatMul", adapted, self.costs))
    index = add(*best, axis=1, keepdims=0)
    classes, label_type = self.classes, onnx.TensorProto.STRING
    if classes.dtype.kind != "U":
        label_type = helper.np_dtype_to_tensor_dtype(classes.dtype)
    add("Gather", constant(classes, classes.dtype), index, output="label")
    info, shape = helper.make_tensor_value_info, ["n_samples", classes.size]
    outputs = [info("adapted", float32, shape), info("label", label_type, ["n_samples"])]
    inputs = [info(name, float32, shape)]
    model = helper.make_model(
        helper.make_graph(nodes, "priorshift_adapter", inputs, outputs, constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,  # goes with the opset
        producer_name="priorshift",
    )
    helper.set_model_props(model, {"priorshift": json.dumps(self.to_dict()["provenance"])})
    onnx.checker.check_model(model)
    if path is not None:
        with atomic_file(path) as stream:
            stream.write(model.SerializeToString())
    return model


# PyTorch


def to_torch(self: Adapter, *, from_logits: bool = False) -> Any:
    """Return the adapter as a PyTorch module, without parameters (extra `torch`).

    Classes are along the last dimension. The module follows the device and dtype of its input,
    passes gradients through, and works with `torch.jit.script` and `torch.export`.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether the input contains logits. The output contains probabilities either way.

    Returns
    -------
    torch.nn.Module
    """
    return _module_class()(self, from_logits)


@cache
def _module_class() -> type[Any]:
    """Define the module when it is first needed: importing PyTorch takes seconds."""
    try:
        import torch
    except ImportError:
        raise ImportError("modules need PyTorch: pip install 'priorshift[torch]'") from None

    class Scores(torch.nn.Module):
        """Calibrated logits of one map. Constants follow the input, so they are no buffers."""

        def __init__(self, one: CalibrationMap, weight: float) -> None:
            super().__init__()
            self.floor = torch.tensor(np.asarray(one.floor, np.float64))
            self.slope = torch.tensor(one.slope)
            self.bias = torch.tensor(one.bias)
            self.weight = float(weight)
            self.matrix = one.slope.ndim == 2
            self.tiny = TINY

        def forward(self, proba: torch.Tensor) -> torch.Tensor:
            floor, slope = self.floor.to(proba), self.slope.to(proba)
            z = torch.log(torch.clamp(proba + floor, min=self.tiny))
            linear = z @ slope if self.matrix else z * slope
            return self.weight * torch.softmax(linear + self.bias.to(proba), dim=-1)

    class AdaptProbabilities(torch.nn.Module):
        """The formula of an adapter; rows are along the last dimension."""

        def __init__(self, adapter: Adapter, from_logits: bool) -> None:
            super().__init__()
            self.from_logits = bool(from_logits)
            self.adapter_json = adapter.to_json()
            self.maps = torch.nn.ModuleList([Scores(*pair) for pair in _maps(adapter)])
            self.ratio = torch.tensor(adapter.ratio**adapter.strength)
            self.log_ratio = torch.log(self.ratio)

        def forward(self, y_proba: torch.Tensor) -> torch.Tensor:
            values = y_proba
            if not values.is_floating_point():
                values = values.to(torch.float32)
            dtype = values.dtype
            # Apple's GPUs have no float64
            values = values.to(torch.float32 if values.device.type == "mps" else torch.float64)
            if self.from_logits and len(self.maps) == 0:
                shifted = values + self.log_ratio.to(values)
                lost = torch.isneginf(shifted).all(dim=-1, keepdim=True)
                return torch.softmax(torch.where(lost, values, shifted), dim=-1).to(dtype)
            if self.from_logits:
                values = torch.softmax(values, dim=-1)
            if len(self.maps) > 0:
                calibrated = torch.zeros_like(values)
                for one in self.maps:
                    calibrated = calibrated + one(values)
                values = calibrated
            ratio = self.ratio.to(values)
            lost = (values * ratio).sum(dim=-1, keepdim=True) == 0
            scaled = values * torch.where(lost, torch.ones_like(ratio), ratio)
            return (scaled / scaled.sum(dim=-1, keepdim=True)).to(dtype)

        def __reduce__(self) -> tuple[Any, ...]:
            return _rebuilt_module, (self.adapter_json, self.from_logits)

    return AdaptProbabilities


def _rebuilt_module(text: str, from_logits: bool) -> Any:
    from priorshift.adapt._adapter import Adapter

    return to_torch(Adapter.from_json(text), from_logits=from_logits)


# SQL

MOST_CHARACTERS = 500_000
"""Of a statement that databases still parse and plan within seconds."""

TERM = 25
"""Characters of a product, at least."""


CHUNK = 50
"""Terms of a sum in one pair of parentheses: databases limit how deep expressions nest."""


DIALECTS = {"ansi": ('"', "DOUBLE PRECISION"), "duckdb": ('"', "DOUBLE"), "spark": ("`", "DOUBLE")}
"""What a database puts around names, doubled within them, and its type of float64."""


def to_sql(
    self: Adapter,
    table: str | Sequence[str],
    columns: Sequence[str] | Mapping[Any, str],
    dialect: Literal["ansi", "duckdb", "spark"] = "ansi",
    *,
    keep: Iterable[str] = (),
) -> str:
    """Return a SELECT that adapts the probabilities in the columns of a table.

    Names are quoted, so they must be written as the database stores them.

    Parameters
    ----------
    table : str or sequence of str
        Name of the table, such as "predictions" or "schema.predictions". If parts of the name
        contain dots, pass them as a sequence.
    columns : sequence of str, or mapping from class to str
        Columns with the probability of each class, in class order. The adapted columns have
        the same names.
    dialect : {"ansi", "duckdb", "spark"}, default="ansi"
        "ansi" needs LN, EXP and GREATEST (SQL:2023).
    keep : iterable of str
        Other columns to pass through; they come first.

    Returns
    -------
    str
        The statement, without a semicolon, so that you can select from it.

    Examples
    --------
    >>> import priorshift as ps
    >>> adapter = ps.Adapter(["cat", "dog"], [0.5, 0.5], [0.75, 0.25])
    >>> print(adapter.to_sql("pets", ["p_cat", "p_dog"], keep=["id"])[:31])
    SELECT "id", CASE WHEN ps_total
    """
    check_choice(dialect, tuple(DIALECTS), "dialect")
    labels, maps = self.classes.tolist(), _maps(self)
    if isinstance(columns, Mapping):
        if set(columns) != set(labels):
            raise ValueError(
                f"columns must name a column per class ({some(labels)}); got {some(columns)}."
            )
        columns = [columns[label] for label in labels]
    names, kept = _names(columns, "columns"), _names(keep, "keep")
    if len(names) != len(labels):
        raise ValueError(
            f"columns has {len(names)} names but there are {len(labels)} classes; name a column "
            f"per class, in the order {some(labels)}."
        )
    if repeated := set(kept) & set(names):
        raise ValueError(f"keep names {some(sorted(repeated))}, which is adapted; leave it out.")
    parts = table.split(".") if isinstance(table, str) else list(table)
    if not parts or not all(parts):
        raise ValueError(f"table must be a name, such as 'predictions'; got {brief(table)}.")
    prefix = "ps_"
    while any(name.lower().startswith(prefix) for name in (*kept, *names)):
        prefix = f"ps{prefix}"
    quote, double = DIALECTS[dialect]
    names, kept, parts = (
        [quote + name.replace(quote, 2 * quote) + quote for name in each]
        for each in (names, kept, parts)
    )
    text, length = "", TERM * sum(one.slope.size for one, _ in maps)
    if length <= MOST_CHARACTERS:
        for depth, selected in enumerate(_selects(self, prefix, names, double)):
            source = f"(\n{text}\n) AS t{depth}" if depth else ".".join(parts)
            listed = ", ".join([*kept, *(f"{sql} AS {name}" for name, sql in selected.items())])
            text = f"SELECT {listed}\nFROM {source}"
        length = len(text)
    if length > MOST_CHARACTERS:
        shapes = sorted({" x ".join(map(str, one.slope.shape)) for one, _ in maps})
        calibrated = f", {len(maps)} calibration maps with slopes {some(shapes)}" if maps else ""
        raise ValueError(
            f"the statement for {len(labels)} classes{calibrated} would have about {length} "
            f"characters, and databases take long to plan more than {MOST_CHARACTERS}; use "
            "to_onnx, to_torch, or the command `priorshift adapt --adapter` on a file."
        )
    return f"{text}\n"


def _selects(
    adapter: Adapter, prefix: str, names: list[str], double: str
) -> Iterator[dict[str, str]]:
    """Yield the columns of nested SELECTs, each over the one before, with names of our own."""
    K, maps = len(names), _maps(adapter)
    p = [f"{prefix}p_{k}" for k in range(K)]
    yield {x: f"CAST({name} AS {double})" for x, name in zip(p, names, strict=True)}
    if maps:
        M = range(len(maps))
        z, s, e = ([[f"{prefix}{of}{m}_{k}" for k in range(K)] for m in M] for of in "zse")
        logs: list[list[str]] = []
        scores: list[list[str]] = []
        for one, _ in maps:
            floors = zip(p, np.broadcast_to(one.floor, K), strict=True)
            raised = [f"{x} + {number(floor)}" if floor else x for x, floor in floors]
            # not GREATEST, which would pass over NULL
            least = f"LN(CASE WHEN %s < {number(TINY)} THEN {number(TINY)} ELSE %s END)"
            logs.append([least % (x, x) for x in raised])
            above = z[logs.index(logs[-1])]  # maps above one floor share it
            slope = np.diag(one.slope) if one.slope.ndim == 1 else one.slope
            scores.append([])
            for column, bias in zip(slope.T.tolist(), one.bias.tolist(), strict=True):
                terms = [_product(column[j], above[j]) for j in np.flatnonzero(column)]
                scores[-1].append(_sum([*terms, number(bias)]))
        yield {
            name: sql
            for m in sorted(map(logs.index, logs))
            for name, sql in zip(z[m], logs[m], strict=True)
        }
        yield {name: sql for m in M for name, sql in zip(s[m], scores[m], strict=True)}
        largest = {f"{prefix}max{m}": f"GREATEST({', '.join(s[m])})" for m in M}
        yield largest | {name: name for m in M for name in s[m]}
        yield {
            name: f"EXP({x} - {prefix}max{m})"
            for m in M
            for name, x in zip(e[m], s[m], strict=True)
        }
        total = {f"{prefix}sum{m}": _sum(e[m]) for m in M}
        yield total | {name: name for m in M for name in e[m]}
        weights = [number(weight) for _, weight in maps]
        yield {
            p[k]: _sum([f"{weights[m]} * {e[m][k]} / {prefix}sum{m}" for m in M]) for k in range(K)
        }
    factors = (adapter.ratio**adapter.strength).tolist()
    scaled = [_product(factor, x) for factor, x in zip(factors, p, strict=True)]
    terms = [x for factor, x in zip(factors, scaled, strict=True) if factor != 0]
    sums = {f"{prefix}total": _sum(terms) or number(0.0), f"{prefix}plain": _sum(p)}
    yield sums | {x: x for x in p}
    # a row that loses all its mass is kept
    yield {
        name: f"CASE WHEN {prefix}total = {number(0.0)} THEN {x} / NULLIF("
        f"{prefix}plain, {number(0.0)}) ELSE {adapted} / {prefix}total END"
        for name, x, adapted in zip(names, p, scaled, strict=True)
    }


def number(value: float) -> str:
    """Write a number to the last bit; the exponent makes it a double, not a decimal.

    Examples
    --------
    >>> number(0.1), number(-2.0), number(0.0)
    ('1e-01', '-2e+00', '0e+00')
    """
    return np.format_float_scientific(value, unique=True, trim="-")


def _product(factor: float, column: str) -> str:
    return column if factor == 1 else f"{number(factor)} * {column}"


def _sum(terms: list[str]) -> str:
    """Add up terms, many of them in groups."""
    while len(terms) > CHUNK:
        groups = (terms[at : at + CHUNK] for at in range(0, len(terms), CHUNK))
        terms = [f"({' + '.join(group)})" for group in groups]
    return " + ".join(terms)


def _names(names: Any, what: str) -> list[str]:
    """Check names of columns: strings, each once."""
    listed = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    for name in listed:
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"{what} must be names of columns; got {brief(name)}.")
    if len(set(listed)) < len(listed):
        raise ValueError(f"{what} names a column twice: {some(listed)}; give each its own.")
    return listed

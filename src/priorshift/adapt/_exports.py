r"""The formula of an `Adapter` in other languages: ONNX, PyTorch and SQL.

Every export computes, in float64 as NumPy does,

.. math:: z_m = \log \max(f + \varepsilon_m, \text{TINY}), \quad
    q = \sum_m w_m\, \mathrm{softmax}(z_m S_m + b_m), \quad
    \text{adapted}_k = \frac{q_k r_k}{\sum_j q_j r_j}

where q is f itself without calibration, and a row whose sum is 0 keeps its q.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from priorshift._typing import Vector
from priorshift.border import check_choice, some
from priorshift.calibration import TINY, CalibrationMap
from priorshift.files import atomic_file
from priorshift.text import brief

if TYPE_CHECKING:
    from priorshift.adapt._adapter import Adapter

Precision = Literal["float64", "float32"]


def _maps(adapter: Adapter) -> list[tuple[CalibrationMap, float]]:
    """Return the calibration maps with their weights; none where nothing is calibrated."""
    if adapter.calibration is None:
        return []
    return list(zip(adapter.calibration.maps, adapter.calibration.weights, strict=True))


# ONNX

OPSET = 17
"""Of the models that are written here."""


class _Graph:
    """Collects nodes and constants, all numbers of one type."""

    def __init__(self, precision: Precision) -> None:
        check_choice(precision, ("float64", "float32"), "precision")
        try:
            import onnx
        except ImportError:
            raise ImportError("ONNX models need onnx: pip install 'priorshift[onnx]'") from None
        self.onnx = onnx
        self.dtype = np.dtype(precision)
        self.type = onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        name = output or f"priorshift_{len(self.nodes)}_{operator.lower()}"
        make = self.onnx.helper.make_node
        self.nodes.append(make(operator, inputs, [name], name=f"{name}_node", **attributes))
        return name

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Add a constant; return its name."""
        name = f"priorshift_constant_{len(self.constants)}"
        array = np.asarray(values, dtype or self.dtype)
        if array.dtype.kind == "U":
            text = [str(value).encode() for value in array]
            make = self.onnx.helper.make_tensor
            kind = self.onnx.TensorProto.STRING
            self.constants.append(make(name, kind, array.shape, text))
        else:
            self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def cast(self, name: str, to: int, output: str | None = None) -> str:
        """Convert numbers to another type."""
        return self.add("Cast", name, output=output, to=to)

    def sum(self, name: str) -> str:
        """Add up rows."""
        return self.add("ReduceSum", name, self.constant([1], np.int64), keepdims=1)


def _add_adaptation(graph: _Graph, adapter: Adapter, name: str, from_logits: bool) -> None:
    """Add the formula, from the tensor `name` to the outputs "adapted" and "label"."""
    values, ratio = graph.cast(name, graph.type), adapter.ratio**adapter.strength
    maps = _maps(adapter)
    if maps:
        proba, parts = graph.add("Softmax", values, axis=1) if from_logits else values, []
        for one, share in maps:
            weight = graph.constant(share)
            raised = graph.add("Add", proba, graph.constant(one.floor))
            z = graph.add("Log", graph.add("Max", raised, graph.constant(TINY)))
            product = "Mul" if one.slope.ndim == 1 else "MatMul"
            linear = graph.add(product, z, graph.constant(one.slope))
            scores = graph.add("Add", linear, graph.constant(one.bias))
            parts.append(graph.add("Mul", graph.add("Softmax", scores, axis=1), weight))
        values = parts[0] if len(parts) == 1 else graph.add("Sum", *parts)
    if from_logits and not maps:
        with np.errstate(divide="ignore"):
            shifted = graph.add("Add", values, graph.constant(np.log(ratio)))
        lowest = graph.constant(np.finfo(graph.dtype).min)
        left = graph.cast(graph.add("Greater", shifted, lowest), graph.type)
        lost = graph.add("Equal", graph.sum(left), graph.constant(0))
        adapted = graph.add("Softmax", graph.add("Where", lost, values, shifted), axis=1)
    else:
        # in float32, a factor keeps products of tiny probabilities above 0
        scale = 2.0**64 if graph.dtype == np.float32 else 1.0
        ratio = scale * ratio / (ratio.max() or 1.0)
        sums = graph.add("MatMul", values, graph.constant(ratio[:, None]))
        lost = graph.add("Equal", sums, graph.constant(0))
        same = graph.constant(np.full((1, ratio.size), scale))
        scaled = graph.add(
            "Mul", values, graph.add("Where", lost, same, graph.constant(ratio[None]))
        )
        adapted = graph.add("Div", scaled, graph.sum(scaled))
    graph.cast(adapted, graph.onnx.TensorProto.FLOAT, "adapted")
    best = ("ArgMax", adapted)
    if adapter.costs is not None:
        best = ("ArgMin", graph.add("MatMul", adapted, graph.constant(adapter.costs)))
    index = graph.add(*best, axis=1, keepdims=0)
    classes = graph.constant(adapter.classes, adapter.classes.dtype)
    graph.add("Gather", classes, index, output="label")


def to_onnx(
    self: Adapter,
    path: str | PathLike[str] | None = None,
    *,
    from_logits: bool = False,
    precision: Precision = "float64",
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
    graph = _Graph(precision)
    onnx, classes = graph.onnx, self.classes
    name = "logits" if from_logits else "y_proba"
    float32, label_type = onnx.TensorProto.FLOAT, onnx.TensorProto.STRING
    if classes.dtype.kind != "U":
        label_type = onnx.helper.np_dtype_to_tensor_dtype(classes.dtype)
    _add_adaptation(graph, self, name, from_logits)
    info = onnx.helper.make_tensor_value_info
    shape = ["n_samples", classes.size]
    made = onnx.helper.make_graph(
        graph.nodes,
        "priorshift_adapter",
        [info(name, float32, shape)],
        [info("adapted", float32, shape), info("label", label_type, ["n_samples"])],
        graph.constants,
    )
    model = onnx.helper.make_model(
        made,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=8,  # goes with the opset
        producer_name="priorshift",
    )
    onnx.helper.set_model_props(model, {"priorshift": json.dumps(self.to_dict()["provenance"])})
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


LEAST_PROBABILITY = 1e-250
"""A smaller probability counts as 0 for PostgreSQL, for the same reason."""

CHUNK = 50
"""Terms of a sum in one pair of parentheses: databases limit how deep expressions nest."""


@dataclass(frozen=True)
class Dialect:
    """How a database writes names and types.

    Attributes
    ----------
    quote : str
        Around names; doubled within them.
    double : str
        The type of float64.
    fence : str
        Ends a subquery that must not be merged into the next, which would repeat its expressions.
    most_columns : int
        That a subquery may have.
    underflows : bool
        Whether a product that underflows is an error.
    """

    quote: str = '"'
    double: str = "DOUBLE PRECISION"
    fence: str = ""
    most_columns: int = 10_000
    underflows: bool = False

    def name(self, *parts: str) -> str:
        """Quote a name, or the parts of a qualified one."""
        quote = self.quote
        return ".".join(quote + part.replace(quote, 2 * quote) + quote for part in parts)


DIALECTS = {
    "ansi": Dialect(),
    "duckdb": Dialect(double="DOUBLE"),
    "postgres": Dialect(fence=" OFFSET 0", most_columns=1600, underflows=True),
    "spark": Dialect(quote="`", double="DOUBLE"),
}


def to_sql(
    self: Adapter,
    table: str | Sequence[str],
    columns: Sequence[str] | Mapping[Any, str],
    dialect: Literal["ansi", "duckdb", "postgres", "spark"] = "ansi",
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
    dialect : {"ansi", "duckdb", "postgres", "spark"}, default="ansi"
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
    length, text = TERM * sum(one.slope.size for one, _ in maps), ""
    if length <= MOST_CHARACTERS:
        statement = _Statement(DIALECTS[dialect], kept, tuple(names))
        statement.start(parts, names)
        if maps:
            statement.calibrate(maps)
        text = statement.finish(self.ratio**self.strength, names)
        length = len(text)
    if length > MOST_CHARACTERS:
        shapes = sorted({" x ".join(map(str, one.slope.shape)) for one, _ in maps})
        calibrated = f", {len(maps)} calibration maps with slopes {some(shapes)}" if maps else ""
        raise ValueError(
            f"the statement for {len(labels)} classes{calibrated} would have about {length} "
            f"characters, and databases take long to plan more than {MOST_CHARACTERS}; use "
            "to_onnx, to_torch, or the command `priorshift adapt --adapter` on a file."
        )
    return text


class _Statement:
    """Nested SELECTs, each over the one before; every column that is used later gets a name."""

    def __init__(self, dialect: Dialect, kept: list[str], names: tuple[str, ...]) -> None:
        self.dialect = dialect
        self.kept = [dialect.name(name) for name in kept]
        self.prefix = "ps_"
        while any(name.lower().startswith(self.prefix) for name in (*kept, *names)):
            self.prefix = f"ps{self.prefix}"
        self.K = len(names)
        self.text, self.depth = "", 0

    def select(self, columns: Mapping[str, str]) -> None:
        """Put another SELECT around everything so far."""
        n_columns = len(self.kept) + len(columns)
        if n_columns > self.dialect.most_columns:
            raise ValueError(
                f"the statement would need {n_columns} columns at once, and PostgreSQL has at most "
                f"{self.dialect.most_columns}; use to_onnx, to_torch, or the command `priorshift "
                "adapt --adapter` on a file."
            )
        listed = ", ".join([*self.kept, *(f"{sql} AS {name}" for name, sql in columns.items())])
        source = self.text if self.depth == 0 else f"(\n{self.text}{self.dialect.fence}\n) AS t"
        if self.depth:
            source += str(self.depth)
        self.text, self.depth = f"SELECT {listed}\nFROM {source}", self.depth + 1

    def start(self, table: list[str], names: list[str]) -> None:
        """Read the probabilities as float64, under names of our own."""
        self.text = self.dialect.name(*table)
        read = [f"CAST({self.dialect.name(name)} AS {self.dialect.double})" for name in names]
        if self.dialect.underflows:
            least = number(LEAST_PROBABILITY)
            read = [f"CASE WHEN {x} < {least} THEN {number(0.0)} ELSE {x} END" for x in read]
        self.select(dict(zip(self.row("p"), read, strict=True)))

    def row(self, kind: str) -> list[str]:
        """Name one column per class."""
        return [f"{self.prefix}{kind}_{k}" for k in range(self.K)]

    def calibrate(self, maps: list[tuple[CalibrationMap, float]]) -> None:
        """Replace the probabilities by the average of what the maps make of them."""
        M = range(len(maps))
        logs = []  # floored logarithms of the probabilities
        for one, _ in maps:
            raised = [
                f"{p} + {number(f)}" if f else p
                for p, f in zip(self.row("p"), np.broadcast_to(one.floor, self.K), strict=True)
            ]
            logs.append([f"LN({_at_least(p, TINY)})" for p in raised])
        distinct = [row for m, row in enumerate(logs) if row not in logs[:m]]
        above = [self.row(f"z{f}") for f in range(len(distinct))]
        self.select(_named(above, distinct))
        z = [above[distinct.index(row)] for row in logs]  # maps above one floor share it
        s = [self.row(f"s{m}") for m in M]
        self.select(_named(s, [_linear(one, z[m]) for m, (one, _) in enumerate(maps)]))
        largest = [f"{self.prefix}max{m}" for m in M]
        carried = {name: name for row in s for name in row}
        self.select(
            {name: f"GREATEST({', '.join(s[m])})" for m, name in enumerate(largest)} | carried
        )
        e = [self.row(f"e{m}") for m in M]
        # not below -600, because PostgreSQL refuses to underflow to 0
        powers = [[f"EXP({_at_least(f'{x} - {largest[m]}', -600.0)})" for x in s[m]] for m in M]
        self.select(_named(e, powers))
        total = [f"{self.prefix}sum{m}" for m in M]
        carried = {name: name for row in e for name in row}
        self.select({name: _sum(e[m]) for m, name in enumerate(total)} | carried)
        shares = [
            _sum(f"{number(w)} * {e[m][k]} / {total[m]}" for m, (_, w) in enumerate(maps))
            for k in range(self.K)
        ]
        self.select(dict(zip(self.row("p"), shares, strict=True)))

    def finish(self, ratio: Vector, names: list[str]) -> str:
        """Multiply by the ratio and normalise; a row that loses all its mass is kept."""
        p, total, plain = self.row("p"), f"{self.prefix}total", f"{self.prefix}plain"
        factors = ratio.tolist()
        terms = [_product(r, x) for r, x in zip(factors, p, strict=True) if r != 0]
        carried = {name: name for name in p}
        self.select({total: _sum(terms) if terms else number(0.0), plain: _sum(p)} | carried)
        self.select(
            {
                self.dialect.name(name): f"CASE WHEN {total} = {number(0.0)} THEN {x} / NULLIF("
                f"{plain}, {number(0.0)}) ELSE {_product(r, x)} / {total} END"
                for name, r, x in zip(names, factors, p, strict=True)
            }
        )
        return f"{self.text}\n"


def number(value: float) -> str:
    """Write a number to the last bit; the exponent makes it a double, not a decimal.

    Examples
    --------
    >>> number(0.1), number(-2.0), number(0.0)
    ('1e-01', '-2e+00', '0e+00')
    """
    return np.format_float_scientific(value, unique=True, trim="-")


def _at_least(term: str, least: float) -> str:
    """Bound a term from below; NULL stays NULL, which GREATEST would pass over."""
    return f"CASE WHEN {term} < {number(least)} THEN {number(least)} ELSE {term} END"


def _product(factor: float, column: str) -> str:
    return column if factor == 1 else f"{number(factor)} * {column}"


def _linear(one: CalibrationMap, z: list[str]) -> list[str]:
    """Return the scores of a map; factors of 0 are left out."""
    slope = np.diag(one.slope) if one.slope.ndim == 1 else one.slope
    return [
        _sum(
            [
                *(_product(float(slope[j, k]), z[j]) for j in np.flatnonzero(slope[:, k])),
                number(float(one.bias[k])),
            ]
        )
        for k in range(len(z))
    ]


def _sum(terms: Iterable[str]) -> str:
    """Add up terms, many of them in groups."""
    terms = list(terms)
    while len(terms) > CHUNK:
        groups = (terms[at : at + CHUNK] for at in range(0, len(terms), CHUNK))
        terms = [f"({' + '.join(group)})" for group in groups]
    return " + ".join(terms)


def _named(names: list[list[str]], values: list[list[str]]) -> dict[str, str]:
    return {
        name: value
        for row, column in zip(names, values, strict=True)
        for name, value in zip(row, column, strict=True)
    }


def _names(names: Any, what: str) -> list[str]:
    """Check names of columns: strings, each once."""
    listed = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    for name in listed:
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"{what} must be names of columns; got {brief(name)}.")
    if len(set(listed)) < len(listed):
        raise ValueError(f"{what} names a column twice: {some(listed)}; give each its own.")
    return listed

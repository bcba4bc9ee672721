"""Numbers, names and tables as a reader sees them: for results, terminals, plots and reports."""

import csv
import io
import math
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Indices

MISSING = "–"
"""Stands where there is no number."""

MINUS = "−"
LONGEST_NAME = 60
"""Characters of a name in a message."""

NOTHING = 1e-12
"""A share below this is rounding."""

BIDIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that turn the direction of the text around them."""

_SAFE_CSV: ContextVar[bool] = ContextVar("safe_csv", default=False)

_ISOLATE, _END = "\u2068", "\u2069"


def some(values: Any, most: int = 10) -> str:
    """Show a few of many values, each cut to 60 characters.

    Examples
    --------
    >>> some(["cat", "dog", "fox"], 2)
    "'cat', 'dog', ... (3 in all)"
    """
    values = list(values)
    shown = ", ".join(map(brief, values[:most]))
    return shown + (f", ... ({len(values)} in all)" if len(values) > most else "")


def brief(value: Any) -> str:
    """Return a name as messages show it: quoted, and cut if it is long."""
    try:
        shown = repr(value)
    except ValueError:  # Python does not write out numbers of thousands of digits
        return "a number of very many digits"
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 4]}...{shown[-1]}"


def movers(change: NDArray[Any], most: int | None = None) -> Indices:
    """Return the positions of the largest changes, up or down, the largest first.

    Examples
    --------
    >>> import numpy as np
    >>> movers(np.array([0.1, -0.3, 0.0, 0.2]), 2)
    array([1, 3])
    """
    return np.argsort(-np.abs(change), kind="stable")[:most]


def text_table(
    rows: Sequence[Sequence[str]], *, right: Collection[int] = (), least: int = 0
) -> list[str]:
    """Return rows of cells as aligned lines, two spaces between columns.

    Parameters
    ----------
    rows : sequence of sequences of str
        The header may be the first.
    right : collection of int
        Columns that are aligned right.
    least : int, default=0
        Least width of these.

    Examples
    --------
    >>> text_table([("class", "prior"), ("a", "0.25")], right=[1])
    ['class  prior', 'a       0.25']
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths = [max(width, least) if at in right else width for at, width in enumerate(widths)]
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def html_table(rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Return rows of cells as an HTML table; everything is escaped.

    Examples
    --------
    >>> html_table([("a & b", "0.25")])
    '<table><tbody><tr><td>a &amp; b</td><td>0.25</td></tr></tbody></table>'
    """
    names = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    head = f"<thead><tr>{names}</tr></thead>" if header else ""
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>{head}<tbody>{body}</tbody></table>"


def csv_table(header: Sequence[str], rows: Iterable[Sequence[Any]], delimiter: str = ",") -> str:
    r"""Return rows as CSV.

    Examples
    --------
    >>> csv_table(("class", "prior"), [("a, b", 0.25)])
    'class,prior\n"a, b",0.25\n'
    """
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerow(csv_cells(header))
    writer.writerows(map(csv_cells, rows))
    return stream.getvalue()


@contextmanager
def safe_csv() -> Iterator[None]:
    """Make CSV safe to open in a spreadsheet, while this lasts."""
    token = _SAFE_CSV.set(True)
    try:
        yield
    finally:
        _SAFE_CSV.reset(token)


def is_safe_csv() -> bool:
    """Tell whether CSV is made safe to open in a spreadsheet."""
    return _SAFE_CSV.get()


def csv_cells(row: Sequence[Any]) -> Sequence[Any]:
    """Return the cells of a row; if CSV is to be safe, formulas begin with a quote.

    Numbers stay numbers.

    Examples
    --------
    >>> with safe_csv():
    ...     csv_cells(["=1+1", "-0.5", "cat", 0.5])
    ["'=1+1", '-0.5', 'cat', 0.5]
    """
    return [f"'{cell}" if _is_formula(cell) else cell for cell in row] if _SAFE_CSV.get() else row


def _is_formula(cell: Any) -> bool:
    # a spreadsheet takes these for a formula
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return False
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return True
    return cell.startswith(("\t", "\r"))


def printable(text: str, *, lines: bool = False) -> str:
    r"""Escape what could move a terminal's cursor or turn its text around; keep all else.

    That is control characters, line separators, lone surrogates and bidirectional marks. With
    `lines`, line breaks stay. The escapes are those of JSON, so JSON stays what it was.

    Examples
    --------
    >>> print(printable("caf\xe9 \x1b[31mred\u202e"))
    café \u001b[31mred\u202e
    """
    if text.isascii() and text.isprintable():
        return text
    if lines:
        return "\n".join(map(printable, text.split("\n")))
    return "".join(
        f"\\u{ord(c):04x}"
        if c in BIDIRECTIONAL or unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")
        else c
        for c in text
    )


def shown_names(classes: NDArray[Any]) -> NDArray[Any]:
    """Return class names that any page and any SVG can hold, one per class."""
    return np.array([shown_text(str(name)) or "(empty)" for name in classes.tolist()], object)


def shown_text(text: str) -> str:
    r"""Replace what neither UTF-8 nor XML can hold, and line breaks by spaces.

    Examples
    --------
    >>> shown_text("two\nlines, \x00")
    'two lines, \ufffd'
    """
    return "".join(_shown_character(character) for character in text)


def _shown_character(character: str) -> str:
    if character in "\t\n\r\u2028\u2029":
        return " "
    # control characters, lone surrogates, and the code points that are no characters
    bad = unicodedata.category(character) in ("Cc", "Cs") or ord(character) & 0xFFFE == 0xFFFE
    return "\N{REPLACEMENT CHARACTER}" if bad else character


def quoted(name: str) -> str:
    """Quote a class name in a sentence, isolated where its letters may run right to left.

    Examples
    --------
    >>> quoted("shirt")
    '“shirt”'
    """
    short = shorten(name, 60)
    return f"“{short}”" if short.isascii() else f"“{_ISOLATE}{short}{_END}”"


def shorten(label: Any, longest: int = 22) -> str:
    """Return a name on one line, its middle left out if long: names differ at either end.

    Examples
    --------
    >>> shorten("Passer domesticus subsp. italiae", 16)
    'Passer do…taliae'
    """
    text = " ".join("".join(c if c.isprintable() else " " for c in str(label)).split())
    if len(text) <= longest:
        return text
    tail = (longest - 1) * 2 // 5
    return f"{text[: longest - 1 - tail]}…{text[-tail:]}"


def percent(share: float | None) -> str:
    """Show a share with three figures that matter.

    Examples
    --------
    >>> [percent(x) for x in (0.5, 0.0123456, 0.000012, 0.0)]
    ['50.0%', '1.23%', '< 0.01%', '0%']
    """
    if share is None or not math.isfinite(share):
        return MISSING
    if share == 0:
        return "0%"
    if 0 < share < 5e-5:
        return "< 0.01%"
    return f"{100 * share:.{1 if share >= 0.0995 else 2}f}%"


def at_level(level: float | None, what: str = "interval") -> str:
    """Name an interval, or something else, by its confidence level.

    Examples
    --------
    >>> at_level(0.95), at_level(0.999, "confidence"), at_level(None)
    ('95% interval', '99.9% confidence', 'interval')
    """
    return what if level is None else f"{100 * level:g}% {what}"


def short_percent(share: float) -> str:
    """Show a share in per cent, with one digit after the point where it is small.

    Examples
    --------
    >>> [short_percent(share) for share in (0.125, 0.0312, 0.0004, 1e-17)]
    ['12%', '3.1%', '0.04%', '0%']
    """
    if share >= 0.0995:
        return f"{share:.0%}"
    if share >= 0.00095:
        return f"{share:.1%}"
    if share < NOTHING:
        return "0%"
    return f"{100 * share:.1g}%" if share >= 0.00001 else "<0.001%"


def percents(*shares: float) -> list[str]:
    """Show shares in whole per cent; with one digit more where they would look the same.

    Examples
    --------
    >>> percents(0.62, 0.81), percents(0.671, 0.674)
    (['62%', '81%'], ['67.1%', '67.4%'])
    """
    digits = 0 if len({round(100 * share) for share in shares}) == len(shares) else 1
    return [f"{share:.{digits}%}" for share in shares]


def numbers(*values: float) -> list[str]:
    """Show numbers that are compared, with as many digits after the point each.

    Three figures of the largest, and more where they would look the same.

    Examples
    --------
    >>> numbers(0.362, 0.0978), numbers(0.2031, 0.2034), numbers(1520, 980)
    (['0.362', '0.098'], ['0.2031', '0.2034'], ['1,520', '980'])
    """
    largest = max(map(abs, values))
    digits = max(0, 2 - math.floor(math.log10(largest))) if largest > 0 else 0
    for more in range(4):
        shown = [f"{value:,.{digits + more}f}" for value in values]
        if len(set(shown)) == len(set(values)):
            return shown
    return [f"{value:,.{digits}f}" for value in values]


def points(change: float) -> str:
    """Show a change of a share, in percentage points with a sign.

    Examples
    --------
    >>> points(0.0517), points(-0.2), points(0.0)
    ('+5.17', '−20.0', '0')
    """
    size = 100 * abs(change)
    if size < 5e-3:
        return "0"
    return f"{'+' if change > 0 else MINUS}{size:.{1 if size >= 9.95 else 2}f}"


def short_points(change: float) -> str:
    """Show a change of a share for a sentence, in percentage points with a sign.

    Examples
    --------
    >>> short_points(0.166), short_points(-0.0517), short_points(-0.0001)
    ('+17', '−5.2', '+0.0')
    """
    size = 100 * abs(change)
    sign = MINUS if change < 0 and size >= 0.05 else "+"
    return f"{sign}{size:.{0 if size >= 9.95 else 1}f}"


def number(value: float | None, figures: int = 3) -> str:
    """Show a number with a few figures; an infinity in words.

    Examples
    --------
    >>> number(1234.5), number(0.01234), number(float("inf")), number(None)
    ('1,230', '0.0123', 'infinite', '–')
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "infinite"
    if value and (abs(value) < 1e-3 or abs(value) >= 1e6):
        return f"{value:.{figures - 1}e}".replace("e-0", "e-").replace("e+0", "e")
    rounded = float(f"{value:.{figures}g}")
    if abs(rounded) >= 10 ** (figures - 1):
        return f"{rounded:,.0f}".replace("-", MINUS)
    decimals = max(figures - 1 - math.floor(math.log10(abs(rounded))), 0) if rounded else 0
    return f"{rounded:.{decimals}f}".replace("-", MINUS)


def signed_number(value: float, figures: int = 3) -> str:
    """Show a change with its sign, with a few figures.

    Examples
    --------
    >>> signed_number(0.0644), signed_number(-1.5), signed_number(0.0)
    ('+0.0644', '−1.50', '0')
    """
    return f"+{number(value, figures)}" if value > 0 else number(value, figures)


def count(value: float | int) -> str:
    """Show a count, with commas between thousands.

    Examples
    --------
    >>> count(12345)
    '12,345'
    """
    return f"{int(value):,}"


def signed(value: int) -> str:
    """Show a difference of counts with its sign.

    Examples
    --------
    >>> signed(1200), signed(-3), signed(0)
    ('+1,200', '−3', '0')
    """
    return f"{value:+,}".replace("-", MINUS) if value else "0"


def plural(value: float | int, one: str, many: str | None = None) -> str:
    """Show a count with its noun.

    Examples
    --------
    >>> plural(1, "row"), plural(2000, "class", "classes")
    ('1 row', '2,000 classes')
    """
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def listed(items: list[str]) -> str:
    """Join with commas and a final "and".

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1] if items else ""]))


def plain(value: Any) -> Any:
    """Turn NumPy's values into plain ones, ready for JSON, which knows no infinity."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

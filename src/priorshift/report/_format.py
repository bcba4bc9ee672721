"""Numbers and class names as a reader sees them."""

import math
import unicodedata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift.plotting._labels import shorten

MISSING = "–"
"""Stands where there is no number."""

MINUS = "−"
_ISOLATE, _END = "\u2068", "\u2069"


def shown_names(classes: NDArray[Any]) -> tuple[str, ...]:
    """Return class names that any page and any SVG can hold, one a class."""
    return tuple(shown_text(str(name)) or "(empty)" for name in classes.tolist())


def shown_text(text: str, *, keep_lines: bool = False) -> str:
    r"""Replace what neither UTF-8 nor XML can hold, and line breaks by spaces.

    Examples
    --------
    >>> shown_text("two\nlines, \x00")
    'two lines, \ufffd'
    """
    if keep_lines:
        return "\n".join(map(shown_text, text.splitlines()))
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
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

"""Write what `make quality PART=zoo METHODS=all` prints on stdin into the table of methods.md."""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("methods.md")
ROW = re.compile(
    r"^\| (?P<name>[a-z-]+) \| (?P<gain>[+-][\d.]+) \| .* \| (?P<l1>[\d.]+) \|$", re.MULTILINE
)


def refresh(page, printed):
    """Return the page with the last column as the summary of all tasks has it."""
    total = re.search(r"^\*\*All (\d+) tasks\*\*$", printed, re.MULTILINE)
    if total is None:
        raise ValueError("there is no table of all tasks: pipe `make quality PART=zoo` into this.")
    for row in ROW.finditer(printed, total.end()):
        cell = f"{row['gain']}, {row['l1']}"
        line = re.compile(rf"^(\| `{row['name']}` \|(?:[^|]*\|){{4}})[^|]*\|$", re.MULTILINE)
        page = line.sub(lambda found, cell=cell: f"{found[1]} {cell} |", page)
    return re.sub(r"means over \d+ tasks", f"means over {total[1]} tasks", page)


if __name__ == "__main__":
    PAGE.write_text(refresh(PAGE.read_text("utf-8"), sys.stdin.read()), "utf-8")

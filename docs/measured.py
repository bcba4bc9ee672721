"""Write the tables that a command of the laboratory prints into the page that shows them.

    make quality | python docs/measured.py docs/choosing.md

A table of the page gives way to one that was printed with the same header: of several, to one with
the same title above it, then to one with the same first column, each used once and in order. The
command says how many rows differed. docs/methods.md has a column instead, of what `make quality
PART=zoo METHODS=all` prints.
"""

import re
import sys
from pathlib import Path

TABLE = re.compile(r"(?:^\|.*\|\n)+", re.MULTILINE)
TITLE = re.compile(r"^(?:#+ |\*\*)([^*\n]+?)(?:\*\*)?$", re.MULTILINE)
ROW = re.compile(
    r"^\| (?P<name>[a-z-]+) \| (?P<gain>[+-][\d.]+) \| .* \| (?P<l1>[\d.]+) \|$", re.MULTILINE
)


def tables(text):
    """Yield the lines of each table, the heading or bold line above it, and where it stands."""
    for table in TABLE.finditer(text):
        above = TITLE.findall(text[: table.start()])
        yield table[0].splitlines(), above[-1:], slice(*table.span())


def replace(page, printed):
    """Return the page with printed tables for its own, and a sentence for each."""
    own, left, chosen = list(tables(page)), list(tables(printed)), {}
    for same_title in (True, False):
        for at, (lines, title, _) in enumerate(own):
            alike = [one for one in left if one[0][0] == lines[0] and at not in chosen]
            alike = [one for one in alike if one[1] == title or not same_title]
            alike.sort(key=lambda one: first_column(one[0]) != first_column(lines))
            if alike:
                chosen[at] = alike[0][0]
                left.remove(alike[0])
    said = []
    for at, new in sorted(chosen.items(), reverse=True):
        lines, _, where = own[at]
        page = page[: where.start] + "\n".join([*new, ""]) + page[where.stop :]
        differ = [line for line in new if line not in lines]
        said.append(f"{len(differ)} of {len(new) - 2} rows differ: {new[0][:60]}")
    return page, said[::-1]


def first_column(lines):
    """Return the names of a table's rows."""
    return {line.split(" | ")[0] for line in lines}


def refresh(page, printed):
    """Return the page of methods with the last column as the summary of all tasks has it."""
    total = re.search(r"^\*\*All (\d+) tasks\*\*$", printed, re.MULTILINE)
    if total is None:
        raise ValueError("there is no table of all tasks: pipe `make quality PART=zoo` into this.")
    for row in ROW.finditer(printed, total.end()):
        cell = f"{row['gain']}, {row['l1']}"
        line = re.compile(rf"^(\| `{row['name']}` \|(?:[^|]*\|){{4}})[^|]*\|$", re.MULTILINE)
        page = line.sub(lambda found, cell=cell: f"{found[1]} {cell} |", page)
    return re.sub(r"means over \d+ tasks", f"means over {total[1]} tasks", page)


if __name__ == "__main__":
    file, said = Path(sys.argv[1]), []
    text, printed = file.read_text("utf-8"), sys.stdin.read()
    if file.name == "methods.md":
        text = refresh(text, printed)
    else:
        text, said = replace(text, printed)
    file.write_text(text, "utf-8")
    sys.stderr.write("\n".join([*said, ""]))

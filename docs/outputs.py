"""Write what commands print beneath them, in the pages that quote them.

    ```console stderr lines=20
    $ priorshift estimate --validation validation.csv --target target.csv
    ...
    ```

`python docs/outputs.py` runs the command of every such box in README and docs and replaces the rest
of the box by what it prints; a test compares. So a page reads well wherever it is shown, and no
figure is typed by hand. A long command goes on after a backslash. Commands run in a folder of their
own, into which `priorshift demo --save-data` has put files. Words after `console`: `fails` (it
must, and must not without), `lines=N` (keep only the first so many), `stderr` (show it too),
`in-repository` (run in the root of the repository).
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BOX = re.compile(
    r"^```console(?P<words>[^\n]*)\n(?P<command>\$ (?:[^\n]*\\\n)*[^\n]*\n)(?P<output>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
KNOWN = {"fails", "lines", "stderr", "in-repository"}
VARIES = re.compile(r"\d+\.\d+ s\b|(?<=_version\": \")[\w.]+|(?<=\.\d{6})\d+")
"""What differs from run to run, and from version to version: a solver ends within its tolerance."""


def refresh(text, folder):
    """Return a page with what its commands print now."""
    return BOX.sub(lambda box: _refreshed(box, folder), text)


def lasting(text):
    """Return a page without seconds, versions and late digits, to compare two of them."""
    return VARIES.sub("…", text)


def _refreshed(box, folder):
    asked = dict(word.partition("=")[::2] for word in box["words"].split())
    if strange := asked.keys() - KNOWN:
        raise ValueError(f"unknown words after console: {', '.join(sorted(strange))}")
    command = box["command"].removeprefix("$ ").replace("\\\n", " ")
    done = execute(command, ROOT if "in-repository" in asked else folder)
    if bool(done.returncode) != ("fails" in asked):
        raise RuntimeError(f"{command!r} ended with {done.returncode}: {done.stderr}")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    if "stderr" in asked:
        wrapped = (textwrap.wrap(line, 96) or [""] for line in done.stderr.splitlines())
        lines += [part for parts in wrapped for part in parts]
    limit = int(asked.get("lines", len(lines)))
    shown = [*lines[:limit], *(["..."] if len(lines) > limit else [])]
    output = "".join(f"{line}\n" for line in shown)
    return f"```console{box['words']}\n{box['command']}{output}```"


def execute(command, folder):
    """Run a command line with this environment's programs, without colours."""
    programs = Path(sys.executable).parent
    return subprocess.run(
        shlex.split(command),
        cwd=folder,
        env=os.environ
        | {
            "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", "")]),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "PYTHONUTF8": "1",
        },
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def main():
    """Refresh every page."""
    with tempfile.TemporaryDirectory(prefix="priorshift-docs-") as folder:
        execute("priorshift demo --save-data .", folder).check_returncode()
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            new = refresh(text, folder)
            if lasting(new) != lasting(text):
                page.write_text(new, encoding="utf-8")
                sys.stdout.write(f"{page.relative_to(ROOT)} has new outputs\n")


if __name__ == "__main__":
    main()

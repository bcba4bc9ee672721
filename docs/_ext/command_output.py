"""Show a command with what it prints: run at every build, so that no figure is typed by hand.

    ```{command-output} lines=20 stderr
    $ priorshift estimate --validation validation.csv --target target.csv
    # the built page shows what this prints
    ```

The command stands in the box, so that the page can be read as plain Markdown too; lines that begin
with # are left out. A long command goes on after a backslash.

Commands run in a folder of their own, into which `priorshift demo --save-data` has put files, so
that pages can say `--validation validation.csv` and mean it. Words after the name: `fails` (it
must, and must not without), `lines=N` (show only the first so many), `stderr` (show it too),
`in-repository` (run in the root of the repository).
"""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)

ROOT = Path(__file__).parents[2]
WIDTH = 100
FOLD = 84
SECONDS = 1800


class CommandOutput(SphinxDirective):
    """Run a command and show its output beneath it."""

    optional_arguments = 4
    has_content = True
    known: ClassVar = {"fails", "lines", "stderr", "in-repository"}

    def run(self):
        """Return one literal block: the prompt, the command, the output."""
        self.env.note_reread()  # what it prints may change though the page does not
        asked = dict(word.partition("=")[::2] for word in self.arguments)
        if strange := asked.keys() - self.known:
            raise self.error(f"unknown words after the name: {', '.join(sorted(strange))}")
        command = command_of(self.content)
        if command is None:
            raise self.error("the box must hold one command, after a $")
        folder = ROOT if "in-repository" in asked else example_folder(self.env)
        done = execute(command, folder)
        if bool(done.returncode) != ("fails" in asked):
            message = f"{command!r} ended with {done.returncode}: {done.stderr}"
            logger.warning(message, location=self.get_location())
        lines = [line.rstrip() for line in done.stdout.splitlines()]
        if "stderr" in asked:
            lines += [part for line in done.stderr.splitlines() for part in folded(line, " ")]
        limit = int(asked.get("lines", len(lines)))
        shown = [*lines[:limit], *(["..."] if len(lines) > limit else [])]
        block = nodes.literal_block(text="\n".join([*folded(f"$ {command}", " \\"), *shown]))
        block["language"] = "console"
        block["classes"].append("command-output")
        return [block]


def command_of(lines):
    """Return the one command of a box, put together where it goes on; None if there is none."""
    kept = [line.strip() for line in lines if not line.startswith("#")]
    text = " ".join(line.removesuffix("\\").strip() for line in kept if line)
    return text.removeprefix("$ ") if text.startswith("$ ") and text.count("$ ") == 1 else None


def folded(line, end):
    """Break a long line at spaces, but not between an option and its value."""
    bound = re.sub(r"(--[\w-]+) (?!-)", "\\1\xa0", line)
    parts = textwrap.wrap(bound, FOLD, break_on_hyphens=False, subsequent_indent="    ") or [""]
    parts = [part.replace("\xa0", " ") for part in parts]
    return [*(f"{part}{end}".rstrip() for part in parts[:-1]), parts[-1]]


def execute(command, folder):
    """Run a command line with this environment's programs, without colours."""
    programs = Path(sys.executable).parent
    return subprocess.run(
        shlex.split(command),
        cwd=folder,
        env=os.environ
        | {
            "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", "")]),
            "COLUMNS": str(WIDTH),
            "NO_COLOR": "1",
            "PYTHONUTF8": "1",
        },
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )


_folders = {}


def example_folder(env):
    """Return the folder of example files, made once a build."""
    if env.app not in _folders:
        folder = TemporaryDirectory(prefix="priorshift-docs-")
        execute("priorshift demo --save-data .", folder.name).check_returncode()
        _folders[env.app] = folder
    return _folders[env.app].name


def remove_folder(app, _exception):
    """Remove the example files when the build is over."""
    if app in _folders:
        _folders.pop(app).cleanup()


def setup(app):
    """Register the directive."""
    app.add_directive("command-output", CommandOutput)
    app.connect("build-finished", remove_folder)
    return {"parallel_read_safe": False, "parallel_write_safe": True}

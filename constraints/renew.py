"""Pin the newest versions that go together: python constraints/renew.py NAME REQUIREMENT...

Finds what pip would install today for these requirements, and writes it to constraints/NAME.txt.
Installs nothing but pip, in a folder that is gone afterwards. What constraints/NAME.in says holds.
`make constraints` does this for every environment that the Makefile makes.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).parent
HEAD = "# Every version that the environment holds and is built with: make constraints\n"


def found(requirements: list[str], bounds: Path) -> list[dict[str, dict[str, str]]]:
    """Return what pip would install into an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        programs = "Scripts" if os.name == "nt" else "bin"
        pip = [str(Path(folder, programs, "python")), "-m", "pip", "install", "--quiet", "--quiet"]
        subprocess.run([*pip, "--upgrade", "pip"], check=True)
        limits = ["--constraint", str(bounds)] if bounds.exists() else []
        report = Path(folder, "report.json")
        asked = ["--dry-run", "--ignore-installed", "--report", str(report), *limits, *requirements]
        subprocess.run([*pip, *asked], check=True)
        return json.loads(report.read_text(encoding="utf-8"))["install"]


def pin(package: dict[str, dict[str, str]]) -> str:
    """Return `name==version`; a local label, as in 2.13.0+cpu, is one registry's alone."""
    name = re.sub(r"[-_.]+", "-", package["metadata"]["name"]).lower()
    return f"{name}=={package['metadata']['version'].partition('+')[0]}"


def renew(name: str, requirements: list[str]) -> None:
    """Write constraints/NAME.txt in one piece."""
    packages = found(requirements, HERE / f"{name}.in")
    pins = sorted(pin(each) for each in packages if "dir_info" not in each["download_info"])
    new = HERE / f".{name}.txt.new"
    new.write_text(HEAD + "\n".join(pins) + "\n", encoding="utf-8")
    new.replace(HERE / f"{name}.txt")


if __name__ == "__main__":
    renew(sys.argv[1], sys.argv[2:])

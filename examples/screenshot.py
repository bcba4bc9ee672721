"""Take the README's picture of a report, with Chromium.

python examples/screenshot.py docs/_static/report.png
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import priorshift as ps


def main(path: Path) -> None:
    data = ps.datasets.load_fashion_lt()
    rows = {name: getattr(data, name) for name in ("y_proba_val", "y_val", "y_proba_target")}
    found = ps.assess(**rows, classes=data.classes, source_priors=data.source_priors)
    with tempfile.TemporaryDirectory() as folder:
        page = found.report(
            Path(folder) / "report.html", title="Clothes, trained in summer, used in winter", **rows
        )
        chromium = shutil.which("chromium") or "chromium-browser"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        picture = [f"--screenshot={path.resolve()}", "--window-size=1280,740", page.as_uri()]
        subprocess.run([chromium, *flags, *picture], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Draw the README's picture: class priors in training and, estimated, in use.

python examples/picture.py docs/_static/priors.svg
"""

import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

import priorshift as ps
from priorshift.datasets import load_fashion_lt
from priorshift.files import atomic_file
from priorshift.plotting import PriorsDisplay

# the same bytes every time: no date, no random ids
STYLE = {"svg.hashsalt": "priorshift", "font.family": "sans-serif", "font.size": 11}


def main(path: Path) -> None:
    data = load_fashion_lt()
    estimator = ps.Auto(random_state=0).fit(
        data.y_proba_val, data.y_val, source_priors=data.source_priors, classes=data.classes
    )
    shift = estimator.estimate(data.y_proba_target)
    with mpl.rc_context(STYLE), atomic_file(path) as stream:
        figure = Figure(figsize=(8, 4.2), layout="constrained", facecolor="white")
        PriorsDisplay.from_estimate(shift, ax=figure.subplots())
        figure.savefig(stream, format=path.suffix[1:], metadata={"Date": None})
    score = 100 * (
        (data.classes[shift.adapt(data.y_proba_target).argmax(axis=1)] == data.y_target).mean()
    )
    print(f"{path}: accuracy {score:.1f} % after adapting")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

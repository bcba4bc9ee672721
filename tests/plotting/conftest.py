"""Draw off screen, and leave no figure behind."""

import numpy as np
import pytest

import priorshift as ps

pytest.importorskip("matplotlib").use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    """Close what a test drew through pyplot."""
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture
def ax():
    """Make axes of a figure that pyplot does not know."""
    from matplotlib.figure import Figure

    return Figure(layout="constrained").subplots()


@pytest.fixture
def make_estimate():
    """Make an estimate by hand."""

    def make(source_priors, priors, classes=None, **more):
        source_priors, priors = np.asarray(source_priors), np.asarray(priors)
        return ps.PriorEstimate(
            method=more.pop("method", "scm-l"),
            classes=np.arange(priors.size) if classes is None else np.asarray(classes),
            priors=priors,
            source_priors=source_priors,
            source_priors_from="given",
            status="direct",
            **more,
        )

    return make

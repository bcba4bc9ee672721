"""The paper's class distributions: published counts, and lines that can be told apart."""

import numpy as np
import pytest

from lab.paper.distributions import (
    LONG_TAILS,
    pareto_counts,
)

pytest.importorskip("matplotlib").use("agg")

from matplotlib import pyplot as plt  # noqa: E402

from lab.paper.figures import draw_long_tails  # noqa: E402


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize(
    ("name", "n_classes", "largest", "smallest", "total"),
    [("Places365-LT", 365, 4980, 5, 62_500), ("ImageNet-LT", 1000, 1280, 5, 115_846)],
)
def test_tails_have_the_published_ends_and_sum(name, n_classes, largest, smallest, total):
    counts = pareto_counts(*LONG_TAILS[name])
    assert counts.shape == (n_classes,)
    assert (counts[0], counts[-1]) == (largest, smallest)
    assert np.all(np.diff(counts) <= 0)
    assert counts.sum() == pytest.approx(total, abs=np.sqrt(n_classes))  # rounding of each class


def test_a_tail_is_the_quantiles_of_a_pareto_distribution(rng):
    """Of samples from one with power 2, the profile fitted to their sum has the same shape."""
    drawn = np.sort(rng.pareto(2.0, 20_000))[::-1]
    n = drawn.size
    quantiles = (np.arange(1, n + 1) / n) ** -0.5 - 1  # of 1 - (1 + x)**-2
    scaled = 100_000 * quantiles / quantiles[0]
    found = pareto_counts(n, 100_000, 1, int(np.maximum(scaled, 1).sum()))
    np.testing.assert_allclose(found, np.maximum(scaled, 1), atol=1)
    middle = slice(n // 10, n // 2)
    np.testing.assert_allclose(drawn[middle], quantiles[middle], rtol=0.1)


def test_long_tails_differ_in_colour_line_and_marker():
    ax = draw_long_tails().axes[0]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == [
        *("CIFAR-100-LT*, 100 classes", "Places365-LT, 365 classes", "ImageNet-LT, 1000 classes"),
    ]
    for look in ("color", "linestyle", "marker"):
        assert len({plt.getp(line, look) for line in ax.lines}) == 3


def test_published_lists_replace_the_tails():
    """Largest first, whatever the order of the classes."""
    ax = draw_long_tails({"Places365-LT": np.array([5, 70, 6])}).axes[0]
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [70, 6, 5])
    assert ax.get_legend().get_texts()[1].get_text() == "Places365-LT, 3 classes"
    assert ax.lines[2].get_ydata().size == 1000

"""The PyTorch sampler: epochs that follow given priors."""

import pickle

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch", reason="needs the extra `torch`")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from priorshift.torch_sampler import PriorSampler  # noqa: E402

Y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [70, 25, 5]))
PRIORS = [0.2, 0.3, 0.5]


def test_a_loader_follows_the_priors():
    dataset = TensorDataset(torch.arange(Y.size), torch.from_numpy(Y))
    sampler = PriorSampler(Y, PRIORS, n_samples=6000, random_state=0)
    rows, labels = (
        torch.cat(parts).numpy()
        for parts in zip(*DataLoader(dataset, batch_size=64, sampler=sampler), strict=True)
    )
    np.testing.assert_array_equal(labels, Y[rows])
    counts = np.bincount(labels, minlength=3)
    assert counts.sum() == 6000
    assert chisquare(counts, 6000 * np.array(PRIORS)).pvalue > 1e-3
    within = np.bincount(rows, minlength=Y.size)[Y == 2]
    assert chisquare(within).pvalue > 1e-3


@pytest.mark.parametrize(("asked", "length"), [(None, 100), (7, 7), (250, 250)])
def test_length_of_an_epoch(asked, length):
    sampler = PriorSampler(Y, PRIORS, asked, random_state=0)
    epoch = list(sampler)
    assert len(sampler) == len(epoch) == length
    assert len(DataLoader(Y, batch_size=10, sampler=sampler)) == -(-length // 10)
    assert all(type(row) is int and 0 <= row < Y.size for row in epoch)


def test_every_epoch_is_drawn_anew():
    sampler = PriorSampler(Y, PRIORS, random_state=0)
    assert list(sampler) != list(sampler)


def test_seeds_make_epochs_reproducible():
    def epochs(random_state):
        sampler = PriorSampler(Y, PRIORS, random_state=random_state)
        return [list(sampler) for _ in range(3)]

    assert epochs(3) == epochs(3)
    assert epochs(3) == epochs(np.random.default_rng(3))
    assert epochs(3) != epochs(4)
    assert epochs(None) != epochs(None)


def test_a_pickled_sampler_goes_on_as_the_original():
    sampler = PriorSampler(Y, PRIORS, random_state=0)
    next(iter(sampler))
    assert list(pickle.loads(pickle.dumps(sampler))) == list(sampler)


def test_names_and_order_of_classes():
    names = np.array(["dog", "ant", "cow"])
    for y, priors, classes in [
        (names[Y], PRIORS, names),
        (names[Y].tolist(), dict(zip(names, PRIORS, strict=True)), None),
        (torch.from_numpy(Y), PRIORS, None),
    ]:
        sampler = PriorSampler(y, priors, 4000, classes=classes, random_state=0)
        counts = np.bincount(Y[list(sampler)], minlength=3)
        assert chisquare(counts, 4000 * np.array(PRIORS)).pvalue > 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_priors": [2, 3, 5]}, "target_priors must sum to 1"),
        ({"target_priors": [0.5, 0.5]}, "target_priors must be 3 numbers"),
        ({"target_priors": {0: 0.5, 1: 0.5}}, "target_priors names the classes"),
        ({"y": [0, 1, None]}, "y has no label at position 2"),
        ({"y": []}, "y is empty"),
        ({"y": np.eye(3)}, "y must be 1-D"),
        ({"n_samples": 0}, "n_samples must be .*at least 1"),
        ({"classes": [0, 1, 3]}, "y has a label outside classes: 2"),
        ({"target_priors": [0.2] * 5, "classes": range(5)}, "asks for class 3"),
    ],
)
def test_bad_arguments_fail_before_training(arguments, message):
    with pytest.raises(ValueError, match=message):
        PriorSampler(**{"y": Y, "target_priors": PRIORS} | arguments)

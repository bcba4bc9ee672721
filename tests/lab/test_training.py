"""Subsets, schedules, augmentation, runs, and what is said without PyTorch."""

import json
import sys
from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from lab.paper.distributions import (
    IMBALANCES,
    source_counts,
    split,
)
from lab.paper.images import (
    ArrayImages,
    ImageData,
    augmented,
)
from lab.paper.outputs import (
    StoredOutputs,
)
from lab.paper.published import (
    PUBLISHED,
    PUBLISHED_LOSS,
    check_published,
)
from lab.paper.training import (
    RECIPES,
    Plan,
    draw,
    train_classifier,
)

# Subsets


def test_the_papers_cifar_100_lt(rng):
    y = rng.permutation(np.repeat(np.arange(100), 500))
    chosen, held_out = split(y, "LT", rng)
    counts = np.bincount(y[chosen])
    np.testing.assert_array_equal(counts, [int(450 * 0.01 ** (k / 99)) for k in range(100)])
    assert counts.max() / counts.min() == 112.5
    np.testing.assert_array_equal(np.bincount(y[held_out]), 50)
    assert np.intersect1d(chosen, held_out).size == 0
    assert np.unique(chosen).size == chosen.size


@pytest.mark.parametrize("source", IMBALANCES)
def test_counts_fall_as_the_source_says(source):
    counts = source_counts(source, 10, 10_000)
    assert counts.max() == 10_000
    assert counts[0] / counts[-1] == pytest.approx(IMBALANCES[source], rel=0.03)
    ratios = counts[1:] / counts[:-1]
    np.testing.assert_allclose(ratios, ratios.mean(), rtol=0.03)


def test_subsets_follow_the_seed_alone():
    y = np.repeat(np.arange(3), 100)
    images = ArrayImages(np.zeros((300, 1, 1, 1), np.uint8), y)
    data = ImageData("toy", 3, images, images)
    plan = Plan("cifar-10", "D3", seed=1)
    first, again, other, retrained = (
        draw(data, each)
        for each in (plan, plan, replace(plan, seed=2), replace(plan, sampler="UNI"))
    )
    np.testing.assert_array_equal(first.train[1], again.train[1])
    np.testing.assert_array_equal(first.train[1], retrained.train[1])
    assert not np.array_equal(first.train[1], other.train[1])
    assert np.intersect1d(first.train[1], first.val[1]).size == 0
    np.testing.assert_array_equal(first.test[1], np.arange(300))


@pytest.mark.parametrize("changes", [{"source": "UNI"}, {"largest": 2}])
def test_data_with_a_validation_set_are_taken_as_they_are(changes):
    images = ArrayImages(np.zeros((4, 1, 1, 1), np.uint8), np.array([0, 1, 1, 1]))
    data = ImageData("places365-lt", 2, images, images, images)
    np.testing.assert_array_equal(draw(data, Plan("places365-lt")).train[1], np.arange(4))
    with pytest.raises(ValueError, match="is used whole"):
        draw(data, Plan("places365-lt", **changes))


def test_your_own_list_is_used_whole():
    """With a validation list as it is; else up to 50 images per class, at most half, validate."""
    y = np.repeat([0, 1, 2], [300, 7, 1])
    images = ArrayImages(np.zeros((y.size, 1, 1, 1), np.uint8), y)
    plan, listed = Plan("list", "own"), ImageData("list", 3, images, images, images)
    np.testing.assert_array_equal(draw(listed, plan).train[1], np.arange(y.size))
    parts = draw(replace(listed, val=None), plan)
    np.testing.assert_array_equal(np.bincount(y[parts.train[1]]), [250, 4, 1])
    np.testing.assert_array_equal(np.bincount(y[parts.val[1]]), [50, 3])
    with pytest.raises(ValueError, match="source must be 'own'"):
        draw(listed, Plan("list", "LT"))
    with pytest.raises(ValueError, match="leave out `largest`"):
        draw(replace(listed, val=None), Plan("list", "own", largest=2))


@pytest.mark.parametrize("per_class", [50, 51, 149])
def test_too_few_images(per_class, rng):
    with pytest.raises(ValueError, match=rf"\({per_class} available, 50 held out\) are too few"):
        split(np.repeat(np.arange(10), per_class), "LT", rng)


def test_the_largest_class_can_be_made_smaller(rng):
    y = np.repeat(np.arange(10), 1000)
    chosen, held_out = split(y, "LT", rng, largest=450)
    np.testing.assert_array_equal(np.bincount(y[chosen])[[0, -1]], [450, 4])
    np.testing.assert_array_equal(np.bincount(y[held_out]), 50)
    with pytest.raises(ValueError, match="it can be 950 at most"):
        split(y, "LT", rng, largest=951)
    with pytest.raises(ValueError, match="its rarest class would keep none"):
        split(y, "LT", rng, largest=99)


# Label noise


def _shades(n):
    """Five classes of one grey each: 1 is nearest to 0, 0 to 1, 1 to 2, 4 to 3, and 3 to 4."""
    y = np.repeat(np.arange(5), n)
    greys = np.array([100, 110, 130, 200, 210], np.uint8)
    images = ArrayImages(greys[y].reshape(-1, 1, 1, 1), y)
    return ImageData("toy", 5, images, images), np.array([1, 0, 1, 4, 3])


def test_wrong_labels_name_the_class_that_looks_most_alike():
    data, similar = _shades(4000)
    plan = Plan("cifar-10", "UNI", label_noise=0.3)
    noisy, rows = draw(data, plan).train
    y, labels = data.train.y[rows], noisy.y[rows]
    wrong = labels != y
    np.testing.assert_array_equal(labels[wrong], similar[y[wrong]])
    # rates of classes are 0.15 to 0.45 in some order: four standard errors of 3950 images
    rates = np.bincount(y, wrong) / np.bincount(y)
    np.testing.assert_allclose(np.sort(rates), np.linspace(0.15, 0.45, 5), atol=0.032)
    assert wrong.mean() == pytest.approx(0.3, abs=0.013)
    joint = np.bincount(5 * y + labels, minlength=25).reshape(5, 5)
    assert joint[2, 1] > 0 == joint[1, 2]  # not mutual


def test_noise_changes_training_labels_and_nothing_else():
    data, _ = _shades(300)
    plan = Plan("cifar-10", "D3", seed=4)
    clean, noisy, again, other = (
        draw(data, each)
        for each in (
            plan,
            *(replace(plan, label_noise=0.3),) * 2,
            replace(plan, label_noise=0.3, seed=5),
        )
    )
    for part in ("train", "val", "test"):  # the same images
        np.testing.assert_array_equal(getattr(clean, part)[1], getattr(noisy, part)[1])
    for part in ("val", "test"):
        assert getattr(noisy, part)[0] is getattr(clean, part)[0]
    images, rows = noisy.train
    np.testing.assert_array_equal(images.y, again.train[0].y)
    changed = np.flatnonzero(images.y != data.train.y)
    assert changed.size > 0
    assert np.isin(changed, rows).all()
    assert not np.array_equal(images.y, other.train[0].y)
    np.testing.assert_array_equal(images.pixels(rows), data.train.pixels(rows))
    np.testing.assert_array_equal(data.train.y, np.repeat(np.arange(5), 300))  # untouched


# Plans


@pytest.mark.parametrize("dataset", RECIPES)
def test_the_schedule_scales(dataset):
    recipe, n_epochs = RECIPES[dataset], 10
    rates = [recipe.rate(epoch, n_epochs) for epoch in range(n_epochs)]
    scaled = [
        recipe.rate(int(e * recipe.n_epochs / n_epochs), recipe.n_epochs) for e in range(n_epochs)
    ]
    np.testing.assert_allclose(rates, scaled)
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == recipe.learning_rate
    assert rates[-1] == pytest.approx(recipe.learning_rate / 100)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": "mnist"}, "dataset must be one of"),
        ({"source": "D9"}, "source must be one of"),
        ({"sampler": "D9"}, "sampler must be one of"),
        ({"n_epochs": 0}, "n_epochs must be"),
        ({"label_noise": 0.6}, "label_noise must be from 0 to 0.5"),
        ({"label_noise": -0.1}, "label_noise must be from 0 to 0.5"),
        ({"label_noise": np.nan}, "label_noise must be from 0 to 0.5"),
    ],
)
def test_bad_plans(changes, message):
    with pytest.raises(ValueError, match=message):
        Plan(**{"dataset": "cifar-10"} | changes)


# Augmentation


def test_crops_are_parts_of_the_padded_image_or_of_its_mirror(rng):
    image = np.arange(1, 1 + 6 * 6 * 2, dtype=np.uint8).reshape(1, 6, 6, 2)
    padded = np.pad(image[0], ((2, 2), (2, 2), (0, 0)))
    possible = {}
    for top in range(5):
        for left in range(5):
            crop = padded[top : top + 6, left : left + 6]
            possible[crop.tobytes()] = possible[crop[:, ::-1].tobytes()] = (top, left)
    found = augmented(np.repeat(image, 4000, axis=0), 2, 6, rng)
    seen = [crop.tobytes() for crop in found]
    assert set(seen) == set(possible)  # all of them, and nothing else
    counts = np.unique(seen, return_counts=True)[1]
    assert counts.min() > 40  # 80 expected


# The authors' outputs


def _outputs(rng, loss_scale=1.0):
    K = 4
    trained = np.array([0.6, 0.2, 0.15, 0.05])

    def part(n, priors):
        y = rng.choice(K, n, p=priors)
        return loss_scale * (2 * (2 * np.eye(K)[y] + rng.normal(size=(n, K))) + np.log(trained)), y

    uniform = np.full(K, 1 / K)
    return StoredOutputs.of(
        "toy", train=part(3000, trained), val=part(1000, uniform), test=part(4000, uniform)
    )


def test_check_of_published_numbers(rng):
    outputs = _outputs(rng)
    check = check_published(outputs)
    assert list(check.accuracy) == list(PUBLISHED)
    assert check.accuracy["oracle"] > check.accuracy["na"] + 1
    assert check.accuracy["na"] < check.accuracy["scm-l"] < check.accuracy["oracle"] + 1
    assert not check.is_same_file
    assert "| na | 33.79 |" in check.to_markdown()
    # an oracle for the weighted loss: repeat each sample as often as its class weighs
    proba = np.exp(outputs.val.logits)
    proba /= proba.sum(axis=1, keepdims=True)
    loss = -np.log(proba[np.arange(1000), outputs.val.y])
    per_class = [loss[outputs.val.y == k].mean() for k in range(4)]
    frequencies = np.bincount(outputs.train.y) / 3000
    assert check.loss == pytest.approx(frequencies @ per_class)
    assert replace(check, loss=PUBLISHED_LOSS + 4e-4).is_same_file


# Without PyTorch


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)


def test_without_torch_the_extra_is_named(tmp_path, without_torch, run):
    found = run("train", "--dataset", "cifar-10", "--data", tmp_path)
    assert found.exit_code == 1
    assert "pip install torch pillow" in found.stderr


# Runs, with a stand-in for the network


@dataclass(frozen=True)
class Epoch:
    epoch: int
    loss: float
    accuracy: float


class Network:
    """What `make_network` was asked for, and what happened to it."""

    def __init__(self, *made):
        self.made, self.weights, self.device = made, None, None

    def to(self, device):
        self.device = device


@pytest.fixture
def networks(monkeypatch):
    """Put a stand-in in the place of PyTorch and of the module that needs it; list what it made."""
    made = []

    def make(*given):
        made.append(Network(*given))
        return made[-1]

    def fit(network, images, rows, plan, scale, *, checkpoint, watch):
        checkpoint.write_text("half")
        history = [Epoch(epoch, 1 / epoch, 0.5) for epoch in range(1, plan.n_epochs + 1)]
        for epoch in history:
            watch(plan, epoch)
        return history

    def predict(network, images, rows, size, scale):
        right = np.eye(network.made[1])[images.y[rows]]
        right[::2] = 0.0  # every other one is called class 0
        return (5 * right).astype(np.float32)

    module = ModuleType("lab.paper.networks")
    module.Scale = SimpleNamespace(of=lambda images, rows, device: None)
    module.load_weights = lambda network, path: setattr(network, "weights", path)
    module.make_network, module.predict_logits, module.train_network = make, predict, fit
    torch = ModuleType("torch")
    torch.__version__, torch.cuda = "0.0", SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return made


@pytest.fixture
def images():
    y = np.repeat(np.arange(10), 200)
    return ArrayImages(np.zeros((y.size, 28, 28, 1), np.uint8), y)


@pytest.fixture
def grey(images):
    return ImageData("fashion-mnist", 10, images, images)


def test_a_run_stores_outputs_and_how_they_were_made(grey, networks, tmp_path):
    plan, weights = Plan("fashion-mnist", "D3", seed=3, n_epochs=2), tmp_path / "weights.pt"
    path = train_classifier(grey, plan, tmp_path / "runs", retrain="UNI", initial_weights=weights)
    assert path == tmp_path / "runs" / "fashion-mnist-D3.npz"
    assert sorted(each.name for each in path.parent.iterdir()) == [
        "fashion-mnist-D3.json",
        "fashion-mnist-D3.npz",  # and no checkpoint
    ]
    outputs = StoredOutputs.load(path)
    np.testing.assert_array_equal(outputs.test.y, grey.test.y)
    np.testing.assert_array_equal(outputs.retrained.logits, outputs.test.logits)
    record = json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert record["train_counts"] == np.bincount(outputs.train.y).tolist()
    assert record["accuracy"]["test"] == 0.55  # half of the images, and class 0 of the others
    assert [[epoch["loss"] for epoch in one] for one in record["history"]] == [[1.0, 0.5]] * 2
    assert (record["seed"], record["retrained_for"], record["versions"]["torch"]) == (
        3,
        "UNI",
        "0.0",
    )
    assert [network.made for network in networks] == 2 * [("small", 10, 1, 3)]
    assert {(network.weights, network.device) for network in networks} == {(weights, "cpu")}


def test_a_finished_run_is_left_as_it_is(grey, networks, tmp_path):
    plan = Plan("fashion-mnist", "D3", n_epochs=2)
    path = train_classifier(grey, plan, tmp_path)
    assert train_classifier(grey, plan, tmp_path) == path
    assert len(networks) == 1
    with pytest.raises(ValueError, match="belongs to another run"):
        train_classifier(grey, replace(plan, n_epochs=3), tmp_path)
    with pytest.raises(ValueError, match="the first network has no sampler"):
        train_classifier(grey, replace(plan, sampler="UNI"), tmp_path)


def test_the_command_trains_one_network_per_seed(images, networks, tmp_path, write, run):
    for part in ("train", "t10k"):
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(write.idx(images.values[..., 0]))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(
            write.idx(images.y.astype(np.uint8))
        )
    words = ["train", "--dataset", "fashion-mnist", "--data", tmp_path, "--source", "D3"]
    words += ["--epochs", "2", "--seed", "5", "--runs", "2", "--output", tmp_path / "out"]
    found = run(*words)
    assert found.exit_code == 0, found.stderr
    names = [f"seed-{seed}/fashion-mnist-D3.npz" for seed in (5, 6)]
    assert all((tmp_path / "out" / name).exists() for name in names)
    assert "55" in found.stdout
    assert found.stderr.count("epoch 2/2: loss 0.500, accuracy 0.500") == 2

"""Networks, training, checkpoints and the authors' file; the loaders' tests need no PyTorch."""

import gzip
import json
import os
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch", reason="needs the extra `train`")

from lab.paper.commands import train  # noqa: E402
from lab.paper.distributions import (  # noqa: E402
    distribution,
)
from lab.paper.hours import multiplications  # noqa: E402
from lab.paper.images import (  # noqa: E402
    ArrayImages,
    ImageData,
)
from lab.paper.networks import (  # noqa: E402
    BATCH_SIZE,
    NETWORKS,
    PaddedShortcut,
    Scale,
    SmallImageResNet,
    _batches,
    _order,
    load_weights,
    make_network,
    predict_logits,
)
from lab.paper.outputs import (  # noqa: E402
    StoredOutputs,
)
from lab.paper.published import (  # noqa: E402
    load_published,
)
from lab.paper.training import (  # noqa: E402
    Plan,
    train_classifier,
)

K = 10
PLAN = Plan("fashion-mnist", "D3", seed=3, n_epochs=3)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _images(n, rng):
    """A bright bar, at five heights, long or short: mirrors and crops leave classes apart."""
    y = np.repeat(np.arange(K), n)
    values = rng.integers(0, 100, (y.size, 28, 28, 1), np.uint8)
    at = np.arange(28)
    rows = np.abs(at - 4 - 5 * (y[:, None] // 2)) <= 1
    columns = np.abs(at - 13.5) < np.where(y % 2, 4, 12)[:, None]
    values += (150 * (rows[:, :, None] & columns[:, None])[..., None]).astype(np.uint8)
    return ArrayImages(values, y)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return ImageData("fashion-mnist", K, _images(150, rng), _images(20, rng))


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """One run that was never interrupted."""
    return train_classifier(data, PLAN, tmp_path_factory.mktemp("whole"), retrain="UNI")


def _arrays(path):
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


# Networks


@pytest.mark.parametrize(
    ("name", "n_classes", "n_parameters"),
    [
        ("resnet-32", 10, 464_154),  # as published: 0.46 million
        ("resnet-18", 1000, 11_689_512),  # as torchvision has it
        ("small", 10, 9 * (16 + 16 * 32 + 32 * 64) + 2 * (16 + 32 + 64) + 10 * (64 * 9 + 1)),
    ],
)
def test_number_of_parameters(name, n_classes, n_parameters):
    network = NETWORKS[name](n_classes, 1 if name == "small" else 3)
    assert sum(parameter.numel() for parameter in network.parameters()) == n_parameters


def test_resnet_32_has_32_layers_and_stages_of_its_sizes():
    network = SmallImageResNet(7).eval()
    layers = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    assert len(layers) == 32
    x = torch.zeros(2, 3, 32, 32)
    x = network.layer1(network.bn1(network.conv1(x)))
    assert x.shape == (2, 16, 32, 32)
    x = network.layer2(x)
    assert x.shape == (2, 32, 16, 16)
    assert network.layer3(x).shape == (2, 64, 8, 8)
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 7)


def test_shortcut_without_weights():
    x = torch.arange(2 * 4 * 6 * 6.0).reshape(2, 4, 6, 6)
    found = PaddedShortcut(4, 8)(x)
    assert found.shape == (2, 8, 3, 3)
    torch.testing.assert_close(found[:, 2:6], x[:, :, [0, 2, 4]][..., [0, 2, 4]])
    assert not found[:, [0, 1, 6, 7]].any()


def test_weights_follow_the_seed_and_leave_the_users_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = (make_network("small", K, 1, seed) for seed in (1, 1, 2))
    torch.testing.assert_close(torch.rand(3), expected)
    torch.testing.assert_close(first.state_dict(), again.state_dict())
    assert not torch.equal(first[0].weight, other[0].weight)


def test_initial_weights(tmp_path):
    given = make_network("small", K, 1, 0).state_dict()
    path = tmp_path / "weights.pt"
    torch.save(given, path)
    network = make_network("small", K, 1, 1)
    load_weights(network, path)
    torch.testing.assert_close(network.state_dict(), given)
    other = make_network("resnet-32", 3, 3, 1)
    with pytest.raises(ValueError, match="does not hold weights of this network"):
        load_weights(other, path)
    wide = make_network("resnet-32", 5, 3, 0)
    torch.save(wide.state_dict(), path)
    head = other.fc.weight.clone()
    load_weights(other, path)  # the last layer has another number of classes, and stays
    torch.testing.assert_close(other.fc.weight, head)
    torch.testing.assert_close(other.conv1.weight, wide.conv1.weight)
    torch.save(wide.state_dict() | {"more": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="also has more"):
        load_weights(other, path)
    torch.save({"conv1.weight": wide.conv1.weight}, path)
    with pytest.raises(ValueError, match=r"it lacks bn1\.weight"):
        load_weights(other, path)
    torch.save(wide.state_dict() | {"conv1.weight": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match=r"differs in conv1\.weight"):
        load_weights(other, path)


# Training


def test_a_run_stores_outputs_and_where_they_come_from(whole, data):
    outputs = StoredOutputs.load(whole)
    assert (outputs.name, outputs.n_classes) == ("fashion-mnist-D3", K)
    assert outputs.train.logits.dtype == np.float32
    np.testing.assert_array_equal(np.bincount(outputs.val.y), 50)
    np.testing.assert_array_equal(outputs.test.y, data.test.y)
    assert not np.array_equal(outputs.retrained.logits, outputs.test.logits)
    counts = np.bincount(outputs.train.y)
    assert (counts[0], counts[-1]) == (100, 10)
    record = json.loads(whole.with_suffix(".json").read_text("utf-8"))
    assert record["train_counts"] == counts.tolist()
    assert (record["seed"], record["epochs"], record["retrained_for"]) == (3, 3, "UNI")
    assert record["versions"]["torch"] == str(torch.__version__)
    for name in ("train", "val", "test", "retrained"):
        part = getattr(outputs, name)
        right = (part.logits.argmax(axis=1) == part.y).mean()
        assert record["accuracy"][name] == pytest.approx(right, abs=1e-4)
    assert [epoch["epoch"] for epoch in record["history"][1]] == [1, 2, 3]
    assert sorted(path.name for path in whole.parent.iterdir()) == [
        "fashion-mnist-D3.json",
        "fashion-mnist-D3.npz",
    ]


def test_training_learns(data, tmp_path):
    path = train_classifier(data, replace(PLAN, n_epochs=10), tmp_path)
    record = json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert record["accuracy"]["test"] > 0.6
    losses = [epoch["loss"] for epoch in record["history"][0]]
    assert losses[-1] < 0.5 * losses[0]
    assert "retrained_logits" not in _arrays(path)


def test_label_noise_is_part_of_the_name_and_of_the_record(data, whole, tmp_path):
    path = train_classifier(data, replace(PLAN, label_noise=0.3), tmp_path, retrain="UNI")
    assert path.name == "fashion-mnist-D3-noise30.npz"
    clean, noisy = _arrays(whole), _arrays(path)
    for part in ("val_y", "test_y"):
        np.testing.assert_array_equal(noisy[part], clean[part])
    wrong = (noisy["train_y"] != clean["train_y"]).mean()  # the same images in the same order
    assert 0.15 < wrong < 0.45
    record = json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert (record["label_noise"], record["wrong_labels"]) == (0.3, round(wrong, 4))
    assert record["train_counts"] == np.bincount(noisy["train_y"]).tolist()
    assert not np.array_equal(noisy["retrained_logits"], clean["retrained_logits"])


@pytest.mark.parametrize("last", [2, 6])
def test_a_resumed_run_ends_as_if_it_had_never_stopped(data, whole, tmp_path, last):
    steps = []

    def stop(*step):
        steps.append(step)
        if len(steps) == last:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_classifier(data, PLAN, tmp_path, retrain="UNI", watch=stop)
    assert not list(tmp_path.glob("*.npz"))
    steps.clear()
    path = train_classifier(data, PLAN, tmp_path, retrain="UNI", watch=lambda *s: steps.append(s))
    assert len(steps) == 6 - (last - 1)  # no epoch is trained twice but the interrupted one
    expected, found = _arrays(whole), _arrays(path)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


def test_seeds_matter(data, whole, tmp_path):
    other = _arrays(train_classifier(data, replace(PLAN, seed=4), tmp_path))
    assert not np.array_equal(other["test_logits"], _arrays(whole)["test_logits"])


def test_a_finished_run_is_left_as_it_is(data, whole, capsys):
    before = whole.stat().st_mtime_ns
    assert train_classifier(data, PLAN, whole.parent, retrain="UNI", watch=print) == whole
    assert capsys.readouterr().out == ""
    assert whole.stat().st_mtime_ns == before
    with pytest.raises(ValueError, match="the first network has no sampler"):
        train_classifier(data, replace(PLAN, sampler="UNI"), whole.parent)
    with pytest.raises(ValueError, match="belongs to another run"):
        train_classifier(data, replace(PLAN, n_epochs=4), whole.parent, retrain="UNI")


def test_a_checkpoint_of_another_training_is_refused(data, tmp_path):
    def stop(_, epoch):
        if epoch.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_classifier(data, PLAN, tmp_path, watch=stop)
    with pytest.raises(ValueError, match="is the checkpoint of another run"):
        train_classifier(data, replace(PLAN, n_epochs=5), tmp_path)


def test_batches_follow_the_sampler(rng):
    y = rng.permutation(np.repeat(np.arange(K), np.arange(10, 110, 10)))
    plain = _order(y, PLAN, rng)
    np.testing.assert_array_equal(np.sort(plain), np.arange(y.size))
    drawn = np.concatenate([_order(y, replace(PLAN, sampler="D5"), rng) for _ in range(20)])
    counts = np.bincount(y[drawn], minlength=K)
    assert chisquare(counts, drawn.size * distribution("D5", K)).pvalue > 1e-3


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 258, 513, 600])
def test_no_batch_of_one(n):
    batches = _batches(np.arange(n))
    np.testing.assert_array_equal(np.concatenate(batches), np.arange(n))
    assert all(1 < batch.size <= BATCH_SIZE + 1 for batch in batches) or n == 1


def test_predictions_do_not_depend_on_the_batch(data):
    network = make_network("small", K, 1, 0)
    rows = np.arange(data.train.y.size)
    scale = Scale.of(data.train, rows, "cpu")
    whole = predict_logits(network, data.train, rows, 28, scale)
    parts = [predict_logits(network, data.train, some, 28, scale) for some in np.split(rows, 3)]
    np.testing.assert_allclose(whole, np.concatenate(parts), atol=1e-5)
    pixels = scale(data.train.pixels(rows))
    assert float(pixels.mean()) == pytest.approx(0, abs=1e-3)
    assert float(pixels.std()) == pytest.approx(1, abs=1e-3)


def test_the_scale_is_measured_batch_by_batch(rng):
    """Five thousand images of 256 pixels, taken at once, fill 8 GB."""

    class Watched(ArrayImages):
        largest = 0

        def pixels(self, rows):
            Watched.largest = max(Watched.largest, rows.size)
            return super().pixels(rows)

    values = rng.integers(0, 256, (600, 5, 4, 3), np.uint8)
    scale = Scale.of(Watched(values, np.zeros(600, np.intp)), np.arange(600), "cpu")
    np.testing.assert_allclose(scale.mean, values.mean(axis=(0, 1, 2)), rtol=1e-6)
    np.testing.assert_allclose(scale.spread, values.std(axis=(0, 1, 2)), rtol=1e-6)
    assert Watched.largest <= BATCH_SIZE + 1


def test_multiplications_of_known_networks():
    """ResNet-18 has 1.81 billion at 224 pixels and 1000 classes, ResNet-32 69 million."""
    large = multiplications(make_network("resnet-18", 1000, 3, 0), torch.zeros(1, 3, 224, 224))
    small = multiplications(make_network("resnet-32", 10, 3, 0), torch.zeros(1, 3, 32, 32))
    assert large == pytest.approx(1.814e9, rel=1e-3)
    assert small == pytest.approx(69e6, rel=0.01)


@pytest.mark.parametrize(("dataset", "side"), [("cifar-10", 32), ("imagenet-lt", 256)])
def test_every_kind_of_network_is_trained(tmp_path, rng, dataset, side):
    images = ArrayImages(rng.integers(0, 256, (4, side, side, 3), np.uint8), np.array([0, 0, 0, 1]))
    data = ImageData(dataset, 2, images, images, images)
    outputs = StoredOutputs.load(train_classifier(data, Plan(dataset), tmp_path))
    assert outputs.test.logits.shape == (4, 2)
    assert np.isfinite(outputs.test.logits).all()


def test_a_list_of_your_own_is_trained(tmp_path, rng, capsys):
    pillow = pytest.importorskip("PIL.Image")
    for name, n in (("train", 6), ("test", 2)):
        lines = [f"{name}-{k}.png {k % 2}" for k in range(n)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
        for line in lines:
            pixels = rng.integers(0, 256, (20, 30, 3), np.uint8)
            pillow.fromarray(pixels).save(tmp_path / line.split()[0])
    output = tmp_path / "trained"
    options = f"--dataset list --data {tmp_path} --epochs 1 --learning-rate 0.01 --output {output}"
    train(options.split())
    outputs = StoredOutputs.load(output / "seed-0" / "list-own.npz")
    np.testing.assert_array_equal(np.bincount(outputs.train.y), [2, 2])  # half validates
    record = json.loads((output / "seed-0" / "list-own.json").read_text())
    assert record["history"][0][0]["learning_rate"] == record["learning_rate"] == 0.01
    assert str(output) in capsys.readouterr().out


# The command


@pytest.fixture
def fashion(data, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for part, images in (("train", data.train), ("t10k", data.test)):
        for kind, array in (("images-idx3", images.values[..., 0]), ("labels-idx1", images.y)):
            content = array.astype(np.uint8)
            header = b"\0\0\x08" + bytes([content.ndim]) + np.array(content.shape, ">u4").tobytes()
            path = folder / f"{part}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(header + content.tobytes(), 1))
    return folder


def test_the_command(fashion, whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # a short path is not wrapped
    arguments = ["--dataset", "fashion-mnist", "--data", str(fashion), "--source", "D3"]
    arguments += ["--epochs", "3", "--seed", "3", "--runs", "2", "--retrain", "UNI"]
    arguments += ["--device", "cpu", "--output", "trained"]
    train(arguments)
    found = capsys.readouterr()
    assert found.err.count("fashion-mnist for UNI, epoch 3/3: loss") == 2
    assert "fashion-mnist-D3.npz" in found.out
    first, second = (tmp_path / f"trained/seed-{n}/fashion-mnist-D3.npz" for n in (3, 4))
    for name, expected in _arrays(whole).items():
        np.testing.assert_array_equal(_arrays(first)[name], expected)
    assert not np.array_equal(_arrays(first)["val_logits"], _arrays(second)["val_logits"])
    train(arguments)
    again = capsys.readouterr()
    assert again.out == found.out
    assert "epoch" not in again.err


# The authors' file


def _published(rng, **changes):
    state = {}
    for part, n in (("train", 30), ("val", 20), ("test", 25)):
        state[f"outputs_{part}"] = torch.from_numpy(rng.normal(size=(n, 5)).astype(np.float32))
        state[f"targets_{part}"] = torch.from_numpy(rng.integers(0, 5, n))
    return state | changes


@pytest.mark.parametrize("zipped", [True, False])
def test_the_authors_outputs(tmp_path, rng, zipped):
    state = _published(rng)
    expected = {name: tensor.numpy() for name, tensor in state.items()}
    state["outputs_val"].requires_grad_()
    path = tmp_path / "outputs.pth.tar"
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    outputs = load_published(path)
    for part in ("train", "val", "test"):
        np.testing.assert_array_equal(getattr(outputs, part).logits, expected[f"outputs_{part}"])
        np.testing.assert_array_equal(getattr(outputs, part).y, expected[f"targets_{part}"])


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_malicious_file_is_refused_and_runs_nothing(tmp_path, rng, zipped):
    goal, path = tmp_path / "made", tmp_path / "outputs.pth.tar"
    state = _published(rng, more=Malicious(str(goal)))
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match="not a PyTorch file of tensors alone"):
        load_published(path)
    assert not goal.exists()


def test_other_files_are_refused(tmp_path, rng):
    path = tmp_path / "outputs.pth.tar"
    state = _published(rng)
    del state["targets_test"]
    torch.save(state, path)
    with pytest.raises(ValueError, match=r"should hold the tensors .*targets_test; it has outputs"):
        load_published(path)
    torch.save(torch.zeros(3), path)
    with pytest.raises(ValueError, match="it has Tensor"):
        load_published(path)
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not a PyTorch file"):
        load_published(path)
    with pytest.raises(FileNotFoundError):
        load_published(tmp_path / "none")

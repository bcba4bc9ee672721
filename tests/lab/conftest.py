"""Tiny data sets in the formats of the real ones, and outputs of a classifier that is known."""

import gzip
import io
import sys
import tarfile
from types import SimpleNamespace

import numpy as np
import pytest

from lab.__main__ import main as lab_main
from lab.paper.distributions import (
    distribution,
)
from lab.paper.outputs import (
    StoredOutputs,
)

N_CLASSES = 5


def png(image):
    """Encode an image of bytes."""
    stream = io.BytesIO()
    pytest.importorskip("PIL.Image").fromarray(image).save(stream, "PNG")
    return stream.getvalue()


def archive(path, files):
    with tarfile.open(path, "w:gz") as stream:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            stream.addfile(info, io.BytesIO(content))


def idx(array):
    header = b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.tobytes())


@pytest.fixture
def cifar(rng):
    """Six batches of four images: pixels (n, 32, 32, 3) and labels of each."""

    def batch(n_classes):
        return rng.integers(0, 256, (4, 32, 32, 3), np.uint8), rng.integers(0, n_classes, 4)

    return lambda n_classes=10: [batch(n_classes) for _ in range(6)]


def planes(pixels):
    """CIFAR's own order: all of red, all of green, all of blue."""
    return pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)


@pytest.fixture(scope="session")
def write():
    """The encoders of this file."""
    return SimpleNamespace(archive=archive, idx=idx, planes=planes, png=png)


@pytest.fixture(scope="session")
def make_outputs():
    def make(source="LT", n_train=3000, n_val=1000, n_test=3000, seed=0, retrained=False):
        rng = np.random.default_rng(seed)
        trained = distribution(source, N_CLASSES)

        def part(n, priors):
            y = rng.choice(N_CLASSES, n, p=priors)
            x = 2.0 * np.eye(N_CLASSES)[y] + rng.normal(size=(n, N_CLASSES))
            # the log-posterior of this model, but for a constant
            return 2.0 * x + np.log(trained), y

        test = part(n_test, np.full(N_CLASSES, 1 / N_CLASSES))
        return StoredOutputs.of(
            "toy",
            train=part(n_train, trained),
            val=part(n_val, np.full(N_CLASSES, 1 / N_CLASSES)),
            test=test,
            retrained=(test[0] - np.log(trained), test[1]) if retrained else None,
        )

    return make


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command of the laboratory in this process."""

    def invoke(*arguments):
        monkeypatch.setattr(sys, "argv", ["lab", *map(str, arguments)])
        try:
            code = lab_main()
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        if isinstance(code, str):
            code, err = 1, f"{err}{code}\n"
        return SimpleNamespace(exit_code=code or 0, stdout=out, stderr=err)

    return invoke

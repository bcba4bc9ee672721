"""Sparse predictions beside the arrays that they stand for."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

import priorshift as ps
from priorshift import statistics
from priorshift.estimators import base
from priorshift.execution import SparseBlock, TopK
from priorshift.solvers import _certified

N_CLASSES = 12


def sparse_rows(n, K, rng, listed=4, noise=1.5):
    """Draw labels, and posteriors that list a few classes around the true one."""
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    offset = rng.integers(0, listed, n)
    ids = (y[:, None] - offset[:, None] + np.arange(listed)) % K
    scores = rng.standard_normal((n, listed))
    scores[np.arange(n), offset] += noise
    scores = np.exp(noise * scores)
    return ids, scores / scores.sum(axis=1, keepdims=True), y


def dense_of(ids, scores, K, *, spread=False):
    """Write the same rows in full, the plain way."""
    n, listed = ids.shape
    rest = (1 - scores.sum(axis=1)) / (K - listed) if spread else np.zeros(n)
    dense = np.repeat(rest[:, None], K, axis=1)
    np.put_along_axis(dense, ids, scores, axis=1)
    return dense


@pytest.fixture(params=["csr", "spread", "drop"])
def case(request, rng):
    """Validation and target, sparse in one of three ways, and as arrays."""
    K, kind = N_CLASSES, request.param
    ids, scores, y = sparse_rows(900, K, rng)
    if kind == "csr":
        dense = dense_of(ids, scores, K)
        make = csr_array
    else:
        scores = 0.9 * scores
        spread = kind == "spread"
        dense = dense_of(ids, scores if spread else scores / 0.9, K, spread=spread)
    held, target = slice(0, 400), slice(400, None)
    if kind == "csr":
        val, new = make(dense[held]), make(dense[target])
    else:
        val = TopK(ids[held], scores[held], K, rest=kind)
        new = TopK(ids[target], scores[target], K, rest=kind)
    return SimpleNamespace(
        kind=kind, K=K, y=y[held], val=val, new=new, dense_val=dense[held], dense_new=dense[target]
    )


@pytest.fixture
def nothing_dense(monkeypatch):
    """Let every attempt to make sparse rows an array fail."""

    def refuse(*_, **__):
        raise AssertionError("a sparse block was made dense")

    monkeypatch.setattr(SparseBlock, "toarray", refuse)


@pytest.fixture
def many_classes(monkeypatch):
    """Take more than 5 classes for very many, so that nothing of classes by classes is formed."""
    for module in (statistics, base):
        monkeypatch.setattr(module, "DENSE_CLASSES", 5)
    monkeypatch.setattr(_certified, "MANY_CLASSES", 5)
    assert not hasattr(ps, "DENSE_CLASSES")

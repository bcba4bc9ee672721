"""The released BCTS against PyTorch's own L-BFGS, run as the released code runs it."""

import numpy as np
import pytest

from priorshift import BCTS

torch = pytest.importorskip("torch", reason="needs the extra `train`")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def by_torch(logits, y, priors):
    """Return temperature, biases and steps; `backward` adds to gradients that nothing clears."""
    weight = priors / (np.bincount(y, minlength=priors.size) / y.size)
    z, labels = torch.tensor(logits), torch.tensor(y)
    T = torch.tensor([1.0], requires_grad=True)
    b = torch.ones(priors.size, requires_grad=True)
    loss = torch.nn.CrossEntropyLoss(torch.tensor(weight / weight.sum(), dtype=torch.float32))
    optimiser = torch.optim.LBFGS([T, b], lr=1e-4, max_iter=100)

    def evaluate():
        value = loss(z / T + b, labels)
        value.backward()
        return value

    optimiser.step(evaluate)
    return T.item(), b.detach().numpy(), optimiser.state[T]["n_iter"]


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("K", "n"), [(2, 300), (10, 1000), (100, 2000)])
def test_bcts_is_that_of_pytorch(K, n, scale):
    rng = np.random.default_rng([K, n])
    y = np.concatenate([np.arange(K), rng.choice(K, n, p=rng.dirichlet(np.full(K, 5.0)))])
    logits = scale * (2 * np.eye(K)[y] + rng.normal(size=(y.size, K))).astype(np.float32)
    priors = rng.dirichlet(np.full(K, 2.0))
    temperature, bias, n_iter = by_torch(logits.astype(np.float32), y, priors)
    found = BCTS(solver="released", logits=True).fit(logits, y, source_label_priors=priors)
    assert found.n_iter_ == n_iter
    assert found.temperature_ == pytest.approx(temperature, abs=1e-5)
    np.testing.assert_allclose(found.bias_, bias, atol=1e-5)

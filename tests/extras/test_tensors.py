"""PyTorch's own: half precision, gradients. tests/border/test_tensors.py has what all share."""

import numpy as np
import pytest

import priorshift as ps
from priorshift.border import is_tensor

pytest.importorskip("array_api_compat", reason="needs the extra `array-api`")
torch = pytest.importorskip("torch", reason="needs the extra `torch`")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_other_types_follow_the_one_rule(dtype):
    given = torch.eye(3).to(dtype)
    assert is_tensor(given)
    found = ps.adapt_proba(given, np.full(3, 1 / 3), [0.2, 0.3, 0.5])
    assert found.dtype == (torch.float32 if dtype.is_floating_point else torch.float64)
    assert torch.equal(found, torch.eye(3, dtype=found.dtype))
    with pytest.raises(ValueError, match="must hold numbers"):
        ps.adapt_proba(torch.eye(3, dtype=torch.complex64), np.full(3, 1 / 3), [0.2, 0.3, 0.5])


def test_gradients_flow():
    logits = torch.randn(50, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.softmax(logits, dim=1).requires_grad_()
    source = np.full(4, 0.25)
    ps.Adapter(np.arange(4), source, [0.1, 0.2, 0.3, 0.4])(values)[:, 0].sum().backward()
    assert torch.isfinite(values.grad).all()
    assert values.grad.abs().sum() > 0
    shift = ps.EM().fit(source_priors=source).estimate(values)  # no graph is needed
    assert shift.status == "certified"

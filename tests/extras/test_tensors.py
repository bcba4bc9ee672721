"""PyTorch's own: half precision, graphs. tests/border/test_tensors.py has what all share."""

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


def test_a_tensor_of_a_graph_is_read():
    values = torch.softmax(torch.zeros(5, 4), dim=1).requires_grad_()
    adapted = ps.Adapter(np.arange(4), np.full(4, 0.25), [0.1, 0.2, 0.3, 0.4])(values)
    assert not adapted.requires_grad
    shift = ps.EM().fit(source_priors=np.full(4, 0.25)).estimate(values)
    assert shift.status == "certified"

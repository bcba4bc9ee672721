"""What must not change while the house is rebuilt: a quick part always, all with --golden."""

import pytest

from tests.golden.parts import PARTS, differences, fixed_on_dask
from tests.golden.store import load, tolerance


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.filterwarnings("ignore")
def test_numbers_are_as_frozen(part, request):
    quick = not request.config.getoption("--golden")
    found, stored = PARTS[part](quick), load(part)
    assert found
    assert found.keys() <= stored.keys(), "tasks that were never stored: python -m tests.golden"
    expected = {task: stored[task] for task in found} if quick else stored
    changed = list(differences(expected, found, tolerance=tolerance(part)))
    assert not changed, "\n".join(changed[:20])


def test_dask_gives_what_arrays_give():
    pytest.importorskip("dask.array", reason="needs the extra `dask`")
    stored = load("fixed")["as array"]
    found = fixed_on_dask()
    assert found
    expected = {name: {"priors": stored[name]["priors"]} for name in found}
    assert list(differences(expected, found)) == []


def test_a_difference_is_found():
    stored = {"task": {"em": {"priors": [0.5, 0.5], "status": "certified", "text": "so"}}}
    found = {"task": {"em": {"priors": [0.5, 0.5 + 1e-8], "status": "direct", "text": "or so"}}}
    assert list(differences(stored, found)) == [
        "task / em / priors[1]: was 0.5, is 0.50000001",
        "task / em / status: was certified, is direct",
    ]
    assert list(differences(stored, {"task": {}})) != []

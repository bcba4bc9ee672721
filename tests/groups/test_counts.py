"""GroupCounts: however rows are cut, ordered or merged, the counts are the same."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import priorshift as ps
from priorshift import groups as module
from priorshift.border import ArrayTable
from priorshift.groups import GroupCounts

FIELDS = ("n_rows", "counts", "second")


def same(one, other):
    np.testing.assert_array_equal(one.groups, other.groups)
    for name in FIELDS:
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=1e-12, atol=1e-12, err_msg=name
        )


@pytest.fixture
def rows(rng):
    y_proba = rng.dirichlet(np.full(6, 0.3), 5000)
    return y_proba, rng.integers(0, 37, 5000)


@pytest.mark.parametrize("decision", ["hard", "soft"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_counts_are_those_of_each_group(rows, decision, dtype):
    y_proba, groups = rows[0].astype(dtype), rows[1]
    counts = GroupCounts.from_arrays(y_proba, groups, decision=decision)
    for at, group in enumerate(counts.groups):
        alone = ps.DecisionCounts.from_arrays(y_proba[groups == group], decision=decision)
        np.testing.assert_allclose(counts.counts[at], alone.counts, rtol=1e-14)
        assert counts.n_rows[at] == alone.n_samples
    whole = ps.DecisionCounts.from_arrays(y_proba, decision=decision)
    np.testing.assert_allclose(counts.counts.sum(axis=0), whole.counts, rtol=1e-14)
    assert (counts.decision, counts.n_rows.sum()) == (decision, 5000)
    decided = np.eye(6)[y_proba.argmax(axis=1)] if decision == "hard" else y_proba
    np.testing.assert_allclose(counts.second, decided.T @ decided, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("decision", ["hard", "soft"])
def test_parts_in_any_order_are_the_whole(rows, rng, decision):
    y_proba, groups = rows
    whole = GroupCounts.from_arrays(y_proba, groups, decision=decision)
    order = rng.permutation(5000)
    parts = np.split(order, np.sort(rng.integers(0, 5000, 9)))
    counted = [
        GroupCounts.from_arrays(y_proba[part], groups[part], decision=decision)
        for part in parts
        if part.size
    ]
    total = counted[3]
    for other in counted[:3] + counted[4:]:
        total = other + total
    same(total, whole)


def test_block_size_makes_no_difference(rows, monkeypatch):
    whole = GroupCounts.from_arrays(*rows, decision="soft")
    monkeypatch.setattr(module, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(module, "LARGEST_BLOCK_BYTES", 1000)
    same(GroupCounts.from_arrays(*rows, decision="soft"), whole)


@pytest.mark.parametrize("decision", ["hard", "soft"])
@pytest.mark.parametrize("kind", ["sparse", "mapped file", "table"])
def test_what_is_read_in_blocks_gives_the_same(rows, decision, kind, tmp_path, monkeypatch):
    y_proba, groups = rows
    whole = GroupCounts.from_arrays(y_proba, groups, decision=decision)
    monkeypatch.setattr(module, "LARGEST_BLOCK_BYTES", 10_000)
    np.save(tmp_path / "rows.npy", y_proba)
    given = {
        "sparse": csr_array(y_proba),
        "mapped file": np.load(tmp_path / "rows.npy", mmap_mode="r"),
        "table": ArrayTable(y_proba),
    }[kind]
    same(GroupCounts.from_arrays(given, groups, decision=decision), whole)


def test_groups_of_one_part_only_are_kept(rows):
    y_proba, _ = rows
    one = GroupCounts.from_arrays(y_proba[:2], ["b", "a"], decision="soft")
    other = GroupCounts.from_arrays(y_proba[2:4], ["c", "a"], decision="soft")
    total = one + other
    assert total.groups.tolist() == ["a", "b", "c"]
    assert total.n_rows.tolist() == [2, 1, 1]
    np.testing.assert_allclose(total.counts, [y_proba[1] + y_proba[3], y_proba[0], y_proba[2]])
    np.testing.assert_allclose(total.second, y_proba[:4].T @ y_proba[:4])
    assert repr(total) == "GroupCounts(soft decisions of 4 rows, 3 groups, 6 classes)"


def test_what_does_not_go_together_is_refused(rows):
    y_proba, groups = rows
    soft = GroupCounts.from_arrays(y_proba, groups, decision="soft")
    with pytest.raises(ValueError, match="cannot add soft counts of 6 classes to hard"):
        soft + GroupCounts.from_arrays(y_proba, groups, decision="hard")
    with pytest.raises(ValueError, match="use text for both"):
        soft + GroupCounts.from_arrays(y_proba, groups.astype(str), decision="soft")
    with pytest.raises(ValueError, match="decision must be one of"):
        GroupCounts.from_arrays(y_proba, groups, decision="firm")
    with pytest.raises(ValueError, match="sums to"):
        GroupCounts.from_arrays(2 * y_proba, groups, decision="soft")

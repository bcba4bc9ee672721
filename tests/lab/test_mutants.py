"""Mutants: each is the file with one operator swapped, and only tests of its line can kill it."""

import ast

import pytest

from lab import mutants

TOY = """
from collections.abc import Sequence

LIMIT = 2 * 3
Rows = Sequence[int] | None


def grows(a: int | None, b: int) -> bool:
    if a is None:
        raise ValueError(f"{b + 1}" + "!")
    return 0 < a < b


def unused(a: int) -> int:
    return a + LIMIT
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    source = tmp_path / "src" / "priorshift"
    source.mkdir(parents=True)
    (source / "__init__.py").touch()
    (source / "toy.py").write_text(TOY)
    test = tmp_path / "test_toy.py"
    test.write_text(
        "from priorshift.toy import grows\n\n\n"
        "def test_grows():\n    assert grows(1, 2)\n    assert not grows(-1, 2)\n"
    )
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "SOURCE", source)
    monkeypatch.setattr(mutants, "ROOMS", {"toy": (("toy.py",), (str(test),))})
    return source / "toy.py"


def test_one_operator_is_swapped_at_a_time(toy):
    found = mutants.draw("toy", 0, 0)
    assert {(one.before, one.after) for one in found} == {
        ("2 * 3", "2 / 3"),
        ("a is None", "a is not None"),
        ("0 < a < b", "0 > a < b"),
        ("0 < a < b", "0 < a > b"),
        ("a + LIMIT", "a - LIMIT"),
    }
    plain = ast.unparse(ast.parse(TOY)).splitlines()
    for one in found:
        assert sum(a != b for a, b in zip(plain, one.source.splitlines(), strict=True)) == 1


def test_types_and_messages_are_left_alone(toy):
    assert not any("|" in one.before or "!" in one.before for one in mutants.draw("toy", 0, 0))


def test_samples_are_drawn_by_seed(toy):
    assert mutants.draw("toy", 3, 1) == mutants.draw("toy", 3, 1)
    assert len(mutants.draw("toy", 3, 1)) == 3


def test_what_tests_see_is_killed_and_what_they_do_not_run_survives(toy, capsys):
    assert mutants.main(["--rooms", "toy", "--sample", "0"]) == 0
    shown = capsys.readouterr().out
    assert "toy: 3 of 5 killed" in shown
    assert "a + LIMIT\n  a - LIMIT" in shown
    assert "| toy | 5 | 3 | 60% |" in shown


def test_tests_that_fail_without_a_change_tell_nothing(toy):
    (toy.parents[2] / "test_toy.py").write_text("def test_no():\n    assert False\n")
    with pytest.raises(ValueError, match="the tests of toy do not pass"):
        mutants.main(["--rooms", "toy"])


def test_a_mutant_that_never_ends_is_killed_by_the_work_it_does(toy, monkeypatch):
    """Not by the clock, which runs on while the machine is busy with something else."""
    (toy.parents[2] / "test_toy.py").write_text("def test_on_and_on():\n    while True: pass\n")
    monkeypatch.setattr(mutants, "BUSY", 1000)
    assert mutants.run_tests(toy.parent, [str(toy.parents[2] / "test_toy.py")], longest=2) < 0

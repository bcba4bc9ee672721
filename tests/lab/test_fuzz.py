"""The fuzzer itself: it covers the library, it repeats itself, and it can fail."""

import re
import warnings
from pathlib import Path

import click
import numpy as np
import pytest

import priorshift as ps
from lab.fuzz import commands, entries, relations, runner
from lab.fuzz.inputs import pick
from lab.fuzz.outcomes import BadAnswerError, Proba, judge, require_valid
from priorshift.cli import main

SEED = 11


def test_few_cases_of_every_kind_pass():
    for case in runner.schedule({"call": 60, "relation": 14, "command": 10}):
        outcome = runner.run_case(SEED, case)
        assert outcome.failure is None, (case, outcome.failure, outcome.detail)


def test_a_case_is_known_by_its_seed_and_name():
    first, again = (runner.run_case(SEED, "call:7") for _ in range(2))
    assert first == again


def test_relations_have_one_answer():
    """Of a classifier that is never wrong on validation, no temperature is best."""
    drawn = relations.draw(np.random.default_rng([3102, 1, 775]))
    assert (drawn.val.argmax(axis=1) != drawn.y).any()


def test_schedule_mixes_the_kinds():
    cases = list(runner.schedule({"call": 40, "relation": 4, "command": 10}))
    assert len(set(cases)) == len(cases) == 54
    assert {case.partition(":")[0] for case in cases[:14]} == {"call", "relation", "command"}


RESULTS = {"Assessment", "AssumptionTest", "Backtest", "Diagnostics", "GroupEstimates"} | {
    *("MonitorHistory", "MonitorStep", "PriorEstimate", "ProbaInterval", "ShiftTest")
}
"""What calls return."""

NOT_FUZZED = {"ConvergenceWarning", "PriorShiftWarning", "__version__", "register_estimator"}


def test_every_public_name_has_an_entry_point():
    assert {f"estimate {name}" for name in ps.available_estimators()} <= set(entries.ENTRIES)
    by_name = {type(ps.get_estimator(name)).__name__ for name in ps.available_estimators()}
    called = set(re.findall(r"\bps\.(\w+)", Path(entries.__file__).read_text(encoding="utf-8")))
    assert set(ps.__all__) - called - by_name - RESULTS - NOT_FUZZED == set()


def test_every_command_and_option_is_used():
    words = set(re.findall(r'"(--[\w-]+)"', Path(commands.__file__).read_text(encoding="utf-8")))
    names = [name for name in main.list_commands(None) if name != "demo"]
    assert set(names) <= set(commands.COMMANDS)
    made = [main.get_command(click.Context(main), name) for name in names]
    options = {name for each in made for option in each.params for name in option.opts}
    assert {name for name in options if name.startswith("--")} - words == {*("--debug", "--plot")}


def test_what_is_found_has_an_exit_code_of_its_own(monkeypatch, capsys):
    arguments = ["--calls", "1", "--relations", "0", "--commands", "0", "--seed", "3"]
    assert runner.main(arguments) == 0
    monkeypatch.setattr(runner, "ENTRIES", {"planted": nan_answer})
    monkeypatch.setitem(runner.KINDS, "call", {"planted": nan_answer})
    assert runner.main(arguments) == runner.FOUND
    assert "make fuzz SEED=3 CASE=call:0" in capsys.readouterr().out
    text = (Path(__file__).parents[2] / ".ci" / "run").read_text(encoding="utf-8")
    assert f'"$fuzzed" -eq {runner.FOUND}' in text


def nan_answer(world):
    return Proba(np.full((2, 2), np.nan))


def off_simplex(world):
    return {"priors": np.array([0.5, 0.6])}


def foreign_error(world):
    np.zeros((2, 2)) @ np.zeros(3)


def foreign_type(world):
    raise KeyError("y_proba")


def foreign_warning(world):
    np.log(np.zeros(1))


def hasty_writer(world):
    world.note("y_proba", world.y_proba)[0] = 0


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        (nan_answer, "not finite"),
        (off_simplex, "do not sum to 1"),
        (foreign_error, "the message is not ours"),
        (foreign_type, "not a ValueError or TypeError"),
        (foreign_warning, "RuntimeWarning"),
        (hasty_writer, "was changed"),
    ],
)
def test_what_is_planted_is_found(monkeypatch, capsys, planted, told):
    monkeypatch.setattr(runner, "ENTRIES", {"planted": planted})
    monkeypatch.setitem(runner.KINDS, "call", {"planted": planted})
    report = runner.Report(SEED)
    report.add("call:3", runner.run_case(SEED, "call:3"))
    shown = capsys.readouterr().out
    assert told in shown
    assert f"make fuzz SEED={SEED} CASE=call:3" in shown
    assert "1 failed" in report.text()


def test_tensors_are_spoilt_without_a_warning(monkeypatch):
    """A number that is too large for its type is the fuzzer's, not the library's."""
    monkeypatch.setattr(entries.inputs, "hostile", lambda rng, P, *_: np.float32(1e300 * P))
    world = entries.World(np.random.default_rng(0))
    assert judge(lambda: entries.tensors(world)).kind == "refused"


def test_a_broken_relation_is_found(monkeypatch):
    def broken(name, data, target=None, **changes):
        return data.rng.random(data.K)

    monkeypatch.setattr(relations, "estimate", broken)
    outcome = runner.run_case(SEED, "relation:0")
    assert "classes permuted" in outcome.failure


def test_a_command_that_leaves_files_behind_is_found(monkeypatch):
    def leave(folder):
        (folder / ".output.partial").touch()
        return before(folder)

    before = commands._contents
    seen = []

    def contents(folder):
        seen.append(folder)
        return before(folder) if len(seen) == 1 else leave(folder)

    monkeypatch.setattr(commands, "_contents", contents)
    assert "nobody asked for" in runner.run_case(SEED, "command:0").failure


def test_good_answers_and_refusals_pass():
    good = ps.EM().fit(source_priors=[0.5, 0.5]).estimate([[0.2, 0.8], [0.7, 0.3]], 0.9)
    require_valid(good)
    assert judge(lambda: ps.adapt_proba([[0.5, 0.6]], [0.5, 0.5], [0.5, 0.5])).kind == "refused"
    with pytest.raises(BadAnswerError, match="infinite"):
        require_valid(np.inf)


def test_judging_hides_no_warnings_from_others():
    judge(lambda: warnings.warn("planted", RuntimeWarning, stacklevel=1))
    with pytest.raises(RuntimeWarning):
        warnings.warn("planted", RuntimeWarning, stacklevel=1)


def test_pick_takes_whatever_there_is(rng):
    assert pick(rng, ([1],)) == [1]

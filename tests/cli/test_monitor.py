"""priorshift monitor: windows in, lines out, state kept."""

import json
import os
from functools import partial

import numpy as np
import pytest

from priorshift.cli import _data
from priorshift.cli._monitor import held
from priorshift.monitor import PriorMonitor, cut_windows

pytestmark = pytest.mark.usefixtures("no_verdict")
BEFORE, AFTER = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])


@pytest.fixture
def stream(simulate, rng, write):
    """Validation as CSV, and eight days of which the last four are shifted."""
    world, classes = simulate(3), np.array(["ant", "bee", "cow"])
    y_proba, y = world.draw(BEFORE, 500, rng)
    days = [world.draw(BEFORE if day < 4 else AFTER, 120, rng)[0] for day in range(8)]
    return write("validation.csv", y_proba, classes[y]), days


@pytest.fixture
def folder(stream, write, tmp_path):
    validation, days = stream
    (tmp_path / "days").mkdir()
    for number, day in enumerate(days, 1):
        write(f"days/2026-05-0{number}.csv", day)
    return "--validation", validation, "--target", tmp_path / "days"


@pytest.fixture
def table(stream, write):
    validation, days = stream
    times = [f"2026-05-0{day + 1}T{i // 5:02}:30" for day in range(8) for i in range(120)]
    path = write("log.csv", np.concatenate(days), time=np.array(times))
    return "--validation", validation, "--target", path


def steps_of(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_file_of_a_folder_is_a_window(folder, ok, stream):
    steps = steps_of(ok("monitor", *folder, "--json"))
    assert [step["time"] for step in steps] == [f"2026-05-0{day}.csv" for day in range(1, 9)]
    assert [step["index"] for step in steps] == list(range(8))
    assert {step["schema_version"] for step in steps} == {2}
    assert {step["command"] for step in steps} == {"monitor"}
    assert not steps[3]["alarm"]
    assert steps[-1]["alarm"]
    assert sum(step["raised"] for step in steps) == 1
    assert steps[-1]["priors"]["cow"] == pytest.approx(0.7, abs=0.1)


def test_every_window_has_a_verdict(verdict, folder, ok, tmp_path, ask):
    steps = steps_of(ok("monitor", *folder, "--json"))
    assert steps[-1]["verdict"] == "adapt"
    assert "adapt" not in [step["verdict"] for step in steps[:4]]
    validation, first = folder[1], tmp_path / "days" / "2026-05-01.csv"
    alone = ask("assess", "--validation", validation, "--target", first, "--method", "scm-l")
    assert steps[0]["verdict"] == alone["verdict"]
    assert " adapt " in ok("monitor", *folder).stdout.splitlines()[-2]


def test_people_get_a_header_and_a_conclusion_and_machines_do_not(verdict, folder, ok, tmp_path):
    result = ok("monitor", *folder)
    assert "Per window: time, rows, shift" in result.stderr
    *windows, last = result.stdout.splitlines()
    assert len(windows) == 8
    raised = next(line.split()[0] for line in windows if "  alarm, p" in line)
    assert last == (
        f"An alarm stands, raised at {raised}: the class priors have changed. Verdict on the last "
        "window: adapt."
    )
    machine = ok("monitor", *folder, "--json")
    assert len(steps_of(machine)) == 8
    assert "Per window" not in machine.stderr
    for day in range(3, 9):
        (tmp_path / "days" / f"2026-05-0{day}.csv").unlink()
    calm = ok("monitor", *folder).stdout.splitlines()[-1]
    assert calm.startswith("No alarm in 2 windows: no change of the class priors is shown.")


def test_windows_beyond_the_budget_have_no_verdict(verdict, folder, run, monkeypatch):
    monkeypatch.setattr(_data, "Verdicts", partial(_data.Verdicts, budget=2 * 620 * 13))
    result = run("monitor", *folder, "--json")
    verdicts = [step["verdict"] for step in steps_of(result)]
    assert None not in verdicts[:2]
    assert set(verdicts[2:]) == {None}
    assert "The last windows have no verdict" in result.stderr


def test_a_table_is_cut_by_days(table, folder, ok):
    by_day = steps_of(ok("monitor", *table, "--time-column", "time", "--json"))
    by_file = steps_of(ok("monitor", *folder, "--json"))
    assert [step["time"] for step in by_day] == [f"2026-05-0{day}" for day in range(1, 9)]
    for one, other in zip(by_day, by_file, strict=True):
        assert one["priors"] == pytest.approx(other["priors"])
        assert one["log_e_value"] == pytest.approx(other["log_e_value"])


@pytest.mark.parametrize(
    ("every", "times", "rows"),
    [
        ("week", ["2026-04-27", "2026-05-04"], [360, 600]),
        ("month", ["2026-05"], [960]),
        ("500", ["2026-05-05T03:30:00", "2026-05-08T23:30:00"], [500, 460]),
    ],
)
def test_a_table_is_cut_as_told(every, times, rows, table, ok):
    steps = steps_of(ok("monitor", *table, "--time-column", "time", "--every", every, "--json"))
    assert [step["time"] for step in steps] == times
    assert [step["n_samples"] for step in steps] == rows


def test_a_table_without_times_is_cut_by_rows(table, ok):
    steps = steps_of(ok("monitor", *table, "--every", "400", "--json"))
    assert [step["n_samples"] for step in steps] == [400, 400, 160]
    assert [step["time"] for step in steps] == [400, 800, 960]


def test_rows_are_sorted_by_time_and_values_may_be_numbers():
    windows = cut_windows(["10", "9", "10", "2"])
    assert [time for time, _ in windows] == [2, 9, 10]
    assert windows[-1][1].tolist() == [0, 2]
    assert [time for time, _ in cut_windows(["b", "a", "b", "a"])] == ["a", "b"]
    assert cut_windows(0, 5) == []


def test_the_day_comes_first_where_dots_are_written():
    found = cut_windows(["31.12.2025", "1.2.2026", "15.01.2026"], "value")
    assert [rows.tolist() for _, rows in found] == [[0], [2], [1]]
    assert cut_windows(["31.12.2025 10:00", "01.02.2026 09:30"], "month")[1][0] == "2026-02"
    with pytest.raises(ValueError, match="whether the day or the month comes first"):
        cut_windows(["05/06/2025", "12/31/2025"], "value")


def test_time_zones_are_brought_to_utc():
    times = np.array(["2026-05-01T23:30:00-02:00", "2026-05-02T00:30:00Z"])
    windows = cut_windows(times, "hour")
    assert [time for time, _ in windows] == ["2026-05-02T00", "2026-05-02T01"]


def test_a_state_goes_on_where_it_was(folder, stream, ok, tmp_path):
    whole = steps_of(ok("monitor", *folder, "--json", "--state", tmp_path / "whole.json"))
    days = sorted((tmp_path / "days").iterdir())
    hidden = [day.rename(tmp_path / day.name) for day in days[5:]]
    state = tmp_path / "state.json"
    first = steps_of(ok("monitor", *folder, "--json", "--state", state))
    for day in hidden:
        day.rename(tmp_path / "days" / day.name)
    again = ok("monitor", "--target", tmp_path / "days", "--json", "--state", state)
    steps = first + steps_of(again)
    assert steps == whole
    assert "Left out 5 windows up to 2026-05-05.csv" in again.stderr
    assert PriorMonitor.load(state).n_batches_ == 8


def test_week_10_comes_after_week_9_also_for_a_saved_state(stream, write, ok, tmp_path):
    validation, days = stream
    (tmp_path / "weeks").mkdir()
    asked = "monitor", "--validation", validation, "--target", tmp_path / "weeks", "--json"
    asked = *asked, "--state", tmp_path / "state.json"
    for number in (8, 9):
        write(f"weeks/week{number}.csv", days[0])
    assert [step["time"] for step in steps_of(ok(*asked))] == ["week8.csv", "week9.csv"]
    for number in (10, 11):
        write(f"weeks/week{number}.csv", days[-1])
    assert [step["time"] for step in steps_of(ok(*asked))] == ["week10.csv", "week11.csv"]


def test_what_was_told_is_saved_though_a_later_window_is_bad(folder, run, write, tmp_path):
    write("days/2026-05-04.csv", np.full((3, 3), 0.9))
    result = run("monitor", *folder, "--json", "--state", tmp_path / "state.json")
    assert result.exit_code == 1
    assert "2026-05-04.csv" in result.stderr
    assert len(steps_of(result)) == 3
    assert PriorMonitor.load(tmp_path / "state.json").n_batches_ == 3


def test_no_state_is_left_where_nothing_was_told(table, run, tmp_path):
    state = tmp_path / "state.json"
    result = run("monitor", *table, "--time-column", "nope", "--state", state)
    assert result.exit_code == 1
    assert "no column 'nope'; name it with --time-column" in result.stderr
    assert not state.exists()


def test_a_standing_alarm_fails_if_asked_for_and_can_be_acknowledged(folder, run, ok, tmp_path):
    state = ("--state", tmp_path / "state.json")
    assert run("monitor", *folder, *state, "--fail-on-shift").exit_code == 3
    ok("monitor", *folder, *state)
    assert run("monitor", *folder, *state, "--fail-on-shift").exit_code == 3
    ok("monitor", *folder, *state, "--acknowledge", "--fail-on-shift")


def test_report_and_plot_are_written(folder, ok, tmp_path):
    page, plot = tmp_path / "report.html", tmp_path / "plot.svg"
    result = ok("monitor", *folder, "--output", page, "--plot", plot)
    assert "priorshift monitor --validation" in page.read_text(encoding="utf-8")
    assert b"<svg" in plot.read_bytes()
    assert "Wrote" in result.stderr


@pytest.mark.parametrize(
    ("code", "words", "message"),
    [
        (2, ("--every", "day"), "in a folder every file is a window"),
        (2, ("--output", "report.pdf"), "must end with .html"),
        (2, ("--every", "fortnight"), "neither one of hour, day"),
        (2, ("--method", "em"), "is not one of"),
        (2, ("--plot", "plot.xyz"), "must end with .png or .svg or .pdf"),
    ],
)
def test_bad_usage_is_refused(code, words, message, folder, refuse):
    assert message in refuse(code, "monitor", *folder, *words)


def test_tables_need_a_way_to_be_cut(table, refuse, tmp_path):
    assert "--time-column" in refuse(2, "monitor", *table)
    assert "has no column 'when'" in refuse(1, "monitor", *table, "--time-column", "when")
    columns = ("--class-columns", "ant,bee,cow")
    bad = ("--time-column", "ant", "--every", "day")
    assert "needs dates" in refuse(1, "monitor", *table, *columns, *bad)
    assert "needs --validation" in refuse(2, "monitor", "--target", table[-1], "--every", "9")
    (tmp_path / "empty").mkdir()
    empty = ("--validation", table[1], "--target", tmp_path / "empty")
    assert "has no file of predictions" in refuse(1, "monitor", *empty)


def test_options_must_agree_with_the_state(folder, ok, refuse, tmp_path):
    state = ("--state", tmp_path / "state.json")
    ok("monitor", *folder, *state)
    found = refuse(2, "monitor", *folder, *state, "--method", "bbse")
    assert "--method is bbse but --state was begun with scm-l" in found


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX locks")
def test_two_runs_do_not_use_the_same_state(folder, run, ok, refuse, tmp_path):
    state = tmp_path / "state.json"
    run("monitor", *folder, "--state", state)
    assert PriorMonitor.load(state).alarm_
    before = state.read_bytes()
    with held(state):
        found = refuse(1, "monitor", *folder, "--state", state, "--acknowledge")
    assert f"another run is using {state}; wait for it" in found
    assert state.read_bytes() == before
    (tmp_path / ".state.json.lock").write_text("")  # of a run that was killed
    ok("monitor", *folder, "--state", state, "--acknowledge")
    assert not PriorMonitor.load(state).alarm_
    assert not list(tmp_path.glob(".*"))


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_a_link_as_state_is_refused(folder, ok, refuse, tmp_path):
    state, link = tmp_path / "state.json", tmp_path / "link.json"
    ok("monitor", *folder, "--state", state)
    before = state.read_bytes()
    link.symlink_to(state)
    assert "is a link" in refuse(1, "monitor", *folder, "--state", link, "--acknowledge")
    link.unlink()
    link.symlink_to(tmp_path / "nowhere.json")
    assert "is a link" in refuse(1, "monitor", *folder, "--state", link)
    (tmp_path / ".new.json.lock").symlink_to(state)
    assert "symbolic links" in refuse(1, "monitor", *folder, "--state", tmp_path / "new.json")
    assert state.read_bytes() == before


def test_followed_and_own_shares_are_both_shown_and_named(folder, ok):
    done = ok("monitor", *folder, "--json")
    last = steps_of(done)[4]  # the first day after the change
    assert last["own_priors"]["cow"] > last["priors"]["cow"] + 0.01
    line = ok("monitor", *folder).stdout.splitlines()[4]
    followed, own = 100 * last["priors"]["cow"], 100 * last["own_priors"]["cow"]
    assert f"cow {followed:.1f}% (own {own:.1f}%)" in line
    assert "(own) in this window alone" in " ".join(ok("monitor", *folder).stderr.split())


def test_an_acknowledgement_is_said(folder, ok, run, tmp_path):
    state = ("--state", tmp_path / "state.json")
    raised = next(
        s["time"] for s in steps_of(ok("monitor", *folder, *state, "--json")) if s["raised"]
    )
    done = ok("monitor", *folder, *state, "--acknowledge")
    assert f"The alarm raised at {raised} is acknowledged" in " ".join(done.stderr.split())
    assert done.stdout == (
        f"No alarm stands after 8 windows: the last one, raised at {raised}, was acknowledged.\n"
    )
    again = ok("monitor", *folder, *state, "--acknowledge")
    assert "There is no alarm to acknowledge." in again.stderr


def test_what_cannot_be_acknowledged_is_not_forgotten(folder, ok, tmp_path):
    """A job that always acknowledges must still raise an alarm one day."""
    state, quiet = tmp_path / "state.json", tmp_path / "quiet"
    quiet.mkdir()
    for day in (1, 2):
        (folder[-1] / f"2026-05-0{day}.csv").rename(quiet / f"{day}.csv")
    named = ("monitor", *folder[:-1], quiet, "--state", state)
    ok(*named)
    before = state.read_bytes()
    ok(*named, "--acknowledge")
    assert state.read_bytes() == before


def test_files_that_come_late_are_counted_among_those_left_out(folder, ok, stream, write, tmp_path):
    state = ("--state", tmp_path / "state.json")
    ok("monitor", *folder, *state)
    write("days/2026-05-03b.csv", stream[1][0])
    said = " ".join(ok("monitor", *folder, *state).stderr.split())
    assert "Left out 9 windows up to 2026-05-08.csv, to which --state has gone on" in said
    assert "to follow one that came late, begin a new state" in said


def test_json_without_a_new_window_is_a_summary(folder, ok, schema, tmp_path):
    state = ("--state", tmp_path / "state.json")
    steps = steps_of(ok("monitor", *folder, *state, "--json"))
    raised = next(step["time"] for step in steps if step["raised"])
    (found,) = steps_of(ok("monitor", *folder, *state, "--json"))
    schema.validate(found)
    assert (found["alarm"], found["raised_at"], found["windows"]) == (True, raised, 8)
    (found,) = steps_of(ok("monitor", *folder, *state, "--json", "--acknowledge"))
    assert (found["alarm"], found["raised_at"]) == (False, raised)
    schema.validate(steps[0])

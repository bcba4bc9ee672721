"""priorshift prevalence: test results and error rates on the command line."""

import json

import pytest

import priorshift as ps

RESULTS = ["prevalence", "--positives", "120", "--n", "1000"]
GIVEN = [*RESULTS, "--sensitivity", "0.9", "--specificity", "0.95"]
COUNTED = [*RESULTS, "--sensitivity", "90/100", "--specificity", "190/200"]


@pytest.mark.parametrize("given", [GIVEN, COUNTED])
def test_numbers_are_those_of_the_library(given, ask):
    sizes, found = given is COUNTED, ask(*given)
    named = {"n_positive": 100, "n_negative": 200} if sizes else {}
    known = ps.Confusion.from_rates(sensitivity=0.9, specificity=0.95, **named)
    shift = ps.CML().fit(confusion=known).estimate_counts([880, 120], 0.95)
    assert found["prevalence"] == pytest.approx(shift.priors[1])
    assert found["prevalence_interval"] == pytest.approx(shift.interval[1].tolist())
    assert found["apparent_prevalence"] == 0.12
    assert found["priors"]["positive"] == found["prevalence"]
    assert bool(found["cautions"]) == (not sizes)


def test_a_person_reads_one_line(ok):
    done = ok(*COUNTED)
    assert done.stdout.startswith("Prevalence 8.24%, 95% interval ")
    assert "12.0% of the results are positive" in done.stdout
    assert not done.stderr
    assert "taken to be exact" in " ".join(ok(*GIVEN).stderr.split())


def test_errors_say_what_to_do(run):
    done = run("prevalence", "--positives", 2, "--n", 1, "--sensitivity", 1, "--specificity", 1)
    assert done.exit_code == 2
    assert "n counts all results" in done.stderr
    done = run("prevalence", "--positives", 1, "--n", 2, "--sensitivity", 0.5, "--specificity", 0.5)
    assert done.exit_code == 1
    assert "must sum to more than 1" in " ".join(done.stderr.split())


def test_rates_are_shares_or_counts(run):
    for wrong in ("1.2", "5/4", "1/0", "many"):
        done = run(*RESULTS, "--sensitivity", wrong, "--specificity", "0.9")
        assert done.exit_code == 2
        assert "two counts such as 130/157" in " ".join(done.stderr.split())


def test_the_interval_is_named(ok, ask):
    assert "(Wilson's, mapped through exact error rates)" in ok(*GIVEN).stdout
    done = ok(*COUNTED)
    assert "(score interval, with the errors of the rates)" in done.stdout
    assert "score interval" in ask(*COUNTED)["interval_by"]


def test_fewer_positives_than_mistakes_are_doubted(ok):
    few = ["prevalence", "--positives", 12, "--n", 1000, "--specificity", "0.95"]
    said = " ".join(ok(*few, "--sensitivity", "0.9").stderr.split())
    assert "fewer than the 5.00% that are by mistake" in said
    assert "That is chance, or these error rates do not hold for these people." in said
    many = ["prevalence", "--positives", 990, "--n", 1000, "--specificity", "0.95"]
    assert "more than the 90.0%" in " ".join(ok(*many, "--sensitivity", "0.9").stderr.split())


def test_a_table_of_groups_comes_back_pooled(ok, run, tmp_path, ask):
    path = tmp_path / "by_age.csv"
    path.write_text("age;tested;pos\n0-19;150;2\n60-79;30;4\n80+;600;60\n", encoding="utf-8")
    rates = ["--sensitivity", "130/157", "--specificity", "368/371"]
    asked = ["prevalence", path, "--positives", "pos", "--n", "tested", *rates]
    found = ask(*asked)
    old = found["groups"][1]
    assert [group["group"] for group in found["groups"]] == ["0-19", "60-79", "80+"]
    alone = ask(*asked, "--pooling", "none")["groups"][1]
    assert alone["prevalence"] > old["prevalence"] > found["prevalence"]  # drawn to the others
    assert alone["high"] - alone["low"] > old["high"] - old["low"]
    known = ps.Confusion.from_rates(
        sensitivity=130 / 157, specificity=368 / 371, n_positive=157, n_negative=371
    )
    one = ps.CML().fit(confusion=known).estimate_counts([26, 4])
    assert alone["prevalence"] == pytest.approx(one.priors[1])
    assert "Prevalence by age (95% interval" in ok(*asked).stdout
    ok(*asked, "--output", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().startswith("group;n;positives;prevalence;low;high")
    done = run("prevalence", path, *rates)
    assert "name it with --positives" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("a,1,2\na,1,2", "more than once"),
        ("a,3,2", "3 positives of 2 results"),
        ("a,x,2", "has 'x' in line 2; counts are whole numbers"),
        ("a,0,0", "at least 1"),
    ],
)
def test_bad_tables_of_groups_are_refused(run, tmp_path, rows, says):
    path = tmp_path / "groups.csv"
    path.write_text(f"group,positives,n\n{rows}\n", encoding="utf-8")
    done = run("prevalence", path, "--sensitivity", "0.9", "--specificity", "0.9")
    assert done.exit_code == 1
    assert says in " ".join(done.stderr.split())


def test_a_row_of_sums_is_no_group_and_rates_may_be_percent(ok, run, tmp_path, ask):
    path, rates = tmp_path / "ages.csv", ["--sensitivity", "85%", "--specificity", "0.95"]
    path.write_text("age,n,positives\nyoung,400,30\nold,500,60\nTotal,900,90\n")
    done = ok("prevalence", path, *rates, "--json")
    found = json.loads(done.stdout)
    assert [group["group"] for group in found["groups"]] == ["young", "old"]
    assert "Left out row 'Total': its counts are the sum of the others." in done.stderr
    path.write_text("age,n,positives\nyoung,400,30\nold,500,60\n")
    same = ask("prevalence", path, "--sensitivity", "0.85", *rates[2:])
    assert same == found
    path.write_text("age,n,positives\nyoung,400,30\nAll,500,60\nold,300,70\n")  # a name like others
    assert len(ask("prevalence", path, *rates)["groups"]) == 3
    refused = run("prevalence", path, "--sensitivity", "850%", *rates[2:])
    assert "is neither a share such as 0.85 or 85%" in " ".join(refused.stderr.split())

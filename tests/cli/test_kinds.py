"""assess --rows-to-label and --target-labels, --history-column, --assume-prior-shift; backtest."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

from priorshift.cli import main
from priorshift.text import percent

NAMES = np.array(["ill", "well"])


def run(*arguments, code=0):
    found = CliRunner().invoke(main, [str(one) for one in arguments])
    assert found.exit_code == code, found.output
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Covariate shift: the risks that the model gives stay right, older people came."""
    folder, rng = tmp_path_factory.mktemp("kinds"), np.random.default_rng(0)
    truth = None
    for name, n, centre in (("validation", 1500, 0.0), ("target", 1200, 1.0)):
        risk = 1 / (1 + np.exp(-rng.normal(size=n) - centre))
        y = NAMES[(rng.uniform(size=n) > risk).astype(int)]
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["id", "ill", "well", *(["label", "month"] * (name == "validation"))])
            for i, (p, label) in enumerate(zip(risk.tolist(), y, strict=True)):
                month = f"2025-{1 + i * 6 // n:02d}"
                row = [f"r{i}", p, 1 - p]
                writer.writerow(row + [label, month] * (name == "validation"))
        truth = y
    return folder / "validation.csv", folder / "target.csv", truth


def test_rows_to_label_and_back(files, tmp_path):
    validation, target, truth = files
    todo, data = tmp_path / "todo.csv", (validation, target)
    first = run("assess", *data, "--rows-to-label", todo)
    assert "--target-labels" in first.stderr
    with todo.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["row", "id", "ill", "well", "label"]
    assert len(rows) == 40
    assert all(row["id"] == f"r{int(row['row']) - 1}" and row["label"] == "" for row in rows)
    refused = run("assess", *data, "--target-labels", todo, code=1)
    assert "has a label yet" in refused.stderr
    for row in rows:
        row["label"] = truth[int(row["row"]) - 1]
    with todo.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    told = json.loads(run("assess", *data, "--target-labels", todo, "--json").stdout)
    assert told["measured"]["n_labelled"] == 40
    assert told["action"] != "adapt"
    assert told["shares_to_report"]["method"] == "ppi"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("row,label\n5000,ill\n", "rows of the target are 1 to 1,200"),
        ("row,label\nx,ill\n", "names row 'x'"),
        ("row,label\n3,dead\n", "dead"),
        ("line,answer\n3,ill\n", "must have the columns 'row' and 'label'"),
    ],
)
def test_labels_that_do_not_fit_are_refused(files, tmp_path, text, said):
    todo = tmp_path / "todo.csv"
    todo.write_text(text)
    assert said in run("assess", *files[:2], "--target-labels", todo, code=1).stderr


def test_an_unclear_verdict_ends_with_the_offer(files):
    shown = run("assess", *files[:2]).stdout
    assert shown.startswith("Unclear")
    assert "--rows-to-label todo.csv" in shown


def test_rows_to_label_keep_the_separator(files, tmp_path):
    validation, target, truth = files
    mine, todo = tmp_path / "target.csv", tmp_path / "todo.csv"
    mine.write_text(target.read_text().replace(",", ";").replace(".", ","))
    run("assess", validation, mine, "--rows-to-label", todo)
    header, *lines = todo.read_text().splitlines()
    assert header == "row;id;ill;well;label"
    assert all(len(line.split(";")) == 5 for line in lines)
    filled = [line + truth[int(line.split(";")[0]) - 1] for line in lines]
    todo.write_text("\n".join([header, *filled]) + "\n")
    told = run("assess", validation, mine, "--target-labels", todo, "--json")
    assert json.loads(told.stdout)["measured"]["n_labelled"] == 40


def test_table_and_csv_have_the_shares_to_report(files, tmp_path):
    told = json.loads(run("assess", *files[:2], "--json").stdout)
    report, estimate = (told[name]["priors"] for name in ("shares_to_report", "estimate"))
    assert abs(report["ill"] - estimate["ill"]) > 0.01
    shown = run("assess", *files[:2]).stdout
    assert f" {percent(report['ill'])} " in shown.partition("Class shares to report")[2]
    run("assess", *files[:2], "--output", tmp_path / "shares.csv")
    with (tmp_path / "shares.csv").open(newline="") as stream:
        rows = {row["class"]: float(row["prior"]) for row in csv.DictReader(stream)}
    assert rows == pytest.approx(report)


def test_history_and_the_users_word(files):
    told = json.loads(run("assess", *files[:2], "--history-column", "month", "--json").stdout)
    assert told["backtest"]["n_groups"] == 6
    vouched = json.loads(run("assess", *files[:2], "--assume-prior-shift", "--json").stdout)
    assert vouched["sentence"].startswith("Unclear: you say that each class looks as it did")
    assert "year" in run("assess", *files[:2], "--history-column", "year", code=1).stderr


def test_an_empty_month_is_named_by_its_line(files, tmp_path):
    validation, target, _ = files
    holes = tmp_path / "holes.csv"
    holes.write_text(validation.read_text().replace(",2025-01\n", ",\n", 1))
    for words in (
        ("backtest", holes, "--group-column", "month"),
        ("assess", holes, target, "--history-column", "month"),
    ):
        assert "'month' in" in (said := run(*words, code=1).stderr)
        assert "is empty in 1 rows, first in line 2" in said.replace("\n", " ")


def test_backtest(files, tmp_path):
    validation = files[0]
    shown = run("backtest", validation, "--group-column", "month").stdout
    assert shown.startswith("On your 5 past groups")
    assert "2025-06" in shown
    told = json.loads(run("backtest", validation, "--group-column", "month", "--json").stdout)
    assert told["command"] == "backtest"
    assert len(told["groups"]) == 5
    out = tmp_path / "past.csv"
    run("backtest", validation, "--group-column", "month", "--output", out)
    assert len(out.read_text().splitlines()) == 6
    assert "--group-column" in run("backtest", validation, code=2).stderr


def test_rows_to_label_of_an_npz_have_the_arrays_that_are_columns(files, tmp_path):
    validation, _, truth = files
    rng, target, todo = np.random.default_rng(1), tmp_path / "t.npz", tmp_path / "todo.csv"
    risk, site = rng.beta(2, 1, truth.size), rng.choice(["a", "b"], truth.size)
    np.savez(target, y_proba=np.column_stack([risk, 1 - risk]), classes=NAMES, site=site)
    run("assess", validation, target, "--rows-to-label", todo)
    with todo.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["row", "site", "label"]
    assert all(row["site"] == site[int(row["row"]) - 1] for row in rows)


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    """Prior shift: fewer are ill, and only your word tells it from fewer who look ill."""
    folder, rng = tmp_path_factory.mktemp("weighted"), np.random.default_rng(1)
    for name, n, share in (("validation", 1500, 0.5), ("target", 3000, 0.1)):
        ill = rng.random(n) < share
        risk = 1 / (1 + np.exp(2 - 2 * rng.normal(loc=2.0 * ill)))
        rows = [f"{p},{NAMES[int(not of)]}" for p, of in zip(risk.tolist(), ill, strict=True)]
        if name == "target":
            rows = [row.partition(",")[0] for row in rows]
        head = "risk,label" if name == "validation" else "risk"
        (folder / f"{name}.csv").write_text("\n".join([head, *rows]) + "\n")
    return folder / "validation.csv", folder / "target.csv", "--positive-class", "ill"


def test_adapt_and_report_come_to_the_verdict_of_assess(weighted, files, tmp_path):
    page, out = tmp_path / "r.html", tmp_path / "a.csv"
    todo = tmp_path / "todo.csv"
    run("assess", *files[:2], "--rows-to-label", todo)
    header, *lines = todo.read_text().splitlines()
    filled = [line + files[2][int(line.split(",")[0]) - 1] for line in lines]
    todo.write_text("\n".join([header, *filled]) + "\n")
    plain = run("assess", *weighted).stdout.splitlines()[0]
    for data, more in (
        (weighted, ("--assume-prior-shift",)),
        (files[:2], ("--target-labels", todo)),
        (files[:2], ("--history-column", "month")),
    ):
        told = json.loads(run("assess", *data, *more, "--json").stdout)
        assert told["sentence"] != plain
        assert told["sentence"] in run("adapt", *data, *more, "--output", out).stderr
        written = json.loads(run("report", *data, *more, "--output", page, "--json").stdout)
        assert written["verdict"] == told["verdict"]
        shown = page.read_text(encoding="utf-8")
        assert told["sentence"].partition(":")[2][:40] in shown
        assert ("assume_prior_shift=True" in shown) == ("--assume-prior-shift" in more)


def test_under_your_word_one_interval_is_left(weighted):
    told = json.loads(run("assess", *weighted, "--assume-prior-shift", "--json").stdout)
    report, estimate = told["shares_to_report"], told["estimate"]
    assert report["priors"] == estimate["priors"]
    assert report["interval"] == estimate["interval"]
    assert report["interval_method"] != "readings"
    said = "You say that each class looks as it did. The verdict takes your word for it."
    assert said in told["reasons"]

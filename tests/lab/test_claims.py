"""The paper's claims: networks counted once, draws averaged first."""

import numpy as np
import pytest

from lab.paper.claims import (
    difference,
    differences,
    gains,
    networks_by_claim,
    read_records,
    solvers_as_markdown,
)
from lab.paper.tables import Record, ResultTable, by_setting
from lab.show import as_csv

ACCURACIES = {"scm-l": 2.0, "em": 1.0}
SHIFTS = {"0": (0.0, 0.2), "1": (1.0, 1.4), "2": (-1.0, -0.2)}
"""What SCM-L has above EM's lead, in two draws of three networks."""


@pytest.fixture
def records():
    found = []
    for solver in ("paper", "released", "certified"):
        for network, more in SHIFTS.items():
            for draw, shift in enumerate(more):
                seed = 2 * int(network) + draw
                for method, accuracy in ACCURACIES.items():
                    value = accuracy + shift * (method == "scm-l")
                    where = ("lt", "UNI", False, solver, method, seed, value, 0.5, 1.0, network)
                    found.append(Record(*where))
    return found


def of(records, method, solver="paper"):
    return [r for r in records if (r.method, r.solver) == (method, solver)]


def test_errors_are_over_networks_after_the_mean_over_draws(records):
    means = 1 + np.array([np.mean(more) for more in SHIFTS.values()])
    error = means.std(ddof=1) / np.sqrt(3)
    said = difference(of(records, "scm-l"), of(records, "em"))
    assert said == f"{means.mean():+.2f} ± {error:.2f}"
    alone = [r for r in records if r.network == "1"]
    draws = 1 + np.array(SHIFTS["1"])
    said = difference(of(alone, "scm-l"), of(alone, "em"))
    assert said == f"{draws.mean():+.2f} ± {draws.std(ddof=1) / np.sqrt(2):.2f}"


def test_a_duel_has_six_columns(records):
    lines = differences(by_setting(records), "scm-l", "em").splitlines()
    assert lines[0].startswith("| source -> target | networks | text | released | certified | BCTS")
    assert lines[2].split(" | ")[:2] == ["| lt -> UNI", "3"]
    assert lines[2].count("±") == 3, "nothing was calibrated"
    assert len(differences(by_setting(records), "scm-l", "rlls").splitlines()) == 2


def test_verdicts_count_networks(tmp_path, records):
    table = ResultTable("T", tuple(ACCURACIES), tuple(records))
    for name in ("lt-table3", "lt-table4"):  # the same records twice count once
        (tmp_path / f"{name}.csv").write_text(as_csv(table.records), encoding="utf-8")
    assert read_records(tmp_path.glob("*.csv")) == records
    # leads of 1.1 ± .1, 2.2 ± .2 and 0.4 ± .4
    text = networks_by_claim(by_setting(records))
    assert text.splitlines()[2:] == ["| SCM-L over EM | 2, 1, 0 | 2, 1, 0 | 2, 1, 0 |  |  |  |"]


def test_calibration_is_judged_within_a_column():
    methods = ("em", "scm-l", "scm-m", "oracle")
    added = {"paper": 0.5, "released": -1.0, "certified": 2.0}
    found = [
        Record("lt", "UNI", calibrated, solver, method, seed, 10.0 + gain * calibrated)
        for solver, gain in added.items()
        for calibrated in (False, True)
        for method in methods
        for seed in (0, 1)
    ]
    rows = gains(by_setting(found)).splitlines()[2:]
    assert rows == [
        f"| lt -> UNI | {name} | +0.50 ± 0.00 | -1.00 ± 0.00 | +2.00 ± 0.00 |"
        for name in ("EM", "SCM-L", "SCM-M", "Oracle")
    ]


def test_columns_side_by_side_say_where_there_is_no_bound(records):
    (row,) = [r for r in solvers_as_markdown(by_setting(records)).splitlines() if "| SCM-L |" in r]
    assert row.count("2.23, 0.500, 1") == 3
    assert row.count("+0.00 ± 0.00") == 2
    unbounded = [r._replace(gap=None) for r in records]
    assert "no bound" in solvers_as_markdown(by_setting(unbounded))

"""priorshift report and demo write a file, and tell what they did."""

import re

import numpy as np
import pytest

import priorshift as ps

pytest.importorskip("jinja2")

blank_figures = pytest.mark.usefixtures("blank_figures")


@blank_figures
def test_a_report_says_how_it_was_made(both, ok, tmp_path):
    output = tmp_path / "my report.html"
    result = ok("report", *both, "--method", "em", "--output", output)
    assert result.stdout == ""
    assert result.stderr == f"Wrote {output}.\n"
    page = output.read_text(encoding="utf-8")
    assert "priorshift report --validation" in page
    assert "--method em" in page


@blank_figures
def test_a_report_without_validation(files, ok, tmp_path):
    output = tmp_path / "r.html"
    source = ("--source-priors", "ant=1,bee=1,cow=1", "--known-priors", "ant=1,bee=1,cow=2")
    ok("report", "--target", files[1], *source, "--output", output)
    assert output.stat().st_size > 1000


@blank_figures
def test_warnings_are_in_the_report_and_on_stderr(data, write, ok, tmp_path):
    seen = data.y_val != "cow"
    validation = write("v.csv", data.y_proba_val[seen], data.y_val[seen])
    named = ("--validation", validation, "--target", write("t.csv", data.y_proba))
    result = ok("report", *named, "--output", tmp_path / "r.html")
    assert result.stderr.count("Warning: validation has no sample of class 'cow'") == 1
    assert "validation has no sample of class" in (tmp_path / "r.html").read_text(encoding="utf-8")


@blank_figures  # tests of the help draw them
def test_the_demo(ok, tmp_path):
    folder, page = tmp_path / "new" / "folder", tmp_path / "demo.html"
    result = ok("demo", "--all", "--save-data", folder, "--output", page)
    assert result.stdout.count("\nscm-l ") == 1  # one table
    assert "differs: by which factor, from the median" in result.stderr
    assert re.search(r"Auto, EM and SCM-L agree: about 6\d% of the cases", result.stdout)
    assert "is most accurate: 80.3%, against 63.5% without adapting." in result.stdout
    assert sorted(path.name for path in folder.iterdir()) == [
        "source_priors.csv",
        "target.csv",
        "validation.csv",
    ]
    assert f"Wrote {page}." in result.stderr
    assert page.stat().st_size > 10_000


def test_the_demo_tells_the_story_first(ok):
    """Verdict, before and after by labels, a picture of three methods, where the rest is."""
    lines = ok("demo").stdout.splitlines()
    assert lines[1].startswith("Adapt: ")
    assert "63.5% before adapting and 80.3% after" in lines[2]
    data = ps.datasets.load_fashion_lt()
    drawn = [line for line in lines if line.split(" ")[0] in ("Coat", "Sandal", "T-shirt/top")]
    assert len(drawn) == 3
    for line in drawn:
        name, track = line[:12].strip(), line[13:64]
        k = data.classes.tolist().index(name)
        assert track.index("o") == pytest.approx(100 * data.source_priors[k], abs=0.6)  # 0 to 50%
        truth = np.mean(data.y_target == name)
        assert track.index(max(track, key="ae*".find)) == pytest.approx(100 * truth, abs=2)
    assert lines[-1] == "All methods: priorshift demo --all"

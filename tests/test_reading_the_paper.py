"""docs/reading-the-paper.md: nothing of the paper lacks a row, and what a row names exists."""

import importlib
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from priorshift.cli import main

PAGE = (Path(__file__).parents[1] / "docs" / "reading-the-paper.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")]
SPANS = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL))

# Every \label of the paper's source and its supplement, in its order
LABELS = """
sec:related_work eq:adapt_priors subsection:cm_prior_estimation eq:cm_conditional_marginalization
eq:cm_computing_priors eq:soft_estimate subsection:predictions_prior_estimation sec:mle_em
eq:exp_step eq:max_step eq:pgd_likelihood eq:dirichlet_derivative sec:prior_ratio
cm_ratio_estimation sec:sampling_strategies subsubsection:cm_maximum_likelihood
fig:simplex_subset eq:cm_likelihood eq:cm_max_problem eq:cm_likelihood_criterion
eq:cm_likelihood_constraint eq:cm_pgd eq:cm_likelihood_derivative
subsubsection:cm_maximum_aposteriori maximum_aposteriori_CM fig:lt_distribution
tab:adapt_or_retrain_cifar_pt tab:cm_correction sec:exp_adapt_retrain tab:mle_map_cm_all
tab:prior_ratio_noretrain fig:test_num_samples sec:experimental_setting fig:lt_distribution_sup
eq:bbse_inconsistent fig:artificial_ex_classif eq:hard_bin_classif fig:diff_learned fig:runtimes
tab:runtimes tab:cm_correction_sup tab:mle_map_cm_all_sup tab:prior_ratio_noretrain_sup
""".split()  # noqa: SIM905


def section(title):
    """Return the rows of the table under a heading, without its head."""
    text = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (found,) = [part for part in text if part.startswith(f"{title}\n")]
    return [line for line in found.splitlines() if line.startswith("| ")][1:]


def test_every_row_of_every_table_has_commands():
    """Tables 1 to 4 have 8, 10, 10 and 10 rows, and 6 to 8 have 48 each."""
    rows = [row for row in section("Every row, from the images") if row.startswith("| Table")]
    counted = {}
    for row in rows:
        _, where, what, _ = re.split(r" \| |^\| ", row)
        if found := re.search(r"(\d+) rows$", what):
            counted[where] = counted.get(where, 0) + int(found[1])
    expected = {"Table 1": 8, **{f"Table {n}": 10 for n in (2, 3, 4)}}
    assert counted == expected | {f"Table {n}": 48 for n in (6, 7, 8)}
    assert sum("| Table 5 |" in row for row in rows) == 3


def test_every_label_has_a_row():
    assert [label for label in LABELS if sum(f"`{label}`" in row for row in ROWS) != 1] == []


@pytest.mark.parametrize(("title", "n"), [("Equations", 26), ("Tables", 8), ("Figures", 7)])
def test_every_number_has_a_row_with_a_line_of_code(title, n):
    """The source has as many equation, table and figure environments, numbered throughout."""
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in section(title)]
    assert [row[0] for row in cells] == [str(number) for number in range(1, n + 1)]
    for row in cells:
        assert len(row) == 5, row
        assert "`" in row[2], row  # code
        assert row[3] or row[4], row  # a command or a page


def resolve(name):
    """Return what a dotted name stands for: a module, then attributes."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


NAMES = {span.removeprefix("~") for span in SPANS if re.fullmatch(r"~?[a-z]+(\.\w+)+", span)}
NAMES = {n for n in NAMES if n.startswith(("priorshift.", "lab.", "ps."))}
CALLS = {span for span in SPANS if re.match(r"(ps\.)?[A-Z]\w*(\.\w+)*\(", span)}


def test_every_name_exists():
    needs_torch = set() if find_spec("torch") else {"priorshift.torch_sampler.PriorSampler"}
    for name in NAMES - needs_torch:
        resolve(re.sub(r"^ps\.", "priorshift.", name))


def test_every_call_is_one_that_its_class_accepts():
    for call in CALLS:
        name, arguments = re.match(r"(?:ps\.)?([\w.]+)\((.*)\)", call).groups()
        made = resolve(f"priorshift.{name}")
        options = dict(pair.split("=") for pair in re.findall(r"\w+=[^,]+", arguments))
        if isinstance(made, type):
            made(**{key: eval(value) for key, value in options.items()})


def test_there_is_something_to_check():
    assert len(NAMES) > 40
    assert len(CALLS) >= 6
    assert len(COMMANDS) > 5


COMMANDS = sorted({span for span in SPANS if span.startswith("priorshift ")})


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_read(command, monkeypatch, tmp_path):
    """Those of the laboratory are read in test_docs_complete."""
    monkeypatch.chdir(tmp_path)
    _, *arguments = shlex.split(command)
    for word in arguments:
        if Path(word).suffix in (".csv", ".npz"):
            Path(word).touch()
    with click.Context(main, info_name="priorshift") as context:
        name, called, rest = main.resolve_command(context, arguments)
        if called is not None and called.params:
            called.make_context(name, rest, parent=context)

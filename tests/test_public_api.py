"""The public face: what is there, what it says of itself, and what importing it costs."""

import inspect
import subprocess
import sys
from importlib.metadata import version
from types import ModuleType

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_no_attributes_set_in_init

import priorshift as ps

every_method = pytest.mark.parametrize("method", ps.available_estimators())

METHODS = {
    "na": "NoAdaptation",
    "cm": "CM",
    "scm": "SCM",
    "cm-l": "CML",
    "scm-l": "SCML",
    "cm-m": "CMM",
    "scm-m": "SCMM",
    "em": "EM",
    "map": "MAP",
    "bbse": "BBSE",
    "bbse-s": "BBSES",
    "rlls": "RLLS",
    "auto": "Auto",
    "elsa": "ELSA",
    "mapls": "MAPLS",
    "joint": "JointLikelihood",
    "gls": "GLS",
    "em-labels": "SemiSupervisedEM",
    "em-bcts": "CalibratedEM",
    "scm-l-shrunk": "ShrunkSCML",
    "mean": "CalibratedMean",
    "ppi": "PPI",
}


# Names


def test_all_is_the_public_namespace():
    public_names = {
        name
        for name, value in vars(ps).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public_names == set(ps.__all__) - {"__version__"}
    assert len(ps.__all__) == len(set(ps.__all__))


def test_public_modules_are_our_own():
    modules = [value for name, value in vars(ps).items() if isinstance(value, ModuleType)]
    assert modules
    assert all(module.__name__.startswith("priorshift.") for module in modules)


def test_star_import_gives_what_all_names():
    namespace = {}
    exec("from priorshift import *", namespace)
    assert set(ps.__all__) <= set(namespace)


def test_version_is_that_of_the_package():
    assert ps.__version__ == version("priorshift")


def test_public_objects_say_what_they_are():
    for name in set(ps.__all__) - {"__version__", "ConvergenceWarning"}:  # scikit-learn's
        thing = getattr(ps, name)
        first_line = (thing.__doc__ or "").strip().split("\n")[0]
        assert first_line.endswith((".", ":")), f"{name} needs a one-line summary"
        for attribute, value in vars(thing).items() if inspect.isclass(thing) else ():
            of_class = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if not attribute.startswith("_") and (
                inspect.isfunction(of_class) or isinstance(of_class, property)
            ):
                assert inspect.getdoc(of_class), f"{name}.{attribute} has no docstring"


# Estimators by name


def test_every_method_has_its_name_and_class():
    for name, class_name in METHODS.items():
        est = ps.get_estimator(name)
        assert type(est) is getattr(ps, class_name)
        assert est.name == name
    assert set(METHODS) <= set(ps.available_estimators(target_labels=True))
    assert "ppi" not in ps.available_estimators()  # it needs labels of the target
    concrete = {
        thing
        for thing in vars(ps).values()
        if inspect.isclass(thing) and issubclass(thing, ps.PriorEstimator)
    } - {ps.PriorEstimator}
    every = ps.available_estimators(target_labels=True)
    assert {type(ps.get_estimator(name)) for name in every} == concrete


def test_the_list_of_names_is_a_copy():
    ps.available_estimators().clear()
    assert ps.available_estimators()


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [("scml", "scm-l"), ("SCM_L", "scm-l"), ("EM", "em"), ("bbses", "bbse-s"), ("rls", "rlls")],
)
def test_an_unknown_name_is_met_with_a_hint(wrong, hint):
    with pytest.raises(ValueError, match=f"no estimator '{wrong}'.* Did you mean '{hint}'") as e:
        ps.get_estimator(wrong)
    for name in ps.available_estimators():
        assert name in str(e.value)


def test_a_name_like_no_other_gets_no_hint():
    with pytest.raises(ValueError, match=r"no estimator 'zzz'; choose from [^?]*$"):
        ps.get_estimator("zzz")


@pytest.mark.parametrize("wrong", [None, 3, ["em"], ps.EM])
def test_a_name_is_text(wrong):
    with pytest.raises(ValueError, match=r"there is no estimator .*; choose from na, auto"):
        ps.get_estimator(wrong)


def test_parameters_are_passed_on():
    assert ps.get_estimator("map", alpha=2.5).alpha == 2.5
    with pytest.raises(TypeError, match="CM has no parameter 'alpha'; leave params out"):
        ps.get_estimator("cm", alpha=1.0)
    with pytest.raises(TypeError, match="MAP has no parameter 'beta'; it has 'alpha', 'max_iter'"):
        ps.get_estimator("map", beta=1)


# scikit-learn's conventions


@every_method
def test_init_only_assigns_and_repr_shows_what_differs_from_the_default(method):
    est = ps.get_estimator(method)
    check_no_attributes_set_in_init(type(est).__name__, est)
    sentinels = {name: object() for name in est.get_params()}
    odd = type(est)(**sentinels)  # nothing is judged or changed before fit
    for name, sentinel in sentinels.items():
        assert getattr(odd, name) is sentinel
    name = type(est).__name__
    assert repr(est) == f"{name}()"
    if "tol" in est.get_params():
        assert repr(est.set_params(tol=0.125)) == f"{name}(tol=0.125)"
    with pytest.raises(ValueError, match="Invalid parameter 'unheard_of'"):
        est.set_params(unheard_of=1)


@every_method
def test_fit_sets_what_it_promises_and_clone_drops_it(method):
    y_proba, y = [[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]], ["a", "b", "a"]
    params = {
        name: value
        for name, value in {"tol": 0.5, "alpha": 1.5, "gamma": 0.5}.items()
        if name in ps.get_estimator(method).get_params()
    }
    est = ps.get_estimator(method, **params)
    for call in (est.estimate, est.adapt):
        with pytest.raises(NotFittedError, match="not fitted"):
            call([[0.5, 0.5]])
    with pytest.raises(NotFittedError, match="not fitted"):
        est.estimate_counts(ps.DecisionCounts([1.0, 1.0], "hard", 2))
    assert est.fit(y_proba, y) is est
    assert est.classes_.tolist() == ["a", "b"]
    assert est.n_features_in_ == 2
    assert est.source_priors_.sum() == pytest.approx(1.0)
    copy = clone(est)
    assert type(copy) is type(est)
    assert copy.get_params() == est.get_params()
    assert params.items() <= copy.get_params().items()
    assert not hasattr(copy, "classes_")


def test_parameters_have_the_same_names_everywhere():
    shared = {"alpha", "tol", "max_iter", "solver", "random_state", "n_jobs"}
    own = {"bbse": {"constrained"}, "bbse-s": {"constrained"}}
    own["rlls"] = {"regularization", "delta", "gamma", "decision"}
    own["auto"] = {"caution", "cv", "costs", "goal"}
    own["mean"] = {"cv"}
    own |= {name: {"shrinkage"} for name in ("joint", "gls", "scm-l-shrunk")}
    own["em-bcts"] = {"calibrator", "ridge", "cv"}
    own["em-labels"] = {"calibrator", "unlabelled_weight"}
    for name in ps.available_estimators():
        assert set(ps.get_estimator(name).get_params()) <= shared | own.get(name, set()), name


# What every surface refuses, in words of its own

WORLD = np.random.default_rng(0)
Y = np.repeat([0, 1], 150)
P = WORLD.dirichlet([1, 3], size=300)[np.arange(300), :] * 0.5 + 0.5 * np.eye(2)[Y]
HUGE = 10**5000
"""More digits than Python writes out."""

SEEDED = {
    "assess": lambda seed: ps.assess(P, Y, P, random_state=seed),
    "rows_to_label": lambda seed: ps.assess(P, Y, P).rows_to_label(P, n=5, random_state=seed),
    "backtest": lambda seed: ps.backtest(P, Y, np.arange(300) % 2, random_state=seed),
    "auto": lambda seed: ps.Auto(random_state=seed).fit(P, Y).estimate(P),
    "em-bcts": lambda seed: ps.CalibratedEM(random_state=seed).fit(P, Y).estimate(P),
    "bootstrap": lambda seed: (
        ps.SCML().fit(P, Y).estimate(P, 0.9, seed, interval_method="bootstrap", n_resamples=20)
    ),
    "bayesian": lambda seed: ps.CML().fit(P, Y).estimate(P, 0.9, seed, interval_method="bayesian"),
    "detect_shift": lambda seed: ps.detect_shift(P, Y, P, random_state=seed),
    "check_assumption": lambda seed: ps.check_assumption(P, Y, P, random_state=seed),
    "sample_indices": lambda seed: ps.sample_indices(Y, [0.5, 0.5], random_state=seed),
    "adapt_proba_interval": lambda seed: ps.adapt_proba_interval(
        np.eye(3), np.full(3, 1 / 3), np.full(3, 1 / 3), interval=[[0, 1]] * 3, random_state=seed
    ),
    "ConformalSets": lambda seed: ps.ConformalSets("randomised-aps", random_state=seed).fit(
        P, Y, target_priors=[0.5, 0.5]
    ),
    "PriorMonitor": lambda seed: ps.PriorMonitor(random_state=seed).fit(P, Y),
}


@pytest.mark.parametrize("surface", SEEDED)
def test_random_states_that_are_none(surface):
    for seed in (-1, "x", 1.5):
        with pytest.raises(ValueError, match="random_state must be None, a whole number"):
            SEEDED[surface](seed)


NOT_METHODS = {
    "assess": lambda method: ps.assess(P, Y, P, method=method),
    "backtest": lambda method: ps.backtest(P, Y, np.arange(300) % 3, method=method),
    "estimate_groups": lambda method: ps.estimate_groups(method, P, Y),
    "PriorMonitor": lambda method: ps.PriorMonitor(method).fit(P, Y),
    "get_estimator": ps.get_estimator,
}


@pytest.mark.parametrize("surface", NOT_METHODS)
def test_methods_that_are_none(surface):
    for method in (3, [], ps.EM):
        with pytest.raises((ValueError, TypeError), match=r"no estimator|estimator must be a"):
            NOT_METHODS[surface](method)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ps.decide(P, {(0, 1): HUGE}),
        lambda: ps.decide(P, 1e160 * (1 - np.eye(2))),
        lambda: ps.decide(P, reject=HUGE),
        lambda: ps.assess(P, Y, P, costs=1e160 * (1 - np.eye(2))),
        lambda: ps.adapt_proba(P, [0.5, 0.5], [0.5, 0.5], strength=HUGE),
        lambda: ps.MAP(alpha=HUGE).fit(P, Y).estimate(P),
        lambda: ps.EM(max_iter=HUGE).fit(P, Y).estimate(P),
        lambda: ps.EM(tol=HUGE).fit(P, Y).estimate(P),
        lambda: ps.SCML().fit(P, Y).estimate(P, HUGE),
        lambda: ps.SCML().fit(P, Y).estimate(P, 0.9, n_resamples=HUGE),
        lambda: ps.Confusion.from_rates(
            sensitivity=0.9, specificity=0.9, n_positive=HUGE, n_negative=1
        ),
        lambda: ps.CML().fit(P, Y).estimate_counts([HUGE, 1]),
        lambda: ps.sample_indices(Y, [0.5, 0.5], HUGE),
        lambda: ps.labels_needed(width=HUGE),
        lambda: ps.labels_needed(width=1e-300),
        lambda: ps.TopK([[0]], [[0.5]], HUGE, rest="spread"),
        lambda: ps.get_estimator(HUGE),
    ],
)
def test_numbers_of_any_size_are_refused_in_words(call):
    with pytest.raises(ValueError, match=r"(must|no estimator).*;") as refused:
        call()
    assert len(str(refused.value)) < 500


LEVELS = {
    "estimate": lambda level: ps.EM().fit(P, Y).estimate(P, level),
    "Auto": lambda level: ps.Auto().fit(P, Y).estimate(P, level),
    "assess": lambda level: ps.assess(P, Y, P, confidence_level=level, random_state=0),
    "expected_accuracy": lambda level: ps.expected_accuracy(P, Y, P, confidence_level=level),
    "labels_needed": lambda level: ps.labels_needed(width=0.1, confidence_level=level),
    "detect_shift": lambda level: ps.detect_shift(P, Y, P, alpha=level),
    "check_assumption": lambda level: ps.check_assumption(P, Y, P, alpha=level),
    "PriorMonitor": lambda level: ps.PriorMonitor(alarm_level=level).fit(P, Y),
}


@pytest.mark.parametrize("surface", LEVELS)
def test_levels_too_near_to_0_or_1_are_refused_in_words(surface):
    for level in (5e-324, 1e-16, 1 - 2**-53):
        with pytest.raises(ValueError, match=r"must be above 0 and below 1, by at least 1e-09; go"):
            LEVELS[surface](level)


@pytest.mark.filterwarnings("ignore::priorshift.PriorShiftWarning")
@pytest.mark.parametrize("surface", list(LEVELS)[:5])
def test_levels_as_near_as_they_may_be_are_answered(surface):
    for level in (1e-9, 1 - 1e-9):
        LEVELS[surface](level)


# What importing costs


def run_python(code):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_importing_adds_nothing_heavy_to_scikit_learn_and_prints_nothing():
    heavy = ["matplotlib", "pandas", "polars", "pyarrow", "torch", "cvxpy", "click", "rich", "dask"]
    code = (
        "import sys, sklearn.base\n"
        "before = set(sys.modules)\n"  # recent versions of scikit-learn import pandas
        "import priorshift\n"
        "priorshift.datasets.load_fashion_lt, priorshift.plotting.PriorsDisplay\n"
        f"added = set({heavy}) & (set(sys.modules) - before)\n"
        "assert not added, added\n"
    )
    done = run_python(code)
    assert done.stdout == done.stderr == ""


def test_arrays_need_no_frame_library():
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['pandas', 'polars', 'pyarrow']))\n"
        "import numpy as np, priorshift as ps, sklearn.base\n"
        "sys.modules['narwhals'] = None\n"  # which recent versions of scikit-learn import
        "P = np.array([[0.8, 0.2], [0.3, 0.7]])\n"
        "print(ps.SCML().fit(P, [0, 1]).estimate(P).priors.round(3))\n"
    )
    assert run_python(code).stdout.strip() == "[0.5 0.5]"


def test_signatures_are_short_enough_to_read():
    """help(ps.decide) names types as the source does, not as NumPy spells them out."""
    shown = {}
    for name in ps.__all__:
        found = getattr(ps, name)
        made = {name: found} if inspect.isfunction(found) else {}
        if inspect.isclass(found):
            methods = inspect.getmembers(found, inspect.isfunction)
            made = {f"{name}.{key}": method for key, method in methods if key[0] != "_"}
        shown |= {key: str(inspect.signature(one)) for key, one in made.items()}
    assert "decide" in shown
    assert [key for key, said in shown.items() if "numpy._typing" in said or "dtype[" in said] == []

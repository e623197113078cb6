# The verbs of a checkout. Everything is installed by path: our names on the public index belong to another project.

PYTHON ?= python3
BIN := .venv/bin
DISTRIBUTIONS := sandboxio-core sandboxio-docker sandboxio-bubblewrap sandboxio-e2b sandboxio-contract
SOURCES := . $(DISTRIBUTIONS)
PYPROJECTS := pyproject.toml $(DISTRIBUTIONS:%=%/pyproject.toml)
ARGS ?=
# One more than the processors of a small machine: tests wait more than they compute.
JOBS ?= 3

.PHONY: venv engine engine-stop demo test lint format types clean

venv: .venv/stamp

.venv/stamp: $(PYPROJECTS) requirements/test.txt requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit("sandboxio needs Python 3.11 or newer: make venv PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check -r requirements/dev.txt $(SOURCES:%=--editable %)
	@touch $@

engine:
	$(PYTHON) -m engine start

engine-stop:
	$(PYTHON) -m engine stop

# Where no engine answers the demo says so, and shows bubblewrap://, which needs none.
demo: venv
	@if [ -z "$$SANDBOXIO_BACKEND" ] && $(PYTHON) -m engine answers 2>/dev/null; then $(PYTHON) -m engine start && \
	export SANDBOXIO_BACKEND=docker://sandboxio-test/python; fi; $(BIN)/sandboxio demo $(ARGS)

# Without an engine the Docker tests are reported as not run; SANDBOXIO_REQUIRE=docker makes that a failure.
test: venv
	-$(PYTHON) -m engine start
	$(BIN)/python -m pytest --numprocesses $(JOBS) --no-loadscope-reorder $(ARGS)

lint: venv
	$(BIN)/nox --session lint

format: venv
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

types: venv
	$(BIN)/nox --session types

clean:
	rm -rf .venv .nox .tox sandboxio-*/.tox dist sandboxio-*/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

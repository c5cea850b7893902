# The one front door for work: `make setup`, `make demo`, `make test`. CI runs the same words.
# Needs Python 3.11 or newer, git and make; all else is installed into .venv.

PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$name"; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
SEEDS ?= 2000
PYTEST_ARGS ?=
# One more than there are cores: what starts real processes waits for them most of the time.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)

.PHONY: setup demo test test-quick test-trainings check format bench yardsticks sim docs lock clean

setup: $(STAMP)

$(STAMP): requirements-dev.lock pyproject.toml
	@test -n "$(PYTHON)" || { \
		echo "error: no Python 3.11 or newer on the PATH" >&2; \
		echo "hint: install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			(apt-get update -qq || true) && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
		else \
			echo "error: $(PYTHON) cannot make virtual environments (ensurepip is missing)" >&2; \
			echo "hint: on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
		fi; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear $(VENV)
	@echo "installing the locked packages into $(VENV)"
	@$(PIP) install -qq --no-deps -r requirements-dev.lock
	@$(PIP) install -qq --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

demo: setup
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh

# Real servers, agents and clusters, side by side on a few cores. What fails fails the run, but for tests/flaky.py.
# Bytecode first: where Python may not write it, each of thousands of commands would compile all it reads.
test: setup check
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=25 $(PYTEST_ARGS) tests

# The daily loop: everything but what starts real servers, agents, clusters and trainings, and 200 simulated worlds.
QUICK_SEEDS := 200
NOT_QUICK := deploy examples guest real servers sim slurm ssh tidy trainings yardsticks
test-quick: setup
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not real and not long" \
		$(NOT_QUICK:%=--ignore=tests/%) $(PYTEST_ARGS) tests
	@$(BIN)/python -m headway.sim --seeds $(QUICK_SEEDS)

# Every habit and library with 20 notices and 20 losses each, where `make test` has a few; some hours.
# HEADWAY_TEST_ENDS=3,5 has fewer; HEADWAY_TEST_FIGURES names a file for `python -m tests.trainings.table`.
test-trainings: setup
	@$(BIN)/python -m compileall -q src
	HEADWAY_TEST_TRAININGS=full $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS) tests/trainings

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/tidy

format: setup
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

bench: setup
	@$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench

# Replays public job logs through the scheduler; some minutes. Writes docs/reference/yardsticks.md.
yardsticks: setup
	$(BIN)/python -m yardsticks

sim: setup
	$(BIN)/python -m headway.sim --seeds $(SEEDS)

docs: setup
	$(BIN)/python -m headway.cli.reference

# Resolves the ranges of pyproject.toml anew. Run it on the oldest Python that we support.
lock:
	@bash -euc 'fresh=$$(mktemp -d); trap "rm -rf $$fresh" EXIT; "$(PYTHON)" -m venv "$$fresh"; \
	relock() { \
		"$$fresh/bin/pip" install -qq "$$2" && "$$fresh/bin/pip" uninstall -qq -y headway && { \
			grep "^#" "$$1"; "$$fresh/bin/pip" freeze; } > "$$fresh/new" && cp "$$fresh/new" "$$1"; }; \
	relock requirements.lock .; relock requirements-dev.lock ".[test]"'

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

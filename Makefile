# Each target does all the set-up by itself, into .venv, from the package registry. Second runs start at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core-installed
DEV := $(VENV)/.dev-installed
WANTS := pyproject.toml constraints.txt
JOBS ?= 2

.PHONY: help demo test check bench format wheel clean

help:
	@echo "make demo     train static, round-robin, learned and complete acquirers on real data: table and figures"
	@echo "make test     run the tests, two files at a time (JOBS=2)"
	@echo "make check    format, lint, types, import layers"
	@echo "make bench    measure what acquisition costs; fails where a limit is missed"
	@echo "make format   put the code into its format"
	@echo "make wheel    build the wheel and try it in an empty environment"
	@echo "make clean    delete the environment and everything that was built"

demo: $(CORE)
	$(BIN)/whichwhen demo

test: $(DEV)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

check: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(CORE)
	$(BIN)/whichwhen bench --out benchmarks/results.json
	$(BIN)/python tools/bench_table.py

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(DEV)
	$(BIN)/python tools/try_wheel.py

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is `$(PYTHON) -V 2>&1`; expected Python 3.11 or newer; set PYTHON=python3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(CORE): $(BIN)/python $(WANTS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(DEV): $(BIN)/python $(WANTS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(CORE)

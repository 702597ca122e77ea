# Each target makes what it needs: `make demo` and `make test` work on a fresh clone.
VENV ?= .venv
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.10; do \
	$$python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' \
	2>/dev/null && echo $$python && break; done)
BIN := $(VENV)/bin
# Some versions of the host alone: make matrix VERSIONS="4.0.8 newest"; the newest on other
# Pythons: make matrix PYTHONS="3.10 3.13"
VERSIONS ?=
PYTHONS ?=
# Versions on which all tests run.
WHOLE ?=
MATRIX ?= .matrix
READY := $(VENV)/.ready

.PHONY: demo test matrix check fmt sabotage clean

demo: $(READY) ## the running-shoes story, in a terminal
	$(BIN)/python examples/demo.py

test: $(READY) ## all tests; a file stays on one worker
	$(BIN)/python -m pytest -n 3 --dist loadfile

matrix: ## the tests that depend on the host, on every version of Agently
	@test -n "$(PYTHON)" || { echo "no Python 3.10-3.13: make PYTHON=..." >&2; exit 1; }
	$(PYTHON) tests/matrix.py --folder $(MATRIX) $(if $(VERSIONS),--versions $(VERSIONS)) \
		$(if $(PYTHONS),--pythons $(PYTHONS)) $(if $(WHOLE),--whole $(WHOLE))

check: $(READY) ## everything that has to hold before a commit
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 3 --dist loadfile

fmt: $(READY) ## bring the code into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sabotage: $(READY) ## break the code on purpose, in copies: each time a named test has to fail
	$(BIN)/python tests/sabotage.py

clean:
	rm -rf .venv .ci-venv .matrix dist build .ruff_cache .pytest_cache .import_linter_cache

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.10-3.13: make PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

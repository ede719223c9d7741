# Every target sets up what it needs in .venv by itself; a second run is quick.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-outside test-elsewhere test-salts guard test-oldest test-pythons bench tables docs lint clean

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "geartrain needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of extras: $(VENV)/.test, $(VENV)/.lint, ... Python compiles what it imports;
# compiling all of it beforehand takes longer than the tests' own imports.
$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --quiet --no-compile --editable '.[$*]'
	@touch $@

demo: $(VENV)/.all
	$(BIN)/geartrain reproduce all --quick --out out/demo

# Two processes with one thread of BLAS each: more threads than cores wait for each other. In the
# order of the files the short ones come last, so that no process waits long for the other.
PYTEST_OPTIONS := -n 2 --dist loadfile --no-loadscope-reorder
test test-outside test-salts test-oldest guard: export OPENBLAS_NUM_THREADS ?= 1
test test-outside test-elsewhere test-salts test-oldest guard: export OMP_NUM_THREADS ?= 1

# The library in this process.
test: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_OPTIONS) -m 'not long and not outside'

# The rest: browsers, clusters and other programs; examples and benches in a small form.
test-outside: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_OPTIONS) -m 'not long and outside' tests

# The tests whose outcome may depend on rounding, with the kernels of other processors and a fixed
# salt each, which moves every counted answer by at most one unit in its last place.
ROUNDED := $(PYTEST_OPTIONS) -m 'not long and not outside and not same_everywhere'
test-elsewhere: $(VENV)/.test
	$(BIN)/python .ci/elsewhere.py $(ROUNDED)

# The same tests under 20 new salts, which are printed; SALTS=1234,5678 repeats these. By hand,
# before a release: 40 minutes.
test-salts: $(VENV)/.test
	SALTS=$(or $(SALTS),new) $(BIN)/python .ci/elsewhere.py $(ROUNDED)

# Figures of merit, which no test pins: medians over 20 new salts against limits far away.
guard: $(VENV)/.test
	$(BIN)/python benchmarks/guard.py

# The oldest versions that pyproject.toml allows. They may use what newer packages deprecate.
OLDEST := .venv-oldest
# Numba's cache has no lock: two processes that replace the files of another version of Numba may
# read each other's halves, so that this version has a directory of its own, empty at the start.
test-oldest: export NUMBA_CACHE_DIR = $(CURDIR)/$(OLDEST)/numba
test-oldest: $(OLDEST)/.test
	rm -rf $(OLDEST)/numba
	$(OLDEST)/bin/python -m pytest $(PYTEST_OPTIONS) -m 'not long' -W ignore::DeprecationWarning -W ignore::FutureWarning

$(OLDEST)/.test: pyproject.toml .ci/oldest.py
	$(PYTHON) -m venv --clear $(OLDEST)
	$(PYTHON) .ci/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --quiet --no-compile --constraint $(OLDEST)/constraints.txt --editable '.[test]'
	@touch $@

# Newer versions of Python, where there are any.
test-pythons:
	@for python in python3.12 python3.13; do \
		if $$python -c '' 2>/dev/null; then $(MAKE) test PYTHON=$$python VENV=.venv-$$python || exit 1; \
		else echo "no $$python here: left out"; fi; \
	done

bench: $(VENV)/.all
	$(BIN)/python -m geartrain_lab.laws separation --quick --out out/bench
	$(BIN)/geartrain bench kernels
	$(BIN)/geartrain bench frontier --quick --json out/bench/frontier.json

# The tables and pictures of the documentation; QUICK=1 for small ones.
tables: $(VENV)/.all $(VENV)/.test
	$(BIN)/python benchmarks/tables.py $(if $(QUICK),--quick)

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W -b html docs out/docs
	$(BIN)/python docs/check_links.py out/docs

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv .venv-* out
	find src -name '*.nb[ic]' -delete

# Every target sets up what it needs in .venv by itself; a second run is quick.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test bench tables docs lint clean

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

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal

bench: $(VENV)/.all
	$(BIN)/python benchmarks/separation_law.py --quick --out out/bench
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
	rm -rf $(VENV) out

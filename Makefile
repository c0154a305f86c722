# Two commands on a fresh machine with Python 3.11+ and make: `make run` and `make test`. Both set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test check docs pictures bench clean

run: $(VENV)/.installed
	@$(BIN)/python lab.py app

test: $(VENV)/.installed-dev $(VENV)/.browser
	$(BIN)/python -m pytest

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.installed
	$(BIN)/python -m store.schema > docs/schema.md

pictures: $(VENV)/.installed-dev $(VENV)/.browser
	$(BIN)/python docs/make_pictures.py

bench: $(VENV)/.installed
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "PhaseLab needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.txt | $(BIN)/python
	@echo "installing what the lab needs (torch alone is some GB: this takes minutes, once)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(VENV)/.browser: | $(BIN)/python
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
		{ echo "installing Chromium for the tests"; apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || \
		{ echo "the tests need Chromium: install the package 'chromium' as root, then run make test again"; exit 1; }
	@touch $@

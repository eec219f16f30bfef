# Every target sets itself up in .venv: made on first use, rebuilt when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Tests and benchmarks start hundreds of processes: without compiled modules each begins by compiling the project.
export PYTHONDONTWRITEBYTECODE :=

# One more than the cores this is made for: some tests wait for processes, sockets and disks.
WORKERS := -n 3 --dist worksteal

.PHONY: report picture test sweep check ledger speed figures fast-figures docs clean

report: $(READY)  ## the main job: the comparative benchmark, ending in a report
	$(BIN)/camcast bench run quick --report

CHROMIUM ?= chromium
picture:  ## the README's picture: the first screen of the report that `make report` has made
	$(CHROMIUM) --headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --hide-scrollbars \
		--window-size=1400,1100 --screenshot=docs/report.png file://$(CURDIR)/bench-results/report.html

test: $(READY)  ## the default suite
	$(BIN)/python -m pytest $(WORKERS) -m "not sweep"

sweep: $(READY)  ## longer runs over many seeds
	$(BIN)/python -m pytest $(WORKERS) -m sweep

check: $(READY)  ## lint, format and types; the import direction is a test of the suite
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

SEEDS ?= 50
ledger: $(READY)  ## schedules of faults against every promise, by the hundred; keeps docs/ledger.md
	$(BIN)/python -m tests.promises --seeds $(SEEDS) --write docs/ledger.md

speed: $(READY)  ## every other benchmark in a quick size: fan-out, durable delivery, layers...
	$(BIN)/camcast bench run speed

MEASURED := bench-results/figures
FAN := $(BIN)/camcast bench fanout --out $(MEASURED)
figures: $(READY)  ## remake every figure of README and docs: about 80 minutes, on a machine with nothing else to do
	rm -rf $(MEASURED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,compare]'
	$(MAKE) fast-figures
	-$(FAN) --dissemination eager --subscribers 4
	-$(FAN) --sealed no yes --signed yes --subscribers 4
	-$(FAN) --peers nats --datagram-size 1400 --sealed no yes --subscribers 4 --runs 5
	-$(FAN) --peers zenoh zmq nats --subscribers 1
	-$(FAN) --stop-one --runs 5
	-$(FAN) --stop-one --stop-rate 5000 --runs 5
	for name in durable distributors topics broadcasts collections mqtt stores layers simulator harness sources; do \
		$(BIN)/camcast bench $$name --out $(MEASURED); done
	$(BIN)/camcast bench emulator --nodes 118 300 --out $(MEASURED)
	$(BIN)/camcast bench emulator --nodes 118 --modes unstructured semi-structured structured hyparview --stages heal --out $(MEASURED)
	$(BIN)/camcast bench quote --take $(MEASURED)

# The fan-out's main figures, medians of five: about a quarter of an hour.
fast-figures: $(READY)
	-$(FAN) --peers zenoh zmq nats --sealed no yes --subscribers 4 --runs 5
	-$(FAN) --peers zenoh --plain no --sealed no yes --subscribers 16 --runs 5
	-$(FAN) --peers zenoh --plain no --bytes 16 4096 --subscribers 4 --runs 5
	-$(FAN) --loss --runs 5

docs: $(READY)  ## the documentation as a site, build/site/index.html
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/mkdocs build --quiet --strict

clean:
	rm -rf .venv build *.egg-info

$(READY): pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -c 'from bench.simulate import compile_kernels; compile_kernels()'
	touch $@

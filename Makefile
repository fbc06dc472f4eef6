# Two commands do everything: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_VENV := .venv-bench
BENCH_READY := $(BENCH_VENV)/.ready
# Some tests wait: on two cores a third worker has something to do meanwhile.
WORKERS ?= 3

.PHONY: demo test test-loaded seeds check bench soak soak-replicas mqtt-conformance mqtt-broker-dies mqtt-browser format lock fast test-fast wheel wheels sbom release-check site clean

# Eight brokers and five clients, each a process; after five seconds one of the brokers is killed. What happened is then
# archived, judged, measured and drawn on Spark. The rate is that of the experiment: 50 ms, .4/.3/.3.
demo: $(READY)
	@$(BIN)/resprout run crash-b1 --trace out/demo --set workload.0.operations=300
	@$(BIN)/resprout conclude out/demo --archive out/archive --out out/demo.html
	@echo "next: $(BIN)/python examples/bank_on_spark.py, where Spark computes the balances of a bank while brokers are killed"

# Three parts side by side (tests/turns.py distributes the tests of each). Those in virtual time only compute: they run at a low
# priority, because processes that have to answer in time would starve beside them, and end last, with every core to themselves.
# All tests that share the Spark session run one after the other, and Python workers of Spark must start within 10 s, so that
# part has the normal priority. In the rest processes mostly wait for each other, so it has twice the workers. The output of the
# first two parts follows that of the rest.
# Tests start many hundred processes. Without bytecode each would compile everything anew, so it is kept, whatever the
# environment says.
IN_VIRTUAL_TIME := tests/sim tests/stacks
WITH_SPARK := tests/pipeline tests/spark
test: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)
	@mkdir -p build
	@nice -n 5 $(BIN)/pytest -n $(WORKERS) -q $(IN_VIRTUAL_TIME) > build/virtual-time.log 2>&1 & virtual=$$!; \
	$(BIN)/pytest -n 2 -q $(WITH_SPARK) > build/spark.log 2>&1 & spark=$$!; \
	trap 'kill $$virtual $$spark' INT TERM; \
	$(BIN)/pytest -n $(shell expr $(WORKERS) \* 2) -q $(addprefix --ignore=,$(IN_VIRTUAL_TIME) $(WITH_SPARK)); status=$$?; \
	wait $$spark || status=1; \
	wait $$virtual || status=1; \
	cat build/spark.log build/virtual-time.log; \
	exit $$status

# The same beside twenty busy processes (LOAD=40 for more): no test may depend on the speed of the machine.
test-loaded: $(READY)
	$(BIN)/python -m tools.loaded --busy $${LOAD:-20} --minutes 90 $(MAKE) test

# Drawn scenarios of each stack that comes with this package, with the faults that it survives, judged. A part of CI, beside
# the few that are among the tests.
seeds: $(READY)
	@for stack in $$($(BIN)/python -c 'from resprout_lab import SYSTEMS; print("resprout", *SYSTEMS)'); do \
	  echo "the stack $$stack"; \
	  $(BIN)/resprout swarm --stack $$stack --seeds $${SEEDS:-40} --first $${FIRST:-1} --workers $(WORKERS) || exit 1; \
	done

check: $(READY)
	$(BIN)/ruff format --check src tests benchmarks tools setup.py
	$(BIN)/ruff check src tests benchmarks tools setup.py
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.docs
	$(BIN)/python -m tools.compiled
	@$(MAKE) --no-print-directory site

# The same sources with the pure half compiled, in a tree of its own: the checkout stays as it is. Some minutes of processor
# time the first time; later only what depends on what has changed. `PYTHONPATH=build/fast .venv/bin/resprout ...` runs it.
FAST := build/fast
fast: $(READY)
	@rm -rf $(FAST)
	@RESPROUT_COMPILED=1 $(BIN)/python setup.py -q build --build-base build/compiling --build-lib $(FAST)
	@PYTHONPATH=$(FAST) $(BIN)/python -m tools.show_compiled

# The documentation as a site, in build/site; any warning is an error. It needs no network.
site: $(READY)
	@$(BIN)/sphinx-build -W --keep-going --quiet -b html docs build/site

# What is compiled, tested as it is in `make test`, but for tests that reach into it (tests/compiled.py).
test-fast: fast
	PYTHONPATH=$(FAST):. $(BIN)/pytest -n $(WORKERS) -q tests/core tests/wire tests/filters tests/links tests/order tests/spread \
	  tests/overlay tests/replicas tests/edge tests/stacks tests/sim tests/net tests/client

# The wheel that runs anywhere, installed with each extra in a fresh environment of each Python on this machine.
release-check: $(READY)
	@rm -rf dist && $(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .
	$(BIN)/python -m tools.release_check dist/resprout-*-py3-none-any.whl

# A wheel of the compiled form, for this machine and Python; without the variable pip makes the one that runs anywhere.
wheel: $(READY)
	RESPROUT_COMPILED=1 $(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .

# Both wheels of a release in dist: the one that runs anywhere, and the compiled one for this machine and Python, which pip
# prefers because its tag is more specific.
wheels: $(READY)
	@rm -rf dist && $(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .
	@$(MAKE) --no-print-directory wheel

# A bill of materials (CycloneDX) of the package with all extras, from the locked environment. The tool lives apart from it.
SBOM_VENV := .venv-sbom
sbom: $(READY)
	@test -x $(SBOM_VENV)/bin/cyclonedx-py || { $(PYTHON) -m venv $(SBOM_VENV) && $(SBOM_VENV)/bin/pip install --quiet cyclonedx-bom; }
	@mkdir -p dist && $(SBOM_VENV)/bin/cyclonedx-py requirements requirements/dev.lock --pyproject pyproject.toml \
	  --output-reproducible --of JSON -o dist/resprout.cdx.json

# What the network is compared with lives in an environment of its own; QUICK=1 is a first look, NAMES="net sim" a choice.
bench: $(READY) $(BENCH_READY)
	$(BIN)/python -m benchmarks $(NAMES) $(if $(QUICK),--quick)

# Scenarios by chance, judged: many of the default stack, and of each with what it survives. Then overlays of a thousand
# members of which three in ten fail at once, floods of connections, liars that say ten million fuzzed messages (about
# 100 minutes of processor time; FUZZED=100000 for fewer), and the tests that try a few arbitrary cases of many
# (tests/soak.py), with all: among them 20 rounds of each failure of a log's replicas (alone: python -m tests.logs.rounds).
soak: $(READY)
	$(BIN)/resprout swarm --seeds $${SEEDS:-2000} --first $${FIRST:-1} --workers $(WORKERS)
	SEEDS=$${STACK_SEEDS:-500} $(MAKE) seeds
	$(BIN)/python -m tests.overlay --seeds $${OVERLAYS:-20} --first $${FIRST:-1}
	$(BIN)/python -m tests.net.floods
	$(BIN)/python -m tests.fuzz --messages $${FUZZED:-10000000} --seed $${FIRST:-1} --workers $(WORKERS) --tcp 20000 --mqtt 200000
	RESPROUT_SOAK=1 RESPROUT_EXEC=1 $(BIN)/pytest -n $(WORKERS) -q --timeout 1200 $$(grep -rl --include='test_*.py' 'tests.soak' tests)

# Eclipse Paho's suite for MQTT, from a copy of the public repository paho.mqtt.testing (PAHO=folder), against one broker and
# against two, with publisher and subscriber apart.
mqtt-conformance: $(READY)
	@test -n "$(PAHO)" || { echo "say where paho.mqtt.testing is: make mqtt-conformance PAHO=folder" >&2; exit 2; }
	$(BIN)/python -m tools.mqtt_conformance $(PAHO)
	$(BIN)/python -m tools.mqtt_conformance --brokers 2 $(PAHO)

# Sessions of paho-mqtt clients whose broker is killed in mid-flight: messages lost and duplicated, for each QoS.
mqtt-broker-dies: $(READY)
	$(BIN)/python -m tools.mqtt_broker_dies --rounds $${ROUNDS:-20}

# The page with MQTT.js in headless Chromium; npm installs MQTT.js below out/.
mqtt-browser: $(READY)
	npm install --silent --prefix out/mqttjs mqtt@5
	MQTTJS=out/mqttjs/node_modules $(BIN)/pytest -n 0 -q -rs tests/mqtt/test_browser.py

# The replicated log alone, over a network that loses, doubles and reorders, with crashes and restarts.
soak-replicas: $(READY)
	$(BIN)/python -m tests.replicas --seeds $${SEEDS:-5000} --first $${FIRST:-1}

format: $(READY)
	$(BIN)/ruff format src tests benchmarks tools setup.py
	$(BIN)/ruff check --fix src tests benchmarks tools setup.py

# The environment is made again when the lock, the project file or this file changes.
$(READY): requirements/dev.lock pyproject.toml Makefile
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (PYTHON=... make)" >&2; exit 2; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# The benchmarks leave out whom they cannot run, so an environment that cannot be made stops nothing.
$(BENCH_READY): requirements/bench.lock Makefile
	@test -x $(BENCH_VENV)/bin/python || $(PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.lock \
	  && touch $@ || { echo "bench: $(BENCH_VENV) could not be set up; others are left out" >&2; rm -rf $(BENCH_VENV); }

# Dependencies are pinned with hashes and without the name of any package host. UPGRADE= keeps the versions that are there.
UPGRADE ?= --upgrade
COMPILE = $(BIN)/pip-compile --quiet --allow-unsafe --generate-hashes --strip-extras --no-emit-index-url \
  --no-emit-find-links --no-emit-trusted-host --no-header $(UPGRADE)
lock: $(READY)
	$(BIN)/python -m pip install --quiet pip-tools
	$(COMPILE) --output-file requirements/dev.lock --extra all pyproject.toml requirements/dev.in
	$(COMPILE) --output-file requirements/container.lock --extra metrics pyproject.toml requirements/container.in
	$(COMPILE) --output-file requirements/bench.lock requirements/bench.in

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(SBOM_VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis

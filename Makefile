# Every target prepares what it needs (.venv from the lock, jars from the jar lock) and says how long it took.
# A path with a space works: only relative paths here.
PYTHON ?= python3
VENV   := .venv/bin/python
SETUP  := @$(PYTHON) -m include.local_stack.prepare
STACK  := $(VENV) -m include.local_stack
# Looking and stopping use the .venv that the stack runs from, and never make another one.
EXISTING := @test -x $(VENV) || { echo "There is no stack yet: run make up."; exit 1; }
export PYTHONUNBUFFERED := 1

.DEFAULT_GOAL := help
.PHONY: help plan journal bench bench-reconcile bench-postgres bench-kafka bench-fan-out bench-merge bench-state bench-small-files histories stateful-histories payments crash-matrix bench-recovery orders run up down status logs clean demo test thorough lint format lock jar-lock compose-env streams check editor-schemas screenshots

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: ## start PostgreSQL, Kafka and Airflow on loopback; prints the address and where the password lies
	$(SETUP)
	@$(STACK) up --port "airflow=$(AIRFLOW_PORT)" --port "kafka=$(KAFKA_PORT)" --port "postgres=$(POSTGRES_PORT)"

down: ## stop them in order, keep the data
	$(EXISTING)
	@$(STACK) down

status: ## tables of parts and streams; exit code 0 only if all parts are healthy, supervision looks, no incident is open
	$(EXISTING)
	@$(STACK) status

logs: ## the log of one part: make logs PART=kafka [LINES=50]
	$(EXISTING)
	@$(STACK) logs "$(PART)" --lines $(or $(LINES),50)

clean: ## ask, then remove var/ with all its data
	$(EXISTING)
	@$(STACK) clean

streams: ## every stream with what it promises, and why
	$(SETUP) --only-venv
	@$(VENV) -m include.contract streams

check: ## validate all stream and schema files; STREAM=x shows ten of its records as the file reads them
	$(SETUP) --only-venv
	@$(VENV) -m include.contract check
	@$(if $(STREAM),$(STACK) module jobs.sample_stream "$(STREAM)")

orders: ## send orders for orders_raw to read: make orders [RECORDS=100000]
	$(EXISTING)
	@$(STACK) orders --records $(or $(RECORDS),100000)

payments: ## send payments for payment_totals to read: make payments [RECORDS=100000]
	$(EXISTING)
	@$(STACK) payments --records $(or $(RECORDS),100000)

stateful-histories: ## a hundred random histories of a stateful stream, each with a crash and the loss of its state: [HISTORIES=100]
	$(SETUP) --dev
	@TIDEMARK_HISTORIES=$(or $(HISTORIES),100) $(VENV) -m pytest -n 3 --dist worksteal --timeout=3600 tests/integration/stateful/test_random_histories.py

run: ## one stream's driver in the foreground, without Airflow: make run STREAM=x [ONCE=1] [APPROVE=...] [ACCEPT=...] [TOPIC_ID=...] [STATE=continue|restore|warm_up] [FORGET=...]
	$(SETUP)
	@$(STACK) module jobs.run_stream "$(STREAM)" $(if $(ONCE),--once) $(foreach loss,$(APPROVE),--approve-loss $(loss)) $(foreach change,$(ACCEPT),--accept $(change)) $(if $(TOPIC_ID),--accept-topic=$(TOPIC_ID)) $(if $(STATE),--state=$(STATE)) $(if $(FORGET),--forget-through=$(FORGET))

plan: ## what a start of a stream would do, per partition: make plan STREAM=x [STATE=continue|restore|warm_up]
	$(EXISTING)
	@$(STACK) module include.supervision plan "$(STREAM)" $(if $(STATE),--state=$(STATE))

journal: ## what was done to a stream, by whom and why: make journal STREAM=x [LINES=50]
	$(EXISTING)
	@$(STACK) module include.supervision journal "$(STREAM)" --lines $(or $(LINES),50)

editor-schemas: ## write the JSON schemas by which editors complete and check stream files
	$(SETUP) --only-venv
	@$(VENV) -m include.contract editor-schemas

demo: ## exactly-once as a story, on a stack of its own in var/demo: [SABOTAGE=delete_row | duplicate_row | skip_range]
	$(SETUP)
	@$(STACK) demo $(if $(SABOTAGE),--sabotage $(SABOTAGE))

test: ## the guarantees, on real parts, beside a running stack; some of it: make test ARGS="tests/unit -k java"
	$(SETUP) --dev
	@$(VENV) -m pytest $(or $(ARGS),-n 3 --no-loadscope-reorder)

thorough: ## all tests: also on every other part, kind and boundary, and those that show that a test would fail
	$(SETUP) --dev
	@$(VENV) -m pytest -n 3 --no-loadscope-reorder --thorough

screenshots: ## docs/screenshots, of a stack of its own in var/screenshots; needs Chromium: [CHROMIUM=/usr/bin/chromium]
	$(SETUP) --browser
	@CHROMIUM="$(CHROMIUM)" $(VENV) -m tests.browser.screenshots

bench: ## our driver against the plain Delta stream, alternating in one run; a stack of its own in var/bench
	$(SETUP)
	@$(VENV) -m bench.delta_append

bench-reconcile: ## a window over a short and a ten times longer history, in one run; a stack of its own in var/bench
	$(SETUP)
	@$(VENV) -m bench.reconcile

bench-postgres: ## a batch into PostgreSQL against the usual ways, alternating in one run; a stack of its own in var/bench
	$(SETUP)
	@$(VENV) -m bench.postgres_sink

bench-kafka: ## a topic into a topic against Spark's own Kafka sink, alternating in one run; a stack of its own in var/bench
	$(SETUP)
	@$(VENV) -m bench.kafka_sink

bench-fan-out: ## one stream with two sinks against two streams, alternating in one run; a stack of its own in var/bench
	$(SETUP)
	@$(VENV) -m bench.fan_out

bench-merge: ## a batch into a merge table over a history of one day and of twenty; a stack of its own in var/bench
	$(SETUP)
	@$(VENV) -m bench.merge

bench-state: ## five million keys in dedupe's state: memory, cost of a batch, a start that continues it or makes it again: [KEYS=5000000]
	$(SETUP)
	@KEYS=$(KEYS) $(VENV) -m bench.state

bench-small-files: ## an hour of small batches, before and after maintenance: [BATCHES=720]
	$(SETUP)
	@BATCHES=$(BATCHES) $(VENV) -m bench.small_files

histories: ## two hundred random histories of a merge table, each with restarts: [HISTORIES=200]
	$(SETUP) --dev
	@TIDEMARK_HISTORIES=$(or $(HISTORIES),200) $(VENV) -m pytest --timeout=3600 tests/integration/merge/test_random_histories.py

crash-matrix: ## every kind of sink killed at every boundary, started again in every way; writes docs/crash_matrix.md
	$(SETUP) --dev
	@TIDEMARK_MATRIX=all $(VENV) -m pytest tests/crash/test_postgres_matrix.py tests/crash/test_lake_matrix.py tests/crash/test_kafka_matrix.py tests/crash/test_kafka_zombies.py

bench-recovery: ## how fast a killed driver is noticed and followed: on a stack that is up, kills its drivers of orders_raw
	$(EXISTING)
	@$(VENV) -m bench.recovery

lint: ## ruff, mypy, import-linter
	$(SETUP) --dev --only-venv
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@$(VENV) -c 'from importlinter.cli import lint_imports_command as c; c()'

format: ## rewrite the code in the one format
	$(SETUP) --dev --only-venv
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

lock: ## requirements*.in -> requirements*.txt (exact pins with hashes)
	$(SETUP) --only-venv
	@for lock in requirements requirements-dev requirements-browser; do \
	  $(VENV) -m uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --custom-compile-command "make lock" $$lock.in -o $$lock.txt || exit 1; \
	done

jar-lock: ## fetch every jar anew and write its SHA-256 into config/jars.lock
	$(SETUP) --only-venv
	@$(VENV) -m include.local_stack.relock_jars

compose-env: ## write .env with generated passwords for docker-compose.yaml
	@$(PYTHON) -m include.local_stack.compose_env

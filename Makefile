# make help lists what there is. Every target does the set-up it needs, and is quick when that is done.
PYTHON ?= python3
export PYTHON

BIN := .venv/bin
# A venv's scripts hold its path; the interpreter does not.
PY := $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help setup venv broker browser demo up down doctor test test-faults soak check format

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: venv broker ## .venv from requirements.lock, RabbitMQ from the distribution unless AMQP_URL is set

venv:
	@devstack/setup.sh venv

broker:
	@devstack/setup.sh broker

browser: ## Chromium from the distribution, for the browser driver and its tests
	@devstack/setup.sh browser

demo: setup ## a scheduled batch that gives way to a collect-now, on the embedded stack (ANSWERS=path for real answers)
	@$(BIN)/giveway demo $(if $(ANSWERS),--answers "$(ANSWERS)")

up: setup ## start the stack, the API and the worker in the background
	@$(BIN)/giveway up

down: ## stop them
	@if [ -x $(BIN)/giveway ]; then $(BIN)/giveway down; else echo "The stack is not running."; fi

doctor: venv ## what is missing on this machine, and what to do
	@$(BIN)/giveway doctor

test: setup browser ## every test on the real stack, several at once (ARGS="-k lease" passes arguments to pytest, WORKERS=0: one at a time)
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n $(or $(WORKERS),auto) --dist loadgroup --max-worker-restart 0 $(ARGS)

test-faults: setup ## outages that last: memory alarm, blackholes, full disk; half an hour at most (FAULT_SEED repeats the chances)
	@$(PY) -m pytest -m long_fault tests/faults $(ARGS)

soak: setup ## random days on the database for SOAK_HOURS (1), the first by SEED, WALKERS (1) at once; stops at a broken invariant
	@$(PY) -m tests.model.soak --hours $(or $(SOAK_HOURS),1) $(if $(SEED),--seed $(SEED)) --walkers $(or $(WALKERS),1)

check: venv ## format, lint, types, import directions, migrations
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy
	@$(BIN)/lint-imports
	@if ls migrations/*.sql >/dev/null 2>&1; then $(BIN)/squawk migrations/*.sql; fi

format: venv ## format and fix what can be fixed
	@$(PY) -m ruff check --fix
	@$(PY) -m ruff format

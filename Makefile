# Everything here sets itself up in .venv: Python 3.11 or newer and make are all it needs.
# Set-up runs again only when a lock or pyproject.toml has changed.

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
ENVIRONMENT := $(VENV)/.environment-is-current
DOCS_ENVIRONMENT := $(VENV)/.docs-environment-is-current
FRAMEWORKS := .venv-frameworks
FRAMEWORKS_ENVIRONMENT := $(FRAMEWORKS)/.environment-is-current
LITELLM := .venv-litellm
LITELLM_ENVIRONMENT := $(LITELLM)/.environment-is-current

# The first interpreter that runs and is new enough; looked for only when .venv is made.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

# Pyright is as locked: it has no business asking whether there is a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

# More arguments for pytest: make test ARGS="tests/unit -k plan"
ARGS ?=

.PHONY: help
help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name what; do \
		printf '  make %-13s %s\n' "$$name" "$$what"; done

.PHONY: demo
demo: $(ENVIRONMENT) ## Replay a long conversation and show what is remembered of it
	@$(BIN)/onlooker demo

# One process more than there are cores, since tests wait for disks and servers, and at most four. Whoever is done
# takes over what others have left.
PYTEST = $(BIN)/python -m pytest
TOGETHER = --numprocesses=$$($(BIN)/python -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))') --dist=worksteal

.PHONY: test
test: $(ENVIRONMENT) ## Run the tests that every change needs
	$(PYTEST) $(TOGETHER) -m "not long and not browser" $(ARGS)

# The tests of `make test` among them, with more examples for each property.
.PHONY: test-all
test-all: export ONLOOKER_HYPOTHESIS ?= many
test-all: test chaos ## Run every test: also mutations, the benchmarks' own, and chaos
	$(PYTEST) $(TOGETHER) -m "long and not alone and not agents" $(ARGS)

.PHONY: attacks
attacks: $(ENVIRONMENT) ## Attack it: hostile texts, poisoning, secrets, strangers, forgetting, addresses
	$(PYTEST) $(TOGETHER) tests/attacks $(ARGS)

# For how long each store is tormented: make chaos CHAOS_SECONDS=600
CHAOS_SECONDS ?= 180

.PHONY: chaos
chaos: export ONLOOKER_CHAOS_SECONDS := $(CHAOS_SECONDS)
chaos: $(ENVIRONMENT) ## Kill and stop workers and writers for three minutes, on SQLite and on PostgreSQL
	$(PYTEST) -s -m alone

# Claude Code, Codex and OpenAI's SDK for Node, each against a local provider: nothing leaves this machine.
AGENTS = build/agents

.PHONY: test-agents
test-agents: export ONLOOKER_AGENTS = $(CURDIR)/$(AGENTS)
test-agents: $(ENVIRONMENT) ## Install coding agents from npm, and let them work through the chat proxy and with hooks
	@mkdir -p $(AGENTS)
	npm install --prefix $(AGENTS) --no-audit --no-fund @anthropic-ai/claude-code@2.1 @openai/codex@0.166 openai@7
	$(PYTEST) -m agents tests/server/test_agents.py $(ARGS)

.PHONY: test-browser
test-browser: $(ENVIRONMENT) ## Drive the inspector in a real browser
	tools/install-browser
	$(PYTEST) -m browser tests/inspector $(ARGS)

# Only the plugins that are named: a framework's test tools bring a dozen. A warning of a framework's own is not
# our error. MCP is there as well: with all the extras together, its SDK is the oldest that we take.
FRAMEWORK_PYTEST = $(FRAMEWORKS)/bin/python -m pytest -p anyio.pytest_plugin -p xdist.plugin \
	-p _hypothesis_pytestplugin -o filterwarnings="error:::onlooker"

.PHONY: test-frameworks
test-frameworks: export ONLOOKER_FRAMEWORKS = 1
test-frameworks: export ONLOOKER_LITELLM = $(CURDIR)/$(LITELLM)/bin
test-frameworks: export PYTEST_DISABLE_PLUGIN_AUTOLOAD = 1
test-frameworks: $(FRAMEWORKS_ENVIRONMENT) $(LITELLM_ENVIRONMENT) ## Check and test the integrations with the real agent frameworks
	$(BIN)/pyright --project pyright-frameworks.json
	$(FRAMEWORK_PYTEST) $(TOGETHER) tests/integrations tests/server/test_mcp.py $(ARGS)

.PHONY: coverage
coverage: $(ENVIRONMENT) ## Say which branches the tests of `make test` reach
	$(BIN)/coverage erase
	$(PYTEST) --cov --cov-report= $(TOGETHER) -m "not long and not browser" $(ARGS)
	$(BIN)/coverage report --skip-covered --skip-empty

# Side by side: the types take longer than all the others together.
.PHONY: check check-types check-others
check: $(ENVIRONMENT) ## Lint, formatting, types, import layers, requirement table
	@$(MAKE) --no-print-directory --jobs=2 check-types check-others

check-types:
	$(BIN)/pyright

check-others:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python tools/requirements.py --quiet

.PHONY: format
format: $(ENVIRONMENT) ## Format the code and mend what lint can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: stubs
stubs: $(ENVIRONMENT) ## Write the types of onlooker.blocking from the async classes
	$(BIN)/python tools/blocking_stubs.py

.PHONY: requirements
requirements: $(ENVIRONMENT) ## Print which tests prove which requirement
	@$(BIN)/python tools/requirements.py

.PHONY: speed
speed: $(ENVIRONMENT) ## Check that a turn, a note and an import cost no more than they did
	$(BIN)/python bench/overhead.py --check

.PHONY: bench
bench: $(ENVIRONMENT) $(FRAMEWORKS_ENVIRONMENT) ## Run every benchmark
	@for bench in bench/[!_]*.py; do echo "== $$bench"; \
		case $$bench in */beside_langchain.py) python=$(FRAMEWORKS);; *) python=$(VENV);; esac; \
		$$python/bin/python "$$bench"; done

.PHONY: docs
docs: $(DOCS_ENVIRONMENT) ## Build the documentation into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

.PHONY: wheel
wheel: $(ENVIRONMENT) ## Build the wheel, install it into an empty environment, and use it there
	@tools/try-wheel

.PHONY: serve
serve: $(ENVIRONMENT) ## Run the server; ARGS="--port 9000" for options
	@exec $(BIN)/onlooker serve $(ARGS)

# The locks are requirement files with hashes rather than a uv.lock: they hold for every platform and
# Python, and install from whatever package index the machine is set up for.
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url --no-annotate $(UPGRADE)

.PHONY: lock
lock: $(ENVIRONMENT) ## Remake the locks; UPGRADE=--upgrade for newer versions
	$(COMPILE) requirements/bootstrap.in --output-file requirements/bootstrap.lock
	$(COMPILE) pyproject.toml --extra tiktoken --group dev --output-file requirements/dev.lock
	$(COMPILE) pyproject.toml --all-extras --group frameworks --output-file requirements/frameworks.lock
	$(COMPILE) --group litellm --output-file requirements/litellm.lock
	$(COMPILE) pyproject.toml --group docs --constraint requirements/dev.lock --output-file requirements/docs.lock

.PHONY: clean
clean: ## Remove what was built; .venv stays
	rm -rf build dist docs/_build htmlcov .bench .coverage .coverage.* .hypothesis .ruff_cache .import_linter_cache
	find src tests bench tools docs examples -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------------------------- environment

$(UV): requirements/bootstrap.lock
	@test -n "$(PYTHON)" || { echo "Onlooker needs Python 3.11 or newer, and found none." >&2; exit 2; }
	@echo "Setting up $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

$(ENVIRONMENT): requirements/dev.lock pyproject.toml $(UV)
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(FRAMEWORKS_ENVIRONMENT): requirements/frameworks.lock $(ENVIRONMENT)
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python $(FRAMEWORKS)
	@$(UV) pip sync --quiet --python $(FRAMEWORKS)/bin/python --require-hashes requirements/frameworks.lock
	@$(UV) pip install --quiet --python $(FRAMEWORKS)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

# Without the project, which the recipe's test puts on its path: it needs nothing but the standard library.
$(LITELLM_ENVIRONMENT): requirements/litellm.lock $(ENVIRONMENT)
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python $(LITELLM)
	@$(UV) pip sync --quiet --python $(LITELLM)/bin/python --require-hashes requirements/litellm.lock
	@touch $@

$(DOCS_ENVIRONMENT): requirements/docs.lock $(ENVIRONMENT)
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements/docs.lock
	@touch $@

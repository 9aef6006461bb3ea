# What a person types. `make` alone lists it.
VENV := .venv
PYTHON := $(VENV)/bin/python
# Written last: without it the installation was interrupted.
STAMP := $(VENV)/.complete
USABLE := import sys, pip; sys.exit(sys.version_info < (3, 11))

.DEFAULT_GOAL := help
.PHONY: help setup install demo rehearse smoke test check screens bench clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## prepare everything: .venv, pinned requirements, the servers' programs
	@$(PYTHON) -c '$(USABLE)' 2>/dev/null \
	    && ! find requirements.txt requirements-dev.txt constraints.txt -newer $(STAMP) 2>&1 | grep -q . \
	    || $(MAKE) --no-print-directory install

install:
	@$(PYTHON) -c '$(USABLE)' 2>/dev/null || { \
	    for name in python3 python3.14 python3.13 python3.12 python3.11 ''; do \
	        $${name:-true} -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	    done; \
	    [ "$$name" ] || { echo 'No Python 3.11 or newer on the PATH: install one.' >&2; exit 1; }; \
	    rm -rf $(VENV); \
	    $$name -m venv $(VENV) || { \
	        echo "$$name cannot make $(VENV): install its venv module (python3-venv)." >&2; exit 1; }; \
	}
	@rm -f $(STAMP)
	@$(PYTHON) -m pip install --disable-pip-version-check -r requirements-dev.txt
	@[ "$$KAFKA_HOME$$KAFKA_BROKERS" ] || $(PYTHON) -m devstack.jars
	@touch $(STAMP)

demo: setup ## run the whole stack and some jobs; EXIT=1 ends it after the jobs
	@exec $(PYTHON) manage.py devstack --demo $(if $(EXIT),--exit)

test: setup ## run the tests on real servers; ARGS='-k cron' goes to pytest
	@$(PYTHON) -m tools.debian chromium prometheus promtool
	@$(PYTHON) -m tools.kustomize
	@exec $(PYTHON) -m pytest $(ARGS)

check: setup ## linters, types, import rules, Django's checks
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) $(VENV)/bin/lint-imports
	$(PYTHON) manage.py check
	$(PYTHON) manage.py makemigrations --check --dry-run --settings tests.offline_settings

rehearse: setup ## build the image without Docker and run every role from it (root, Debian)
	@exec deploy/rehearse_image.sh $(ARGS)

smoke: setup ## deliver by HTTP and Kafka through a running stack (make demo), and print a table
	@exec $(PYTHON) manage.py smoke $(ARGS)

screens: setup ## take the screenshots in docs/screens
	@$(PYTHON) -m tools.debian chromium
	@exec $(PYTHON) -m tools.screens $(ARGS)

bench: setup ## measure on a stack of its own; ARGS='--runs 1' goes to manage.py bench
	@exec $(PYTHON) manage.py bench $(ARGS)

clean: ## remove .venv, the development servers' data and all caches
	rm -rf $(VENV) .devstack .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Two commands do everything on a fresh machine with Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP_IN := python -m pip --disable-pip-version-check install --quiet -c constraints.txt
PIP    := $(BIN)/$(PIP_IN)
INPUTS := pyproject.toml setup.py constraints.txt
export HF_HUB_OFFLINE = 1
FUZZ   ?= tests

.PHONY: help demo test fuzz pages check sample-logs truth conformance bench bench-explain docs clean
.DEFAULT_GOAL := help

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rlaudit needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python $(INPUTS)
	@echo "Installing rlaudit (a few minutes on a fresh machine: torch alone is some 200 MB)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing the test tools, TRL among them"
	@$(PIP) -e '.[dev]'
	@touch $@

demo: $(VENV)/.installed  ## Install, explain two sample runs, write report.html
	@$(BIN)/rlaudit explain sample_logs/team/grpo-seed1 sample_logs/team/dr-grpo-seed1 -o report.html
	@echo
	@echo "The same as a page:       open report.html"
	@echo "Two seeds of one config:  $(BIN)/rlaudit explain sample_logs/team/grpo-seed1 sample_logs/team/grpo-seed2"
	@echo "All runs in the browser:  $(BIN)/rlaudit dashboard sample_logs/team"

# The header of a run prints the seed of its order; `make test SEED=N` runs that order again.
test: check browser  ## Install what the tests need and run all of them (SEED=N: in the order of that seed)
	$(BIN)/python -m pytest -n 2 $(if $(SEED),--randomly-seed=$(SEED))

# A failure prints a line that repeats it, and is drawn first in the next run (.hypothesis/).
fuzz: $(VENV)/.installed-dev  ## Property tests with 20 times as many, new examples (FUZZ=tests/logs, SEED=N)
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -n 2 -m hypothesis \
	    $(if $(SEED),--randomly-seed=$(SEED) --hypothesis-seed=$(SEED)) $(FUZZ)

pages: $(VENV)/.installed-dev  ## Open every page of the dashboard on every sample log and every spoiled log of the tests
	EVERY_LOG=1 $(BIN)/python -m pytest -n 2 tests/app/test_every_page.py tests/pain

# Without a Chromium the tests in a browser are skipped, and say so; Playwright never downloads one.
CHROMIUM := chromium chromium-browser google-chrome google-chrome-stable chrome
.PHONY: browser
browser:
	@for name in $(CHROMIUM); do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "Installing Chromium for the tests of the dashboard"; \
	    { apt-get install -y -qq chromium || { apt-get update -qq && apt-get install -y -qq chromium; }; } \
	        >/dev/null 2>&1 || echo "Chromium could not be installed: the tests in a browser are skipped"; \
	else echo "No Chromium: the tests in a browser are skipped; install one: apt-get install -y chromium"; fi

check: $(VENV)/.installed-dev  ## Lint, format, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

sample-logs: $(VENV)/.installed-dev  ## Train the sample runs again and replace sample_logs/
	$(BIN)/python sample_logs/make.py

truth: $(VENV)/.installed-dev  ## Compare weights with TRL's own gradient again: docs/trl-gradient.md
	$(BIN)/python tests/recorders/truth_page.py

conformance: .venv-conformance/.installed  ## Compare weights with the frameworks' own code again: docs/conformance.md
	.venv-conformance/bin/python tests/conformance/page.py

.venv-conformance/.installed: $(INPUTS) $(wildcard tests/conformance/requirements*.txt)
	@echo "Installing TRL, verl, OpenRLHF, SkyRL, AReaL, Liger and Unsloth (some minutes)"
	@$(PYTHON) -m venv .venv-conformance
	@.venv-conformance/bin/$(PIP_IN) -r tests/conformance/requirements.txt -e .
	@.venv-conformance/bin/$(PIP_IN) --no-deps -r tests/conformance/requirements-no-deps.txt
	@touch $@

bench: $(VENV)/.installed-dev $(if $(QUICK),,.venv-conformance/.installed)  ## Measure speed and memory: docs/benchmarks.md (QUICK=1: small logs)
	$(BIN)/python -m bench $(if $(QUICK),--quick)

bench-explain: $(VENV)/.installed-dev  ## Measure how often explain names an injected cause: docs/explain-benchmark.md
	$(BIN)/python -m bench.explain

docs: $(VENV)/.installed-dev  ## Write schemas/*.schema.json, docs/objectives.md, docs/formats.md and the README's outputs again
	$(BIN)/python -m audit.report.schemas
	$(BIN)/python -m audit.report.catalogue_page
	$(BIN)/python -m audit.report.formats
	$(BIN)/python -m audit.report.checks_page
	$(BIN)/python tests/test_readme.py

clean:  ## Remove the virtual environment and what the tools left behind
	rm -rf $(VENV) .venv-conformance build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache report.html

# make demo and make test set up everything they need in .venv; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
# More workers than cores: most tests wait. Tests that share fixtures of their module share a
# worker: tests/support/tiers.py, which also says what each tier consists of.
WORKERS ?= $(shell expr 3 \* "$$(nproc 2>/dev/null || echo 2)")
# Compiled modules are kept, whatever the environment says: each worker and each program that a
# test starts would compile everything anew.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadgroup --no-loadscope-reorder

.PHONY: help demo test matrix envtest charts cluster browser screenshots landing whole simulate test-of lint types crds metrics image bench bench-sync bench-postgres bench-binding bench-serve sizes docs docs-serve reference format requirements clean

help: ## list the targets
	@grep -hE '^[.a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.venv: $(VENV)/dev.stamp ## the virtual environment, with everything for development

$(VENV)/demo.stamp: requirements/demo.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Fairlead needs Python 3.11 or newer: make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Fairlead, with its sandbox and demo, into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/demo.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/demo.stamp
	@echo "installing the development tools into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/browser.stamp: requirements/browser.txt $(VENV)/dev.stamp
	@echo "installing what drives a browser into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/browser.txt
	@touch $@

demo: $(VENV)/demo.stamp ## play the story on embedded control planes and an embedded PostgreSQL
	@$(BIN)/fairlead demo

test: $(VENV)/dev.stamp ## what a change needs: all but the matrix and a real control plane
	$(PYTEST) -m test

# Without Go there is no helm and no crane, and what needs them is skipped; so are clients of
# PostgreSQL whose language is not there.
HELM = FAIRLEAD_HELM="$$(hack/helm || true)"
CRANE = FAIRLEAD_CRANE="$$(hack/crane || true)"
CLIENTS = FAIRLEAD_CLIENTS="$$(hack/clients/build || true)"

matrix: $(VENV)/dev.stamp ## other versions of PostgreSQL and administrators, kills, bombs, long searches, alerts, the chart, the image, a release
	$(HELM) $(CRANE) $(CLIENTS) PROMTOOL="$$(hack/promtool)" $(PYTEST) -m matrix

envtest: $(VENV)/dev.stamp ## the contract and e2e suites on a real control plane
	assets="$$(hack/envtest)" && $(HELM) KUBEBUILDER_ASSETS="$$assets" $(PYTEST) -m envtest

$(VENV)/charts.stamp: requirements/charts.txt $(VENV)/dev.stamp
	@echo "installing what looks at the chart into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/charts.txt
	@touch $@

charts: $(VENV)/charts.stamp ## the chart: made anew, linted, rendered, held against schemas, scored
	$(BIN)/python -m hack.chart
	hack/charts

$(VENV)/docs.stamp: requirements/docs.txt $(VENV)/dev.stamp
	@echo "installing what builds the manual's site into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/docs.txt
	@touch $@

# The theme's makers tell of their next program at each build.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs

docs: $(VENV)/docs.stamp ## the manual's site, into build/site; its links hold, and no page asks another host
	$(MKDOCS) build --strict
	$(BIN)/python -m hack.site build/site

docs-serve: $(VENV)/docs.stamp ## the site on this machine, made anew as its pages change
	$(MKDOCS) serve --dev-addr 127.0.0.1:8000

cluster: $(VENV)/dev.stamp ## releases of the chart on clusters with nodes; needs root and Debian's containerd
	$(HELM) $(PYTEST) -m cluster -rs tests/cluster

browser: $(VENV)/browser.stamp $(VENV)/docs.stamp ## the pages and the manual in Debian's Chromium; skipped, with the reason, where there is none
	$(PYTEST) -m browser -rs tests/browser

screenshots: $(VENV)/browser.stamp ## take the README's pictures of the console anew
	$(BIN)/python -m tests.browser.screenshots --readme --out docs/images

SEEDS ?= 200
simulate: $(VENV)/dev.stamp ## the whole system on virtual time, from 200 seeds of this day; SEEDS=10000 for a night
	$(BIN)/python -m tests.sim --seeds $(SEEDS)

# The runner's part of what `.ci/run` does, which first installs programs that tests start.
LANDING = $(BIN)/python -m hack.landing

landing: $(VENV)/browser.stamp $(VENV)/charts.stamp $(VENV)/docs.stamp ## what a change must pass: make test, and what has changed for it
	$(LANDING)

whole: $(VENV)/browser.stamp $(VENV)/charts.stamp $(VENV)/docs.stamp ## everything: before a release, and at each tenth landing
	$(LANDING) --whole

P ?= konnector
test-of: $(VENV)/dev.stamp ## the pure tests of one package: make test-of P=konnector
	$(BIN)/python -m pytest -q -m test tests/unit/$(P)

lint: $(VENV)/dev.stamp ## formatting, style, the house's layers and plain words
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/python -m hack.words

types: $(VENV)/browser.stamp ## mypy --strict
	$(BIN)/mypy

format: $(VENV)/dev.stamp ## write the formatting
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

crds: $(VENV)/dev.stamp ## regenerate config/crd from the types
	$(BIN)/fairlead crds --output-dir config/crd

metrics: $(VENV)/dev.stamp ## regenerate the page of metrics and the dashboard from the programs
	$(BIN)/python -m hack.metrics > docs/metrics.md
	$(BIN)/python -m hack.dashboard > config/dashboards/fairlead.json

reference: $(VENV)/dev.stamp ## regenerate the manual's reference from CRDs, commands and alerts
	$(BIN)/python -m hack.reference docs/reference

IMAGE ?= fairlead
image: $(VENV)/dev.stamp ## the OCI image into dist, without a daemon, with its bill of materials and licences; IMAGE=its name, without a tag
	@$(BIN)/python -m hack.image --name $(IMAGE)

bench: $(VENV)/dev.stamp ## the sandbox against kube-apiserver, in the same run; BENCH_LONG=1 keeps results
	KUBEBUILDER_ASSETS="$$(hack/envtest)" $(BIN)/python -m bench

bench-sync: $(VENV)/dev.stamp ## the konnector against a bare loader, and by kbind v2; BENCH_LONG=1 has 10,000 objects too, and keeps results
	KUBEBUILDER_ASSETS="$$(hack/envtest)" $(BIN)/python -m bench sync kbind

bench-postgres: $(VENV)/dev.stamp ## the PostgresAccess operator against a bare script; BENCH_LONG=1 has 5,000 accesses too
	$(BIN)/python -m bench postgres

bench-binding: $(VENV)/dev.stamp ## the binding controllers against a bare loader; BENCH_LONG=1 has 500 bindings for 200
	KUBEBUILDER_ASSETS="$$(hack/envtest)" $(BIN)/python -m bench binding

bench-serve: $(VENV)/dev.stamp ## the front door against a bare aiohttp handler
	$(BIN)/python -m bench serve

sizes: $(VENV)/dev.stamp ## memory and CPU of each program with 1,000 objects, and how soon another replica goes on; BENCH_LONG=1 has 10,000 too
	KUBEBUILDER_ASSETS="$$(hack/envtest)" $(BIN)/python -m bench sizes

requirements: $(VENV)/dev.stamp ## pin anew, with hashes and without index addresses
	hack/requirements

clean: ## remove the virtual environment and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build

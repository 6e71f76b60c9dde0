# Waymesh: what a developer and CI run. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# Tests at a time. Two for each core of CI: tests wait for routers more than half of the time. Workers take
# tests from each other (worksteal): else the last minutes are those of one worker alone.
JOBS ?= 4
# Tests whose time is simulated: they pass on a slow machine, too.
IN_VIRTUAL_TIME := tests/simulation tests/model
WITHOUT_PROCESSES := not e2e and not interop and not brokers and not cluster and not spark and not helm and not processes
# e.g. make test ARGS="-k sasl -x"
ARGS ?=
# Images of Python set this variable. Without bytecode, each of the thousands of processes that tests start compiles the
# router's sources anew, which takes longer than all else that it does until it listens.
unexport PYTHONDONTWRITEBYTECODE

# Outside the checkout, so that a fresh clone finds what was compiled, and whose types were checked, before.
CACHE := $(or $(WAYMESH_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/waymesh)
export MYPY_CACHE_DIR ?= $(CACHE)/mypy

.PHONY: help setup venv engine console analytics analytics-bucket demo check check-since test test-all test-repeat test-console test-helm test-interpreted test-compiled test-virtual test-analytics test-brokers test-cluster test-chaos chaos soak cluster-up cluster-down chart chart-package quickstart images sbom kind-up kind-down lint lint-workflows docs format bench constraints wheel plugin release clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: engine ## make .venv with waymesh, waymesh-router and the tools, and compile the engine

venv: ## make .venv alone, engine not compiled
	@tools/setup.sh

engine: venv ## compile the hot modules that changed
	@$(BIN)/python tools/build_engine.py --cache "$(CACHE)/engine"

console: venv ## build the console that routers with `console: yes` serve, by Node, which is added to .venv (60 MB)
	@tools/setup.sh console
	@$(BIN)/python tools/console.py build --cache "$(CACHE)/console"

analytics: venv ## add to .venv what `waymesh analyze` needs: PySpark, matplotlib, Jinja (half a gigabyte), and Java
	@tools/setup.sh analytics

analytics-bucket: analytics ## add to .venv what `waymesh analyze` needs for s3a:// addresses (12 MB, by Maven)
	@tools/setup.sh s3a

demo: setup ## three routers, messages across them, one killed; ends by itself
	@$(BIN)/waymesh demo

check: setup ## lint, and the tests that start no process: before each commit
	@$(MAKE) --no-print-directory lint
	@$(PYTEST) -q -n 2 -m "$(WITHOUT_PROCESSES)" tests/spec tests/unit tests/operator tests/reconcile $(ARGS)

check-since: setup ## lint, and the tests of folders that changed since a commit: REV=HEAD~1
	@$(BIN)/python tools/check_since.py "$(or $(REV),HEAD)"

test: setup ## lint, the tests on the compiled engine, most of them on the interpreted one, then those on Spark, with real brokers, under faults and on a real Kubernetes
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test-console
	@$(MAKE) --no-print-directory test-interpreted
	@$(MAKE) --no-print-directory test-compiled
	@if reason=$$($(BIN)/python -m tests.cluster check) || [ -n "$${CI:-}" ]; then \
	    $(MAKE) --no-print-directory test-helm; \
	    WAYMESH_CLUSTER_BESIDE="$(MAKE) --no-print-directory JOBS=1 test-virtual test-analytics test-brokers test-chaos" $(MAKE) --no-print-directory test-cluster; \
	else $(MAKE) --no-print-directory test-virtual test-analytics test-brokers test-chaos; \
	    echo "test: the tests on a real Kubernetes are left out: $$reason"; fi

test-all: ## as test, with every test on both engines, and the largest meshes: before an issue is closed
	@WAYMESH_TEST_ALL=1 $(MAKE) --no-print-directory test

test-repeat: setup ## tests again and again: N=20 K=expression, as of pytest -k; FILES=tests/interop/test_x.py
	@[ -n "$(K)$(FILES)" ] || { echo "test-repeat: name tests by K=expression or FILES=path"; exit 2; }
	@$(PYTEST) -n $(JOBS) --count $(or $(N),20) -x -q $(if $(K),-k "$(K)") $(ARGS) $(FILES)

test-console: console ## types and tests of the console's parts that need no browser
	@echo "test: console"
	@$(BIN)/python tools/console.py check --cache "$(CACHE)/console"

test-interpreted: console ## the tests that need no broker, Kubernetes or Spark, engine interpreted; of those with other programs a third
	@echo "test: engine interpreted"
	@WAYMESH_ENGINE=interpreted $(PYTEST) -n $(JOBS) --dist worksteal $(IN_VIRTUAL_TIME:%=--ignore=%) -m "not chaos and not brokers and not cluster and not spark and not helm" $(ARGS)

test-compiled: engine console ## the tests whose outcome can depend on the engine, engine compiled
	@echo "test: engine compiled"
	@WAYMESH_ENGINE=compiled $(PYTEST) -n $(JOBS) --dist worksteal $(IN_VIRTUAL_TIME:%=--ignore=%) -m "not engine_independent and not chaos and not brokers and not cluster and not spark and not helm" $(ARGS)

test-virtual: engine ## the tests of whole meshes in virtual time, and of a session beside its model, on both engines
	@echo "test: in virtual time"
	@WAYMESH_ENGINE=interpreted $(PYTEST) -n $(JOBS) --dist worksteal -o timeout=1500 -m "not chaos" $(IN_VIRTUAL_TIME) $(ARGS)
	@WAYMESH_ENGINE=compiled $(PYTEST) -n $(JOBS) --dist worksteal -o timeout=1500 -m "not engine_independent and not chaos" $(IN_VIRTUAL_TIME) $(ARGS)

test-analytics: venv analytics ## the tests of the Spark job, in one process: one Java for all
	@echo "test: on Spark"
	@$(PYTEST) -m spark tests/analytics $(ARGS)

test-brokers: engine ## the tests with real brokers behind the router, engine compiled; gets the brokers the first time
	@echo "test: with real brokers"
	@$(BIN)/python -m tests.brokers
	@WAYMESH_ENGINE=compiled $(PYTEST) -n 2 --dist loadfile -m brokers $(ARGS)

test-cluster: engine analytics ## the tests on a real Kubernetes, which they build (the first time), start and stop; needs root and Go
	@tools/test_cluster.sh $(ARGS)

chaos: engine ## routers under random faults: MINUTES=10 SEED=1; ARGS="--plant lost-outcome" or "--schedule FILE"
	@$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1) $(ARGS)

soak: engine ## connections, links, addresses, autolinks and an edge router that come and go: nothing may grow; HOURS=1
	@$(BIN)/python -m tests.chaos.soak --hours $(or $(HOURS),1)

test-chaos: engine ## routers and brokers under fixed faults for some minutes, and defects that must be found, engine compiled
	@echo "test: under faults"
	@tools/setup.sh chaos
	@WAYMESH_ENGINE=compiled $(PYTEST) -m chaos tests/chaos $(ARGS)

test-helm: venv ## the tests that render the chart by helm, which they build the first time; needs Go
	@echo "test: rendered charts"
	@$(PYTEST) -n 2 -m helm tests/helm $(ARGS)

cluster-up: engine ## start that Kubernetes, install the operator in it by its chart, print its KUBECONFIG
	@$(BIN)/python -m tests.cluster up --chart

cluster-down: venv ## stop it, nothing stays
	@$(BIN)/python -m tests.cluster down

chart: venv ## copy the CRDs of crds/ into the chart, and their schemas into that of its values
	@rm -rf helm/waymesh/crds && cp -r crds helm/waymesh/crds
	@$(BIN)/python tools/chart_schema.py

chart-package: chart ## the chart as dist/waymesh-VERSION.tgz; REGISTRY=oci://host/path pushes it there, too
	@tools/chart_package.sh

quickstart: ## render the analytics schedule of examples/quickstart from the chart
	@mkdir -p build
	@helm template quickstart helm/waymesh --namespace quickstart --values examples/quickstart/analytics-values.yaml \
	  --show-only templates/analytics.yaml > build/analytics.yaml
	@mv build/analytics.yaml examples/quickstart/analytics.yaml

images: ## build the images of router, operator and analytics job by docker, podman or buildah
	@tools/images.sh

sbom: console ## the installed Python packages with versions and licences, in dist/waymesh-VERSION.cdx.json (CycloneDX), and those of npm in the console beside it
	@mkdir -p dist
	@version=$$(sed -n 's/^appVersion: //p' helm/waymesh/Chart.yaml); \
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o "dist/waymesh-$$version.cdx.json" .venv; \
	cp router_image/waymesh_router/console/bundle/sbom.cdx.json "dist/waymesh-console-$$version.cdx.json"; \
	echo "sbom: dist/waymesh-$$version.cdx.json, dist/waymesh-console-$$version.cdx.json"

kind-up: ## a kind cluster of three nodes with our images and the quickstart; its report in build/quickstart
	@tests/kind/kind.sh up

kind-down: ## remove that cluster
	@tests/kind/kind.sh down

lint: venv ## ruff, mypy --strict and the import contracts
	@echo "lint: ruff" && $(BIN)/ruff check .
	@echo "lint: mypy" && $(BIN)/mypy
	@echo "lint: imports" && $(BIN)/lint-imports

docs: venv ## build the documentation as a site in build/site, and check its links
	@$(BIN)/python tools/docs_site.py

lint-workflows: ## check .github/workflows by actionlint; needs Go
	@go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.7 .github/workflows/*.yml

format: venv ## sort imports and apply ruff's safe fixes
	@$(BIN)/ruff check --fix .

bench: setup ## measure the router beside the relay floor and compare with the committed baseline
	@$(BIN)/python -m tests.bench $(ARGS)

constraints: ## resolve pyproject.toml anew into constraints.txt
	@tools/constraints.sh

wheel: console ## a wheel with the compiled engine and the console, in dist/
	@rm -rf build/lib* build/bdist*
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

plugin: console ## the kubectl plugin for krew, in dist/; PLUGIN_URL says where the archive will be
	@rm -rf build/lib* build/bdist* build/plugin
	@WAYMESH_ENGINE=interpreted $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/plugin .
	@$(BIN)/python tools/krew_plugin.py build/plugin/waymesh-*.whl $(if $(PLUGIN_URL),--url $(PLUGIN_URL))

release: setup console ## set the version everywhere and build all of a release into dist/: VERSION=0.2.0
	@[ -n "$(VERSION)" ] || { echo "release: set VERSION, such as VERSION=0.2.0"; exit 2; }
	@$(BIN)/python tools/release.py "$(VERSION)" --date "$$(date -u +%F)"

clean: ## remove .venv, what was built and what tools left behind
	@[ ! -x $(BIN)/python ] || $(BIN)/python tools/build_engine.py --clean
	@rm -rf .venv build dist .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

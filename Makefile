# Every target installs what it needs, or names it. `make help` lists them.
SHELL := /bin/bash
CARGO ?= nice cargo
BIN := target/release/tillerman

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.PHONY: build
build: ## the operator and command line, optimised
	$(CARGO) build --release

.PHONY: tools
tools: ## the local cluster's programs (etcd, Kubernetes, helm), built from their Go modules once
	tests/cluster/build-tools.sh control-plane

.PHONY: demo
demo: build ## a PhpApp from custom resource to web page and back, on your cluster (KUBECONFIG) or a local one
	examples/php/demo.sh $(BIN)

.PHONY: demo-down
demo-down: ## remove what the demo left
	examples/php/demo-down.sh

.PHONY: node-up
node-up: ## start a real one-node cluster with pods (root on Linux)
	tests/cluster/node-up.sh

.PHONY: node-down
node-down: ## stop it
	tests/cluster/node-down.sh

.PHONY: test
test: ## everything that must hold: format, lints, unit, case, conformance, chart-source and API-server tests
	tests/run.sh format lint library unit conformance instructions sources cluster

.PHONY: ci
ci: ## what continuous integration runs: the tests, and the demo from end to end
	tests/run.sh format lint library unit conformance instructions sources cluster demo

.PHONY: format lint library unit conformance instructions sources cluster
format lint library unit conformance instructions sources cluster: ## (each also alone) one part of `make test`
	tests/run.sh $@

.PHONY: bench
bench: build ## measure creation, rest, change, drift, restart at 1, 100 and 500 custom resources
	benches/operator.sh $(BIN)

.PHONY: bench-render
bench-render: build ## measure rendering beside Helm, on the command line and in process
	benches/render.sh $(BIN)

.PHONY: clean
clean: ## remove build results (not the cached tools)
	$(CARGO) clean

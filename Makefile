# Every target installs what it needs, or names it. `make help` lists them.
SHELL := /bin/bash
CARGO ?= nice cargo
OUT := $(or $(CARGO_TARGET_DIR),target)
BIN := $(OUT)/tillerman
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
# On Linux one static file at a fixed address, as Go's programs are: it needs nothing beside it, and starts a millisecond sooner.
STATIC := $(if $(findstring linux-gnu,$(HOST)),-C target-feature=+crt-static -C relocation-model=static)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.PHONY: build
build: ## the operator and command line, optimised: target/tillerman
	RUSTFLAGS="$$RUSTFLAGS $(STATIC)" $(CARGO) build --release --target $(HOST)
	ln -f $(OUT)/$(HOST)/release/tillerman $(BIN)

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
	tests/run.sh format lint library unit conformance instructions lint-charts sources alerts cluster

.PHONY: test-full
test-full: ## the same, and the slow parts: faults, traces, the operator as a pod on a real node
	tests/run.sh format lint library unit conformance instructions lint-charts sources alerts cluster faults traces node

.PHONY: ci
ci: ## what continuous integration runs: all tests, and the demo from end to end
	tests/run.sh format lint library unit conformance instructions lint-charts sources alerts cluster faults traces node demo

.PHONY: test-node
test-node: ## the operator as a pod on a real node, as operator-sdk deploys it (root on Linux)
	tests/run.sh node

# How long faults are done at random, and a seed to repeat.
CHAOS_SECONDS ?= 600
CHAOS_SEED ?=
.PHONY: chaos
chaos: ## ten minutes of faults at random with 300 custom resources; CHAOS_SEED=… repeats one
	CHAOS_SECONDS=$(CHAOS_SECONDS) $(if $(CHAOS_SEED),CHAOS_SEED=$(CHAOS_SEED)) tests/cluster/with.sh \
		$(CARGO) test --features cluster-tests --test faults -- --nocapture --test-threads=1 everything_at_random

.PHONY: format lint library unit conformance instructions lint-charts sources alerts cluster faults traces
format lint library unit conformance instructions lint-charts sources alerts cluster faults traces: ## (each also alone) one part of `make test`
	tests/run.sh $@

# How long each target runs, and on how many of the six.
MINUTES ?= 10
TARGETS ?= parse execute yaml archive strvals semver

.PHONY: fuzz
fuzz: ## search for harmful input, MINUTES=10 a target (needs a nightly compiler and `cargo install cargo-fuzz`)
	@cargo +nightly --version >/dev/null || { echo "error: install a nightly compiler: rustup toolchain install nightly" >&2; exit 1; }
	@cargo fuzz --version >/dev/null || { echo "error: install cargo-fuzz: cargo install cargo-fuzz" >&2; exit 1; }
	for target in $(TARGETS); do mkdir -p fuzz/found/$$target; $(CARGO) +nightly fuzz run $$target fuzz/found/$$target fuzz/corpus/$$target -- \
		-max_total_time=$$(($(MINUTES) * 60)) -timeout=20 -rss_limit_mb=3000 || exit 1; done

.PHONY: fuzz-diff
fuzz-diff: ## compare random templates and charts with Helm's library for MINUTES=10 (needs Go); SEED=1
	cd fuzz/oracle && nice go build -ldflags '-X helm.sh/helm/v4/internal/version.version=v4.3.1' -o ../target/oracle .
	$(CARGO) run --release --manifest-path fuzz/Cargo.toml --no-default-features --features compare --bin diff -- fuzz/target/oracle $(MINUTES) $(or $(SEED),1)

.PHONY: bench
bench: build ## measure creation, rest, change, drift, restart at 1, 100 and 500 custom resources
	benches/operator.sh $(BIN)

.PHONY: bench-render
bench-render: build ## measure rendering beside Helm, on the command line and in process
	benches/render.sh $(BIN)

.PHONY: clean
clean: ## remove build results (not the cached tools)
	$(CARGO) clean

# Every target installs what it needs, or names it. `make help` lists them.
SHELL := /bin/bash
CARGO ?= nice cargo
OUT := $(or $(CARGO_TARGET_DIR),target)
BIN := $(OUT)/tillerman
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
# The same with its symbols, for backtraces and profilers.
UNSTRIPPED := $(OUT)/$(HOST)/release/tillerman
# On Linux one static file at a fixed address, as Go's programs are: it needs nothing beside it, and starts a millisecond sooner.
STATIC := $(if $(findstring linux-gnu,$(HOST)),-C target-feature=+crt-static -C relocation-model=static)
# Where something was built is not part of it: the same sources make the same programs in any folder.
PORTABLE := RUSTC_WRAPPER="$(CURDIR)/deploy/rustc.sh" SYSROOT="$(shell rustc --print sysroot)"

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# The client of etcd is built with the compiler of protocol buffers.
.PHONY: protoc
protoc:
	@. tests/cluster/lib.sh && need_protoc

# Each command names all packages and the operator: then cargo gives their dependencies the same features and the same kind of code (crates
# below crc-fast, which can be a C library, get machine code beside bitcode), and compiles each once.
PACKAGES := -p tillerman -p tillerman-agent-mysql -p tillerman-bench
COMPILE := $(PORTABLE) RUSTFLAGS="$$RUSTFLAGS $(STATIC)" $(CARGO) build --release --target $(HOST) $(PACKAGES) --bin tillerman

.PHONY: build
build: protoc ## the operator and command line, optimised: target/tillerman
	$(COMPILE)
# Parts of the tests run it meanwhile, and may build it at the same time: it is replaced at once.
	strip -o $(BIN).$$$$ $(UNSTRIPPED) && mv $(BIN).$$$$ $(BIN)

.PHONY: build-agent
build-agent: ## the agent of MariaDB, optimised: target/tillerman-agent
	$(COMPILE) --bin tillerman-agent
	strip -o $(BIN)-agent.$$$$ $(UNSTRIPPED)-agent && mv $(BIN)-agent.$$$$ $(BIN)-agent

.PHONY: manifests
manifests: protoc ## write deploy/chart/files, deploy/install and deploy/bundle again
	REWRITE_MANIFESTS=1 $(CARGO) test --quiet --workspace --features tillerman/cluster-tests --test manifests

# For which machines a release has programs: those whose standard library rustup has installed (`rustup target add`). One of another processor
# needs a C compiler for it, such as Debian's gcc-aarch64-linux-gnu.
RELEASE_TARGETS ?= $(HOST)
# The name under which the image will be found.
IMAGE ?= tillerman

.PHONY: release
release: build build-agent ## write all files of a release to target/release-VERSION; RELEASE_TARGETS="x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu", IMAGE=registry.example.com/tillerman
	for target in $(filter-out $(HOST),$(RELEASE_TARGETS)); do deploy/cross.sh $$target || exit 1; done
	AGENTS="$(foreach target,$(RELEASE_TARGETS),$(target)=$(if $(filter $(HOST),$(target)),$(BIN)-agent,$(OUT)/tillerman-agent-$(target)))" \
	IMAGE=$(IMAGE) SELF=$(BIN) deploy/release.sh $(OUT)/release-$(VERSION) \
		$(foreach target,$(RELEASE_TARGETS),$(target)=$(if $(filter $(HOST),$(target)),$(BIN),$(OUT)/tillerman-$(target)))

# Private keys: of the curve P-256 in PEM for all artifacts, and the name of one of GnuPG for the chart.
export SIGN_KEY HELM_SIGN_KEY

.PHONY: publish
publish: ## push the release that `make release SIGN_KEY=… IMAGE=…` made to its registry: images, chart and signatures
	IMAGE=$(IMAGE) SELF=$(BIN) deploy/publish.sh $(OUT)/release-$(VERSION)

.PHONY: sign-keyless
sign-keyless: ## sign the published artifacts with cosign, by the identity of the workflow that runs this
	for name in $(IMAGE) $(IMAGE)-agent $(or $(CHARTS),$(dir $(IMAGE))charts)/tillerman; do cosign sign --yes "$$name:$(VERSION)" || exit 1; done

.PHONY: advisories
advisories: ## ask the database of advisories about the dependencies (needs the network and cargo-deny)
	cargo deny check advisories

.PHONY: tools
tools: ## the local cluster's programs (etcd, Kubernetes, helm), built from their Go modules once
	tests/cluster/build-tools.sh control-plane

.PHONY: demo
demo: protoc ## a PhpApp from custom resource to web page and back, on your cluster (KUBECONFIG) or a local one
	examples/prepare.sh $(OUT)/demo/tillerman
	examples/php/demo.sh $(OUT)/demo/tillerman

.PHONY: demo-down
demo-down: ## remove everything that the demo made
	examples/php/demo-down.sh

.PHONY: demo-etcd
demo-etcd: build ## a cluster of etcd on a local node: scaled, a volume destroyed, upgraded, deleted and restored, without losing a write (root on Linux)
	examples/etcd/demo.sh $(BIN)

.PHONY: demo-mysql
demo-mysql: build build-agent ## a cluster of MariaDB on a local node: scaled, handed over, its primary killed, a volume destroyed, upgraded, deleted and restored, without losing a write (root on Linux)
	examples/mysql/demo.sh $(BIN) $(BIN)-agent

.PHONY: demo-stack
demo-stack: build build-agent ## a PHP guest book on a cluster of MariaDB with mail about both, in a browser, while the primary is killed (root on Linux)
	examples/stack/demo.sh $(BIN) $(BIN)-agent

.PHONY: demo-wordpress
demo-wordpress: build build-agent ## a site of WordPress of a tenant, in a browser: its primary killed, upgraded under load, copied, deleted and restored, without losing a comment (root on Linux)
	examples/wordpress/demo.sh $(BIN) $(BIN)-agent

.PHONY: mysql-figures
mysql-figures: build build-agent ## the figures of docs/design/reliability-results.md about clusters of MariaDB on pods; ROUNDS=20 (root on Linux)
	TEST=mysql:: TEST_ARGS="--ignored --skip itself" TEST_THREADS=1 tests/node/run.sh $(BIN) $(BIN)-agent

.PHONY: node-up
node-up: ## start a real one-node cluster with pods (root on Linux)
	tests/cluster/node-up.sh

.PHONY: mysql-node
mysql-node: build build-agent ## a cluster of MySQL 9.7 itself on pods: it grows, hands over, its primary is killed, it is backed up and restored, and a running MySQL is imported (root on Linux)
	WITH_MYSQL=yes TEST=of_mysql_itself TEST_ARGS=--ignored TEST_THREADS=1 tests/node/run.sh $(BIN) $(BIN)-agent

.PHONY: volumes-node
volumes-node: build build-agent ## volumes of MariaDB, etcd and a plain chart grow on a storage driver that speaks the CSI (root on Linux)
	CI=true WITH_VOLUMES=yes TEST=growth:: TEST_THREADS=2 tests/node/run.sh $(BIN) $(BIN)-agent

.PHONY: node-down
node-down: ## stop it
	tests/cluster/node-down.sh

# Runs parts of the tests, and ends with a table of their seconds: tests/xtask.
XTASK = $(CARGO) run --quiet --manifest-path tests/xtask/Cargo.toml --target-dir $(OUT)/xtask --
MOST := format lint library unit cluster types documents sources alerts conformance instructions lint-charts rights members agent backup

# Continuous integration runs the same command. It takes of each sweep the share that the commit chooses, adds the demo and, in turn, what needs
# a node, helm-operator, or time for faults. It compiles a clean clone once: without notes for the next time or lines for debuggers, and
# a released program with few optimisations, of which it does not count the instructions.
ifdef CI
TEST_FLAGS := --share --compare --minutes 70
TEST_PARTS := $(filter-out instructions,$(MOST)) peer faults node walk demo
test: export CARGO_INCREMENTAL = 0
test: export CARGO_PROFILE_DEV_DEBUG = 0
test: export CARGO_PROFILE_RELEASE_OPT_LEVEL = 1
test: export CARGO_PROFILE_RELEASE_LTO = off
test: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS = 16
test: export CHAOS_SECONDS ?= 45
else
TEST_FLAGS :=
TEST_PARTS := $(MOST)
endif

.PHONY: test
test: protoc ## all tests: format, lints, unit, case, conformance, chart-source, API-server, member and backup tests
	$(XTASK) $(TEST_FLAGS) $(TEST_PARTS)

.PHONY: test-full
test-full: protoc ## the same, and the slow parts: comparison with the real helm-operator, faults, traces, the operator as a pod on a real node, demos
	$(XTASK) $(MOST) fleet upgrade mysql peer signatures reproducible gitops faults traces node walk demo

.PHONY: ci
ci: ## the tests of continuous integration: `make test` with CI=true
	CI=true $(MAKE) --no-print-directory test

# Busy loops that run beside the parts of `make soak`.
SOAK ?= $(shell nproc)
.PHONY: soak
soak: protoc ## for release candidates: tests that wait for conditions, while SOAK busy loops run (as many as cores)
	$(XTASK) --busy $(SOAK) cluster members faults

.PHONY: test-node
test-node: protoc ## the operator as a pod on a real node, as operator-sdk deploys it (root on Linux)
	$(XTASK) node

# How long faults are done at random, and a seed to repeat.
CHAOS_SECONDS ?= 600
CHAOS_SEED ?=
# How many faults `tillerman chaos` does to a cluster of etcd on a real node.
CHAOS_FAULTS ?= 30
.PHONY: chaos
chaos: build build-agent ## the operator killed before each step of clusters of etcd; ten minutes of faults at random with 300 custom resources; `tillerman chaos` and tests/chaos on a real node; CHAOS_SEED=… repeats one
	tests/cluster/build-tools.sh members
	TILLERMAN=$(abspath $(BIN)) tests/cluster/with.sh $(CARGO) test --workspace --features tillerman/cluster-tests --test faults -- --nocapture --ignored etcd::
	TILLERMAN=$(abspath $(BIN)) CHAOS_SECONDS=$(CHAOS_SECONDS) $(if $(CHAOS_SEED),CHAOS_SEED=$(CHAOS_SEED)) tests/cluster/with.sh \
		$(CARGO) test --workspace --features tillerman/cluster-tests --test faults -- --nocapture --test-threads=1 everything_at_random
	CHAOS_FAULTS=$(CHAOS_FAULTS) $(if $(CHAOS_SEED),CHAOS_SEED=$(CHAOS_SEED)) TEST=faults_of_every_kind tests/node/run.sh $(BIN)
	$(MAKE) chaos-databases

.PHONY: chaos-databases
chaos-databases: build build-agent ## faults in clusters of MariaDB and etcd on a real node while clients write, three seeds of ten minutes each (root on Linux)
	CHAOS_SECONDS=$(CHAOS_SECONDS) $(if $(CHAOS_SEED),CHAOS_SEEDS=$(CHAOS_SEED)) tests/chaos/run.sh $(BIN) $(BIN)-agent

.PHONY: format lint library unit types documents sources alerts cluster conformance instructions lint-charts rights members agent fleet upgrade mysql backup peer faults traces walk
format lint library unit types documents sources alerts cluster conformance instructions lint-charts rights members agent fleet upgrade mysql backup peer faults traces walk: protoc ## (each also alone) one part of `make test`
	$(XTASK) $@

# How long each target runs, and which of them.
MINUTES ?= 10
TARGETS ?= parse execute yaml archive strvals semver annotations record documents notice

.PHONY: fuzz
fuzz: ## search for harmful input, MINUTES=10 a target (needs a nightly compiler and `cargo install cargo-fuzz`)
	@cargo +nightly --version >/dev/null || { echo "error: install a nightly compiler: rustup toolchain install nightly" >&2; exit 1; }
	@cargo fuzz --version >/dev/null || { echo "error: install cargo-fuzz: cargo install cargo-fuzz" >&2; exit 1; }
	for target in $(TARGETS); do mkdir -p fuzz/found/$$target; $(CARGO) +nightly fuzz run $$target fuzz/found/$$target fuzz/corpus/$$target -- \
		-max_total_time=$$(($(MINUTES) * 60)) -timeout=20 -rss_limit_mb=3000 || exit 1; done

COMPARE = $(CARGO) run --release --manifest-path fuzz/Cargo.toml --no-default-features --features compare --bin diff -- fuzz/target/oracle

.PHONY: fuzz-oracle
fuzz-oracle:
	cd fuzz/oracle && nice go build -ldflags '-X helm.sh/helm/v4/internal/version.version=v4.3.1' -o ../target/oracle .

.PHONY: fuzz-diff
fuzz-diff: fuzz-oracle ## compare random templates and charts with Helm's library for MINUTES=10 (needs Go); SEED=1
	$(COMPARE) $(MINUTES) $(or $(SEED),1)

GRIDS ?= functions formats tokens texts languages

.PHONY: fuzz-grids
fuzz-grids: fuzz-oracle ## compare whole grids of arguments, formats, tokens and texts with Helm's library (needs Go and Python)
	mkdir -p fuzz/found
	for grid in $(GRIDS); do echo $$grid; python3 fuzz/grids.py $$grid > fuzz/found/grid.jsonl && $(COMPARE) replay fuzz/found/grid.jsonl || exit 1; done

# What `make bench` measures, in this order: WHO:N[:PHASE,...], see benches/operator/src/main.rs.
RUNS ?= client:1000 tillerman:1000 client:1000 tillerman:1000:create client:1000 helm-operator:1000:create \
	tillerman:100:create,rest,drift,spec,restart helm-operator:100:create,rest,drift,spec,restart

.PHONY: bench
bench: build ## measure the operator, helm-operator and a bare client, about 25 minutes; RUNS="tillerman:500 helm-operator:500" for others
	$(COMPILE) --bin tillerman-bench
	tests/cluster/build-tools.sh helm-operator
	CONTROLLERS=garbage-collector-controller,namespace-controller,serviceaccount-controller \
		tests/cluster/with.sh $(OUT)/$(HOST)/release/tillerman-bench $(BIN) helm-operator $(RUNS)

.PHONY: bench-large
bench-large: ## the same with 10,000 custom resources, without helm-operator
	$(MAKE) bench RUNS="tillerman:10000 client:10000"

.PHONY: bench-render
bench-render: build ## measure the rendering of Tillerman and of Helm, on the command line and in process
	benches/render.sh $(BIN)

.PHONY: clean
clean: ## remove build results (not the cached tools)
	$(CARGO) clean

#!/usr/bin/env bash
# Runs parts of the tests and ends with one line that sums them: run.sh PART...
#   format       rustfmt
#   lint         clippy, pedantic, warnings are errors; the documentation
#   library      the crate without its default features: a renderer without Kubernetes
#   unit         unit, case and documentation tests
#   conformance  charts and function vectors against the recorded output of Helm 4.3.1
#   instructions how many instructions three charts take, against the recorded counts
#   lint-charts  `tillerman lint` side by side with `helm lint` on the corpus
#   sources      charts from repositories, registries and directories, side by side with helm
#   alerts       alert rules and dashboard against Prometheus' own tool
#   cluster      tests on a real API server
#   peer         beside the real helm-operator: its releases go to us and back
#   members      members of etcd clusters, on processes of etcd
#   backup       backups of etcd 3.5 and 3.6 on an S3-compatible server, and restoring from them
#   faults       the same with faults: kills after each write, requests that fail, an API server that dies, all at random
#   traces       traces, as a real collector of OpenTelemetry gets them
#   node         the operator as a pod on a real node, under the rights that operator-sdk gives it
#   demo         `make demo` on a local control plane, from end to end
set -uo pipefail
cd "$(dirname "$0")/.."
. tests/cluster/env.sh
. tests/cluster/lib.sh
export RUST_BACKTRACE=0 # what a test says of its failure is enough, and would drown
export GOGC=${GOGC:-400} # control planes and members collect garbage less often: a quarter less work for some hundred MiB
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"; [ -z "${builder:-}" ] || kill "$builder" 2>/dev/null' EXIT
command -v cargo >/dev/null || { echo "error: Rust is needed: install it with rustup" >&2; exit 1; }
(need_protoc) || exit 1
cargo="nice cargo"
bin=${CARGO_TARGET_DIR:-target}/tillerman # what `make build` makes

# count NAME PASSED FAILED
count() {
	printf '%s: %s passed, %s failed\n\n' "$1" "$2" "$3"
	passed=$((passed + $2)) failed=$((failed + $3))
}

# within CMD...: a command that hangs is ended after LIMIT seconds with all it started, and has failed
within() {
	timeout --kill-after=30 "${LIMIT:-2400}" "$@"
	local code=$?
	[ $code != 124 ] || echo "error: not finished after ${LIMIT:-2400} s: $*" >&2
	return $code
}

# one NAME CMD...: a part that passes or fails as a whole
one() {
	local name=$1
	shift
	if within "$@"; then count "$name" 1 0; else count "$name" 0 1; fi
}

# cargo_tests NAME CMD...: sums what cargo's test runners print; a run that fails without saying so counts as one failure
cargo_tests() {
	local name=$1 p f code
	shift
	within "$@" 2>&1 | tee "$log"
	code=${PIPESTATUS[0]}
	p=$(awk '/^test result:/ {n += $4} END {print n + 0}' "$log")
	f=$(awk '/^test result:/ {n += $6} END {print n + 0}' "$log")
	[ "$code" = 0 ] || [ "$f" != 0 ] || f=1
	count "$name" "$p" "$f"
}

# sums NAME CMD...: sums the lines `…: N passed, N failed` of a script; one that fails without saying so counts as one failure
sums() {
	local name=$1 p f code
	shift
	within "$@" 2>&1 | tee "$log"
	code=${PIPESTATUS[0]}
	p=$(awk '/^[a-z]+: [0-9]+ passed, / {n += $2} END {print n + 0}' "$log")
	f=$(awk '/^[a-z]+: [0-9]+ passed, / {n += $4} END {print n + 0}' "$log")
	[ "$code" = 0 ] || [ "$f" != 0 ] || f=1
	count "$name" "$p" "$f"
}

# What the parts need is built meanwhile, in their order: the compiler of Rust often has work for one core only, and tests mostly wait. What
# fails here fails again, and is told, in the part that needs it.
declare -A ahead=([lint-charts]=control-plane [sources]=sources [alerts]=metrics [cluster]='control-plane sources members' [members]=members
	[backup]='members backup' [peer]='control-plane helm-operator' [faults]='control-plane members' [traces]=traces [node]='node issuer')
builder=
build_ahead() {
	local sets=() release= part
	for part in "$@"; do
		[ "$part" != node ] || tests/cluster/node-can.sh >/dev/null || continue
		sets+=(${ahead[$part]:-})
		case $part in conformance | instructions | lint-charts | faults | node | demo) release=1 ;; esac
	done
	[ "$release${sets[*]}" ] || return 0
	{
		[ ! "$release" ] || nice -n 19 make build
		[ ${#sets[@]} = 0 ] || nice -n 19 tests/cluster/build-tools.sh "${sets[@]}"
	} >/dev/null 2>&1 &
	builder=$!
}

build_ahead "$@"
for part in "$@"; do
	echo "== $part"
	case $part in
	format) one format $cargo fmt --check ;;
	lint)
		one "lint code" $cargo clippy --all-targets --features cluster-tests -- -D warnings
		RUSTDOCFLAGS="-D warnings" one "lint documentation" $cargo doc --no-deps --quiet
		one "lint crates" $cargo test --quiet --features cluster-tests --test crates
		;;
	library)
		one library $cargo clippy --no-default-features --lib --examples -- -D warnings
		RUSTDOCFLAGS="-D warnings" one "library documentation" $cargo doc --no-deps --no-default-features --quiet
		# For one test cargo does not build them by itself.
		$cargo build --no-default-features --examples || count "library examples" 0 1
		cargo_tests "library examples" $cargo test --no-default-features --test examples
		cargo_tests "library documentation tests" $cargo test --no-default-features --doc
		;;
	unit)
		# With the features of the parts below, so that the crate is compiled once for all.
		$cargo build --features cluster-tests --examples || { count unit 0 1; continue; }
		unit=($cargo test --features cluster-tests --no-fail-fast)
		tests=()
		for test in tests/*.rs tests/*/main.rs; do
			# Those that need a cluster are declared.
			grep -q "^path = \"$test\"" Cargo.toml || tests+=(--test "$(sed 's#^tests/##; s#/main##; s#\.rs$##' <<<"$test")")
		done
		cargo_tests unit "${unit[@]}" --lib --bins "${tests[@]}"
		cargo_tests "documentation tests" "${unit[@]}" --doc
		;;
	conformance)
		make --no-print-directory build || { count conformance 0 1; continue; }
		sums conformance tests/conformance/run.sh "$bin"
		;;
	instructions)
		make --no-print-directory build || { count instructions 0 1; continue; }
		sums instructions tests/instructions/run.sh "$bin"
		;;
	lint-charts)
		{ make --no-print-directory build && tests/cluster/build-tools.sh control-plane; } || { count lint-charts 0 1; continue; }
		sums lint-charts tests/lint.sh "$bin"
		;;
	sources)
		# The program is built with its tests, and as for them.
		$cargo test --no-run --features cluster-tests --test operator || { count sources 0 1; continue; }
		sums sources tests/sources/run.sh "${CARGO_TARGET_DIR:-target}/debug/tillerman"
		;;
	alerts) one alerts tests/alerts.sh ;;
	cluster)
		# Built before the cluster starts, so that it does not idle meanwhile.
		{ need_redis && tests/cluster/build-tools.sh control-plane sources members; } || { count cluster 0 1; continue; }
		$cargo build --features cluster-tests --example custom-driver || { count cluster 0 1; continue; }
		$cargo test --no-run --features cluster-tests --test operator || { count cluster 0 1; continue; }
		# They wait more than they work, whatever the number of cores.
		cargo_tests cluster tests/cluster/with.sh $cargo test --features cluster-tests --test operator -- --test-threads=6
		;;
	peer)
		peer=($cargo test --features cluster-tests --test peer)
		{ tests/cluster/build-tools.sh helm-operator && "${peer[@]}" --no-run; } || { count peer 0 1; continue; }
		cargo_tests peer tests/cluster/with.sh "${peer[@]}"
		;;
	members)
		members=($cargo test --features cluster-tests --test members)
		{ tests/cluster/build-tools.sh members && "${members[@]}" --no-run; } || { count members 0 1; continue; }
		LIMIT=1200 cargo_tests members "${members[@]}" -- --nocapture --test-threads=8
		ETCD=$TOOLS/etcd-3.5 LIMIT=1200 cargo_tests "members of etcd 3.5" "${members[@]}" -- --nocapture --test-threads=8
		;;
	backup)
		backup=($cargo test --features cluster-tests --test backup)
		{ tests/cluster/build-tools.sh members backup && "${backup[@]}" --no-run; } || { count backup 0 1; continue; }
		LIMIT=600 cargo_tests backup "${backup[@]}" -- --nocapture --test-threads=3
		;;
	faults)
		faults=($cargo test --features cluster-tests --test faults)
		{ "${faults[@]}" --no-run && make --no-print-directory build; } || { count faults 0 1; continue; }
		# As it is released: what is compiled for tests needs most of the cores for itself.
		faults=(env "TILLERMAN=$(realpath "$bin")" "${faults[@]}")
		cargo_tests "faults of requests" tests/cluster/with.sh "${faults[@]}" -- --nocapture --skip alone:: --skip etcd:: --test-threads=6
		# Members write and vote all the while: not beside what waits for seconds.
		tests/cluster/build-tools.sh members || { count faults 0 1; continue; }
		cargo_tests "faults of etcd" tests/cluster/with.sh "${faults[@]}" -- --nocapture --test-threads=7 etcd::
		CHAOS_SECONDS=${CHAOS_SECONDS:-120} cargo_tests "faults of the cluster" tests/cluster/with.sh "${faults[@]}" -- --nocapture --test-threads=1 alone::
		;;
	traces)
		tests/cluster/build-tools.sh traces || { count traces 0 1; continue; }
		$cargo test --no-run --features cluster-tests --test operator || { count traces 0 1; continue; }
		cargo_tests traces tests/cluster/with.sh $cargo test --features cluster-tests --test operator -- --ignored traces::
		;;
	node)
		make --no-print-directory build || { count node 0 1; continue; }
		cargo_tests node tests/node/run.sh "$bin"
		;;
	demo)
		make --no-print-directory build || { count demo 0 1; continue; }
		one demo tests/demo.sh "$bin"
		;;
	*) echo "error: unknown part '$part'" >&2; exit 2 ;;
	esac
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

#!/usr/bin/env bash
# Compares `tillerman lint` with `helm lint`: lint.sh BINARY [CHART...]
# Exit code, findings and their order must be equal. Without charts, those of the corpus are taken (as run.sh of
# tests/conformance unpacks them); schemas of other places, which helm would fetch, are told apart and not compared.
# Prints `lint: N passed, N failed`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cluster/env.sh"
bin=$(realpath "$1")
shift
helm=${HELM:-$TOOLS/helm}
[ -x "$helm" ] || { echo "lint: skipped, because there is no helm (make tools)"; exit 0; }
charts=("$@")
if [ $# = 0 ]; then
	root=$(find "${XDG_CACHE_HOME:-$HOME/.cache}/chart-conformance" -mindepth 2 -maxdepth 2 -name charts 2>/dev/null | head -1)
	[ -n "$root" ] || { echo "lint: skipped, because the corpus is not unpacked (make conformance)"; exit 0; }
	# Charts in charts are checked with those around them.
	mapfile -t charts < <(find "$root" -name Chart.yaml -exec dirname {} + | sort | awk '!last || index($0, last "/") != 1 { print; last = $0 }')
fi
# lint PROGRAM CHART [FLAG...]
lint() {
	local code=0 out
	out=$("$1" lint "${@:2}" 2>&1) || code=$?
	grep -v '^level=' <<<"$out" || true
	echo "exit $code"
}
# same CHART ANSWER: whether helm gives this answer; asked several times where it names things in the order of a Go map
same() {
	for _ in {1..20}; do
		want=$(lint "$helm" "$1")
		[ "$want" != "$2" ] || return 0
		[ "$(tr -s ', \n' '\n' <<<"$want" | sort)" = "$(tr -s ', \n' '\n' <<<"$2" | sort)" ] || return 1
	done
	return 1
}
# judge CHART: a line with what came of it
judge() {
	if same "$1" "$(lint "$bin" "$1" --no-explain)"; then
		echo passed
	elif grep -q 'HTTP request failed' <<<"$want"; then
		echo "  $1: has a schema of another place, which is not fetched"
	else
		echo "  $1 differs"
	fi
}
export -f lint same judge
export bin helm
told=$(printf '%s\0' "${charts[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'set -euo pipefail; judge "$1"' judge {})
grep -v '^passed$' <<<"$told" || true
count() { grep -c "$1" <<<"$told" || true; }
passed=$(count '^passed$') failed=$(count ' differs$')
echo "lint: $passed passed, $failed failed"
[ "$(wc -l <<<"$told")" = "${#charts[@]}" ] || { echo "lint: not all of ${#charts[@]} charts were judged" >&2; exit 1; }
[ "$failed" = 0 ]

#!/usr/bin/env bash
# Compares `tillerman template` with the recorded output of Helm 4.3.1: run.sh BINARY [--update]
# Standard output, the exit code and the message of an error must be Helm's (but for messages that Helm orders by chance).
# The cases that still fail stand in failing-charts.txt and failing-vectors.txt. These lists may only shrink: a case that
# is not listed and fails is a failure, and so is a listed case that passes (take it off with --update).
# Prints `charts: N passed, N failed` and the same of vectors; a listed case that fails counts in neither.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
bin=$(realpath "$1") update=${2:-}
corpus=${CORPUS:-$here/../../../shared/corpus}
if [ ! -e "$corpus/conformance.py" ]; then
	echo "conformance: skipped, because the corpus of recorded outputs is not beside this checkout (set CORPUS)"
	exit 0
fi
need zstd zstd python3 python3 tar tar
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
code=0

compare() { # compare NAME CONFORMANCE_FLAGS...
	local name=$1 list=$here/failing-$1.txt total
	shift
	python3 "$corpus/conformance.py" "$@" --strict-messages --bin "$bin" --show 0 --fail-list "$work/fails" >"$work/out" 2>&1 || true
	grep -q ' passed, ' "$work/out" || { cat "$work/out"; echo "$name: 0 passed, 1 failed"; code=1; return; }
	cut -f2 "$work/fails" | sort >"$work/now"
	if grep -E '^(crashed|timed out)' "$work/fails"; then code=1; fi
	if [ "$update" = --update ]; then
		if [ -e "$list" ]; then comm -12 "$list" "$work/now" >"$work/list"; else cp "$work/now" "$work/list"; fi
		mv "$work/list" "$list"
	fi
	comm -13 "$list" "$work/now" | sed 's/^/  fails, and passed before: /'
	comm -23 "$list" "$work/now" | sed "s/^/  passes now, so take it off the list (run.sh BINARY --update): /"
	total=$(tail -1 "$work/out" | awk '{print $1 + $3}')
	local wrong known
	wrong=$(comm -3 "$list" "$work/now" | wc -l)
	known=$(comm -12 "$list" "$work/now" | wc -l)
	echo "$name: $((total - wrong - known)) passed, $wrong failed ($known of $total still differ, as listed)"
	[ "$wrong" = 0 ] || code=1
}

compare charts --data "$corpus/charts"
compare vectors --vectors "$corpus/vectors.jsonl"
exit $code

#!/usr/bin/env bash
# Counts the instructions of `tillerman template` on three charts with callgrind, and compares them with counts.txt:
# run.sh BINARY [--update]
# A count that grows by more than 5 % fails: make it smaller again, or say in the commit why it grew (--update writes the new
# ones). Counts do not depend on how busy a machine is; the 5 % are for hash seeds, allocators and compilers.
# Prints `instructions: N passed, N failed`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
bin=$(realpath "$1") update=${2:-}
corpus=${CORPUS:-$here/../../../shared/corpus}
if [ ! -e "$corpus/charts/charts.tar.zst" ]; then
	echo "instructions: skipped, because the corpus of charts is not beside this checkout (set CORPUS)"
	exit 0
fi
need valgrind valgrind zstd zstd tar tar
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t charts < <(cut -f2 "$here/counts.txt")
zstd -qd --long=27 -c "$corpus/charts/charts.tar.zst" | tar x -C "$work" "${charts[@]}"
cd "$work"
passed=0 failed=0
while IFS=$'\t' read -r recorded chart; do
	now=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bin" template rel "$chart" --namespace ns 2>&1 >/dev/null |
		awk '/Collected/ {print $4}')
	printf '%12d %+6.1f %%  %s\n' "$now" "$(awk -v n="$now" -v r="$recorded" 'BEGIN {print (n / r - 1) * 100}')" "$chart"
	printf '%s\t%s\n' "$now" "$chart" >>"$work/counts"
	if [ $((now * 100)) -le $((recorded * 105)) ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done <"$here/counts.txt"
if [ "$update" = --update ]; then
	cp "$work/counts" "$here/counts.txt"
	failed=0
fi
echo "instructions: $passed passed, $failed failed"
[ "$failed" = 0 ]

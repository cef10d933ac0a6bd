#!/usr/bin/env bash
# Measures the operator with the harness that measured helm-operator, and prints its tables: operator.sh BINARY [N...]
# helm-operator runs in the same session, alternating, if it is on PATH. About 12 minutes for 1, 100 and 500.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/cluster/env.sh"
. "$here/../tests/cluster/lib.sh"
TILLERMAN=$(realpath "${1:?usage: operator.sh BINARY [N...]}")
export TILLERMAN
shift
harness=${BENCH:-$here/../../shared/bench}
[ -e "$harness/run.sh" ] || die "the benchmark harness is not beside this checkout (set BENCH to its folder)"
need python3 python3 jq jq openssl openssl curl curl
"$here/../tests/cluster/build-tools.sh" control-plane
export KUBE_BIN=$TOOLS ETCD=$TOOLS/etcd PEERS=$CACHE/bench OUT=$CACHE/bench/out
operators=(--op "$here/tillerman.json")
if command -v helm-operator >/dev/null; then operators+=(--op "$harness/profiles/helm-operator-altports.json"); fi
rm -f "$OUT/bench.jsonl"
for n in "${@:-1 100 500}"; do for n in $n; do
	"$harness/run.sh" bench -n "$n" "${operators[@]}" --steady-s 180 >"$CACHE/bench-$n.log" 2>&1 ||
		{ tail -20 "$CACHE/bench-$n.log" >&2; die "the benchmark with $n custom resources failed"; }
done; done
printf '%s, %s cores, %s GiB\n\n' "$(date +%F)" "$(nproc)" "$(awk '/MemTotal/ {printf "%.0f", $2 / 1048576}' /proc/meminfo)"
python3 "$harness/tables.py" "$OUT/bench.jsonl"

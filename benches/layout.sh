#!/usr/bin/env bash
# Writes benches/layout.ld anew, of what some forty charts of the corpus run, and an operator from its start until its five custom
# resources are gone: layout.sh TILLERMAN MAP OPERATOR_BENCHMARK...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/cluster/env.sh"
. "$here/../tests/cluster/lib.sh"
usage="usage: layout.sh TILLERMAN MAP OPERATOR_BENCHMARK..."
tillerman=$(realpath "${1:?$usage}") map=$(realpath "${2:?$usage}")
shift 2
benchmark=("${@:?$usage}")
corpus=$(realpath "${CORPUS:-$here/../../shared/corpus}")
[ -e "$corpus/charts/cases.jsonl" ] || die "the corpus of charts is not beside this checkout (set CORPUS to its folder)"
need python3 python3 valgrind valgrind nm binutils zstd zstd tar tar
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/operator"
# The benchmark kills what it has started, so callgrind writes all the while.
cat >"$work/tillerman" <<EOF
#!/bin/sh
exec valgrind --tool=callgrind --dump-instr=yes --compress-pos=no --dump-every-bb=10000000 --callgrind-out-file=$work/operator/%p "$tillerman" "\$@"
EOF
chmod +x "$work/tillerman"
REST_SECONDS=1 "$here/../tests/cluster/with.sh" "${benchmark[@]}" "$work/tillerman" true tillerman:5
mkdir -p "$CACHE/bench-render"
cd "$CACHE/bench-render"
[ -d charts ] || zstd -qd --long=27 -c "$corpus/charts/charts.tar.zst" | tar x
mapfile -t charts < <(python3 -c 'import json, sys
cases = [json.loads(line) for line in sys.stdin]
print(*sorted(c["chart"] for c in cases if c["group"] == "default" and c["exit"] == 0 and len(c["argv"]) < 6)[::15], sep="\n")' <"$corpus/charts/cases.jsonl")
nice python3 "$here/layout.py" "$tillerman" "$map" "$work/operator" "${charts[@]}" >"$here/layout.ld.new"
mv "$here/layout.ld.new" "$here/layout.ld"
# Cargo does not know of the file: only a change of a source links again.
touch "$here/../src/main.rs"

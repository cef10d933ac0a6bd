#!/usr/bin/env bash
# Writes benches/layout.ld anew from what some twenty charts of the corpus run: layout.sh TILLERMAN
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/cluster/env.sh"
. "$here/../tests/cluster/lib.sh"
tillerman=$(realpath "${1:?usage: layout.sh TILLERMAN}")
corpus=$(realpath "${CORPUS:-$here/../../shared/corpus}")
[ -e "$corpus/charts/cases.jsonl" ] || die "the corpus of charts is not beside this checkout (set CORPUS to its folder)"
need python3 python3 valgrind valgrind nm binutils zstd zstd tar tar
mkdir -p "$CACHE/bench-render"
cd "$CACHE/bench-render"
[ -d charts ] || zstd -qd --long=27 -c "$corpus/charts/charts.tar.zst" | tar x
mapfile -t charts < <(python3 -c 'import json, sys
cases = [json.loads(line) for line in sys.stdin]
print(*sorted(c["chart"] for c in cases if c["group"] == "default" and c["exit"] == 0 and len(c["argv"]) < 6)[::50], sep="\n")' <"$corpus/charts/cases.jsonl")
nice python3 "$here/layout.py" "$tillerman" "${charts[@]}" >"$here/layout.ld.new"
mv "$here/layout.ld.new" "$here/layout.ld"
# Cargo does not know of the file: only a change of a source links again.
touch "$here/../src/main.rs"

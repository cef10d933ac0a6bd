#!/usr/bin/env bash
# Measures rendering beside Helm 4.3.1 in one run, on the command line and in process, and prints the README's table:
# render.sh TILLERMAN. About six minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/cluster/env.sh"
. "$here/../tests/cluster/lib.sh"
tillerman=$(realpath "${1:?usage: render.sh TILLERMAN}")
corpus=$(realpath "${CORPUS:-$here/../../shared/corpus}")
[ -e "$corpus/charts/cases.jsonl" ] || die "the corpus of charts is not beside this checkout (set CORPUS to its folder)"
need python3 python3 time time zstd zstd tar tar
"$here/../tests/cluster/build-tools.sh" control-plane
(cd "$here/render/helm" && nice go build -o "$CACHE/bench-helm" .)
cd "$here/.."
rust=$(nice cargo bench --no-run --bench render --message-format=json 2>/dev/null |
	python3 -c 'import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["target"]["name"] == "render": print(message["executable"])')
[ -n "$rust" ] || die "the benchmark does not compile: cargo bench --no-run --bench render"
mkdir -p "$CACHE/bench-render"
cd "$CACHE/bench-render"
[ -d charts ] || zstd -qd --long=27 -c "$corpus/charts/charts.tar.zst" | tar x
# As an installation does: what is copied lies in the kernel's cache in larger pieces than what a linker wrote, and both programs start sooner.
cp "$tillerman" "$TOOLS/helm" .
python3 "$here/render.py" "$PWD/tillerman" "$PWD/helm" "$rust" "$CACHE/bench-helm" "$corpus/charts/cases.jsonl"

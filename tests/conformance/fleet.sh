#!/usr/bin/env bash
# `tillerman fleet` on the large corpus of charts, where it lies beside the checkout: fleet.sh BINARY
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
corpus=${CORPUS:-$here/../../../shared/corpus}/charts
[ -e "$corpus/cases.jsonl" ] || { echo "The large corpus is not beside this checkout (set CORPUS): nothing was compared."; exit 0; }
need zstd zstd python3 python3 tar tar
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar --zstd -xf "$corpus/charts.tar.zst" -C "$work"
python3 "$here/fleet.py" "$1" "$corpus/cases.jsonl" "$work"

#!/usr/bin/env bash
# How much of what values files of real charts render is in the rules that `tillerman rbac` makes without them: rights.sh
# Twenty of the charts on an API server, under exactly their rules: rights.sh lives
# The charts are those of the corpus beside the checkout (set CORPUS). SWEEP_SHARE=REMAINDER/OF takes a share of them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cluster/env.sh"
. "$here/cluster/lib.sh"
corpus=${CORPUS:-$here/../../shared/corpus}
if [ ! -e "$corpus/charts/charts.tar.zst" ]; then
	echo "rights: skipped, because the corpus of charts is not beside this checkout (set CORPUS)"
	exit 0
fi
need zstd zstd tar tar
# Where conformance.py of the corpus unpacks it, too.
hash=$(sha256sum "$corpus/charts/charts.tar.zst" | cut -c1-16)
base=${CONFORMANCE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}}/chart-conformance
if [ ! -d "$base/$hash/charts" ]; then
	mkdir -p "$base/$hash"
	new=$(mktemp -d -p "$base")
	zstd -qd --long=27 -c "$corpus/charts/charts.tar.zst" | tar x -C "$new"
	for part in "$new"/*; do [ -e "$base/$hash/${part##*/}" ] || mv "$part" "$base/$hash/"; done
	rm -rf "$new"
fi
export RIGHTS_CORPUS=$base/$hash
cd "$here/.."
if [ "${1:-}" = lives ]; then
	exec tests/cluster/with.sh nice cargo test --features cluster-tests --test operator -- --ignored rights:: --nocapture
fi
exec nice cargo test --features cluster-tests --test rights -- --ignored --nocapture

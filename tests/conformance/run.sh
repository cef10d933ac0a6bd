#!/usr/bin/env bash
# Compares `tillerman template` with the recorded output of Helm 4.3.1: run.sh BINARY
# The small corpus is part of the repository (corpus/, `corpus.py record HELM` records it again). The large one, of some 800 public
# charts, is compared when it lies beside the checkout.
# Standard output, the exit code and the message of an error must be Helm's (but for messages that Helm orders by chance),
# in every case of the corpus. Prints `charts: N passed, N failed`, the same of vectors, and the first cases that differ.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
bin=$(realpath "$1")
corpus=${CORPUS:-$here/../../../shared/corpus}
need python3 python3
code=0
python3 "$here/corpus.py" compare "$bin" || code=1
if [ ! -e "$corpus/conformance.py" ]; then
	echo "The large corpus is not beside this checkout (set CORPUS): only the small one was compared."
	exit $code
fi
need zstd zstd python3 python3 tar tar
out=$(mktemp)
trap 'rm -f "$out"' EXIT

compare() { # compare NAME CONFORMANCE_FLAGS...
	local name=$1
	shift
	local failed=0
	python3 "$corpus/conformance.py" "$@" --strict-messages --bin "$bin" --show 10 >"$out" 2>&1 || failed=1 code=1
	if grep -q ' passed, ' "$out"; then
		[ "$failed" = 0 ] || cat "$out"
		echo "$name: $(tail -1 "$out" | awk '{print $1}') passed, $(tail -1 "$out" | awk '{print $3}') failed"
	else
		cat "$out"
		echo "$name: 0 passed, 1 failed"
		code=1
	fi
}

compare charts --data "$corpus/charts"
compare vectors --vectors "$corpus/vectors.jsonl"
exit $code

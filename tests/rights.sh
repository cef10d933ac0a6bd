#!/usr/bin/env bash
# How much of what values files of real charts render is in the rules that `tillerman rbac` makes without them: rights.sh
# Twenty of the charts on an API server, under exactly their rules: rights.sh lives
# The charts are those of the corpus beside the checkout (set CORPUS). SWEEP_CHARTS=REMAINDER/OF takes a share of them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cluster/env.sh"
. "$here/cluster/lib.sh"
cd "$here/.."
need_corpus
if [ -z "${CHARTS:-}" ]; then
	echo "rights: skipped, because the corpus of charts is not beside this checkout (set CORPUS)"
	exit 0
fi
export RIGHTS_CORPUS=$CHARTS
if [ "${1:-}" = lives ]; then
	exec tests/cluster/with.sh nice cargo test --workspace --features tillerman/cluster-tests --test operator -- --ignored rights:: --nocapture
fi
exec nice cargo test --workspace --features tillerman/cluster-tests --test rights -- --ignored --nocapture

#!/usr/bin/env bash
# Removes what demo.sh left: the local node with all on it.
set -uo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/cluster/env.sh"
"$top/tests/cluster/node-down.sh" --all
rm -rf "$CACHE/demo-stack"

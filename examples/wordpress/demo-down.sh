#!/usr/bin/env bash
# Removes the local node of demo.sh with everything on it.
set -uo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/cluster/env.sh"
"$top/tests/cluster/node-down.sh" --all
rm -rf "$CACHE/demo-wordpress"

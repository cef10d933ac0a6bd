#!/usr/bin/env bash
# Checks .github/workflows with actionlint, and that each of their commands is a make target of this project.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/cluster/env.sh
tests/cluster/build-tools.sh bundle
"$TOOLS/actionlint" -shellcheck= -pyflakes=
# shellcheck disable=SC2013
for target in $(sed -nE 's/^[^#]*\brun: .*\bmake ([a-z-]+).*/\1/p' .github/workflows/*.yml | sort -u); do
	grep -qE "^$target:" Makefile || { echo "make $target is in a workflow and not in the Makefile" >&2; exit 1; }
done
echo "workflows: no errors"

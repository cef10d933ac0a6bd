#!/usr/bin/env bash
# Runs a command beside a control plane that lives as long as the command: with.sh CMD...
# The command sees TILLERMAN_TEST_CLUSTER (the folder that up.sh filled), KUBECONFIG (admin) and the tools on PATH.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
"$here/build-tools.sh" sources # a registry for charts
dir=$(mktemp -d "${TMPDIR:-/tmp}/tillerman-cluster.XXXXXX")
"$here/up.sh" "$dir"
code=0
TILLERMAN_TEST_CLUSTER=$dir KUBECONFIG=$dir/admin.kubeconfig PATH=$TOOLS:$PATH "$@" || code=$?
if [ $code = 0 ]; then "$here/down.sh" "$dir"; else
	"$here/down.sh" "$dir" --keep-logs
	echo "the cluster's logs are kept in $dir" >&2
fi
exit $code

#!/usr/bin/env bash
# Runs the demo on a local control plane of its own, twice, and checks what it shows: demo.sh TILLERMAN_BINARY
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(realpath "${1:?usage: demo.sh TILLERMAN_BINARY}")
work=$(mktemp -d)
unset KUBECONFIG
# The tools are shared with everything else; what the demo makes goes to a folder of its own.
. "$here/cluster/env.sh"
export TOOLS XDG_CACHE_HOME=$work DEMO_PODS=no
trap '"$here/../examples/php/demo-down.sh" >/dev/null 2>&1; rm -rf "$work"' EXIT
for round in 1 2; do
	"$here/../examples/php/demo.sh" "$bin" >"$work/out" 2>&1 || { cat "$work/out"; echo "the demo failed"; exit 1; }
done
for wanted in 'deployment.apps/hello' 'service/hello' 'ingress.networking.k8s.io/hello' 'configmap/hello-source' 'Deployed  *True' \
	'Upgrade complete\|upgrade complete' 'superseded' 'Invalid value: "string"' 'No resources found' 'make demo-down'; do
	grep -q "$wanted" "$work/out" || { cat "$work/out"; echo "the demo does not show: $wanted"; exit 1; }
done
"$here/../examples/php/demo-down.sh" >"$work/down"
[ ! -e "$work/tillerman/demo" ] || { echo "demo-down left $work/tillerman/demo"; exit 1; }
if pgrep -fa "$work|$bin run"; then echo "demo-down left these processes"; exit 1; fi
echo "the demo ran twice and left nothing"

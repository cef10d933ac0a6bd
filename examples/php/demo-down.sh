#!/usr/bin/env bash
# Removes everything that demo.sh made: custom resources and CRD on your own cluster, the operator, the local cluster.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
. "$top/tests/cluster/env.sh"
. "$top/tests/cluster/lib.sh"
demo=$CACHE/demo
PATH=$PATH:$TOOLS
if [ -n "${KUBECONFIG:-}" ]; then
	kubectl delete phpapps --all --all-namespaces --ignore-not-found --timeout=60s
	kubectl delete crd phpapps.apps.tillerman.dev --ignore-not-found
fi
if [ -s "$demo/operator.pid" ] && kill "$(cat "$demo/operator.pid")" 2>/dev/null; then
	until_ok 30 test ! -e "/proc/$(cat "$demo/operator.pid")"
fi
case $(cat "$demo/cluster" 2>/dev/null) in
node) "$top/tests/cluster/node-down.sh" --all ;;
control-plane) "$top/tests/cluster/down.sh" "$demo/control-plane" ;;
esac
rm -rf "$demo"
echo "The demo is gone; the programs and images it was built from stay in $CACHE."

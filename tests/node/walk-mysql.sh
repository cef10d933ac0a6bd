#!/usr/bin/env bash
# Runs the commands of docs/how-to/mysql.md on a real node, in one shell: walk-mysql.sh TILLERMAN_BINARY AGENT_BINARY
# No registry is reached from here, so images of Debian's packages have the names that the chart gives; the commands are not changed.
# Prints the seconds of each section.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
usage="usage: walk-mysql.sh TILLERMAN_BINARY AGENT_BINARY"
bin=$(realpath "${1:?$usage}") agent=$(realpath "${2:?$usage}")
. "$top/tests/cluster/env.sh"
. "$top/tests/cluster/lib.sh"
why=$("$top/tests/cluster/node-can.sh") || { echo "no pods run here, so the walk did not: $why"; exit 0; }
need jq jq make make
work=$(mktemp -d)
undo=true
trap '$undo || true; rm -rf "$work"' EXIT
stop_node() { "$top/tests/cluster/node-down.sh"; }
if [ ! -s "$STATE/node.pid" ] || ! kill -0 "$(cat "$STATE/node.pid")" 2>/dev/null; then undo=stop_node; fi
"$top/tests/cluster/node-up.sh"
node_ctr "$work/bin"
ln -s "$bin" "$work/bin/tillerman"
export KUBECONFIG=$STATE/admin.kubeconfig PATH=$work/bin:$TOOLS:$PATH CHECKOUT=$top LOAD=containerd
"$here/mysql-images.sh" "$bin" "$agent" "$work/images"
image=$(sed -n 's/^  image: \(tillerman:.*\)/\1/p' "$top/charts/mysql/values.yaml" | head -1)
"$bin" image --bare --tag "$image" --format oci-archive --output "$work/images/tillerman.tar" >/dev/null
for archive in "$work"/images/*.tar; do ctr -n k8s.io images import "$archive" >/dev/null; done
named() { ctr -n k8s.io images tag --force "$1" "$2" >/dev/null; }
named localhost/mariadb:10.11.19 docker.io/library/mariadb:10.11.19
named localhost/mariadb:11.8 docker.io/library/mariadb:11.8
named localhost/tillerman-agent:test "docker.io/library/$(sed -n 's/^agentImage: //p' "$top/charts/mysql/values.yaml")"

# The commands of each section, with a line before them that says when they begin.
blocks "$top/docs/how-to/mysql.md" | sed -E 's/^##+ (.*)/printf "%s \\n" "$SECONDS s  \1"/' >"$work/commands"
[ "$(grep -c '^printf' "$work/commands")" -gt 5 ] || { echo "docs/how-to/mysql.md has no commands" >&2; exit 1; }
cd "$work"
{ timeout 900 bash -euo pipefail "$work/commands" </dev/null || { echo failed; false; }; } 2>&1 | tee "$work/output" || {
	kubectl get mysql,pods,pvc >&2
	kubectl get mysql -o yaml >&2
	for pod in $(kubectl get pods -o name); do kubectl logs "$pod" --all-containers --prefix --tail=15 >&2 || true; done
	kubectl get events --sort-by=.lastTimestamp | tail -30 >&2
	exit 1
}
left() { kubectl get mysql,pods,pvc,secrets,configmaps,services -o name 2>/dev/null | grep -v -e /kube-root-ca.crt -e /kubernetes; }
none() { ! left; }
until_ok 120 none || { left >&2; exit 1; }
echo "docs/how-to/mysql.md: 1 passed, 0 failed; $SECONDS s"

#!/usr/bin/env bash
# Gives the running node a class of volumes that grow and have snapshots: `growing`, and of snapshots with the same name.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/lib.sh"
"$here/build-tools.sh" volumes
kubectl() { "$TOOLS/kubectl" --kubeconfig "$STATE/admin.kubeconfig" "$@"; }
driver=volumes.test.tillerman.dev
socket=/var/lib/kubelet/plugins/$driver/csi.sock
definitions=$(cd "$here/tools/csi" && go mod download github.com/kubernetes-csi/external-snapshotter/client/v8 &&
	go list -m -f '{{.Dir}}' github.com/kubernetes-csi/external-snapshotter/client/v8)/config/crd
start() { # start NAME ARGS...
	local name=$1
	shift
	! "$here/node-in.sh" "$(command -v pgrep)" -x "${name:0:15}" >/dev/null || return 0
	"$here/node-in.sh" "$(command -v setsid)" "$(command -v env)" PATH="$PATH:/usr/sbin:/sbin" "$TOOLS/$name" "$@" \
		>"$STATE/log/$name.log" 2>&1 </dev/null &
}
for kind in volumesnapshotclasses volumesnapshotcontents volumesnapshots; do
	kubectl apply --server-side -f "$definitions/snapshot.storage.k8s.io_$kind.yaml"
done >"$STATE/log/csi.log"
kubectl apply -f "$here/csi.yaml" >>"$STATE/log/csi.log"
kubectl wait --for=condition=Established crd/volumesnapshots.snapshot.storage.k8s.io --timeout=30s >>"$STATE/log/csi.log"
start csi-driver --folder="$STATE/csi" --node="$NODE"
until_ok 30 "$here/node-in.sh" "$(command -v test)" -S "$socket"
admin=--kubeconfig=$STATE/admin.kubeconfig
start csi-provisioner "$admin" --csi-address="$socket" --retry-interval-max=5s --timeout=60s
start csi-resizer "$admin" --csi-address="$socket" --retry-interval-max=5s --timeout=60s
start csi-snapshotter "$admin" --csi-address="$socket" --retry-interval-max=5s --timeout=60s
start snapshot-controller "$admin" --retry-interval-max=5s
is_registered() { kubectl get csinode "$NODE" -o 'jsonpath={.spec.drivers[*].name}' | grep -qF "$driver"; }
until_ok 60 is_registered || die "the kubelet does not know the driver; its log is $STATE/log/csi-driver.log"

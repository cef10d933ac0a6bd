#!/usr/bin/env bash
# Shows a cluster of etcd on a real local node, step by step: demo.sh TILLERMAN_BINARY
# The operator runs as a pod with the chart of etcd; the images of etcd contain only its programs. The node stays: demo-down.sh removes it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
bin=$(realpath "${1:?usage: demo.sh TILLERMAN_BINARY}")
. "$top/tests/cluster/env.sh"
. "$top/tests/cluster/lib.sh"
demo=$CACHE/demo-etcd
mkdir -p "$demo"
step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }
why=$("$top/tests/cluster/node-can.sh") || { echo "No pods run here: $why"; exit 1; }

step "1. A local cluster with one node, and images of etcd 3.5 and 3.6 without a shell"
"$top/tests/cluster/build-tools.sh" members backup
"$top/tests/cluster/node-up.sh"
export KUBECONFIG=$STATE/admin.kubeconfig PATH=$TOOLS:$PATH
"$top/tests/node/etcd-images.sh" "$bin" "$demo/images"
for archive in "$demo"/images/*.tar; do
	"$top/tests/cluster/node-in.sh" "$(command -v ctr)" -a /run/containerd/containerd.sock -n k8s.io \
		images import --snapshotter overlayfs "$archive"
done

step "2. The custom resource of coreos' etcd-operator, and the operator with its rights"
echo '$ tillerman crd charts/etcd | kubectl apply -f -'
"$bin" crd "$top/charts/etcd" | kubectl apply --server-side -f -
echo '$ tillerman crd charts/etcd-backup | kubectl apply -f -'
"$bin" crd "$top/charts/etcd-backup" | kubectl apply --server-side -f -
echo '$ tillerman crd --require charts/etcd-restore | kubectl apply -f -'
"$bin" crd --require "$top/charts/etcd-restore" | kubectl apply --server-side -f -
for crd in etcdclusters etcdbackups etcdrestores; do
	until_ok 30 kubectl wait --for=condition=Established "crd/$crd.etcd.database.coreos.com" --timeout=1s
done
echo '$ kubectl apply -f examples/etcd/operator.yaml'
sed 's|image: etcd-operator:latest|image: localhost/etcd-operator:test|; s|tillerman:0.1.0|localhost/tillerman:test|' "$here/operator.yaml" | kubectl apply -f -
show kubectl -n etcd-operator rollout status deployment/etcd-operator --timeout=120s

# spec PATCH: changes the cluster, and waits until it is ready
spec() {
	[ -z "$1" ] || show kubectl patch etcd example --type=merge -p "{\"spec\":$1}"
	until_ok 400 is_ready || { kubectl get etcd example -o yaml >&2; exit 1; }
	kubectl get etcd example
}
is_ready() {
	kubectl get etcd example -o json | jq -e '.status.observedGeneration == .metadata.generation and
		any(.status.conditions[]; .type == "Ready" and .status == "True")'
}
# The demo uses the address of the Service; in a pod, the address is http://example-client.default.svc:2379.
ctl() {
	local address
	address=$(kubectl get service example-client -o jsonpath='{.spec.clusterIP}')
	etcdctl --endpoints "http://$address:2379" --command-timeout 10s "$@"
}

step "3. Three members"
kubectl delete etcd example --ignore-not-found --timeout=60s >/dev/null
kubectl delete etcdbackup demo --ignore-not-found --timeout=60s >/dev/null
kubectl delete pvc -l etcd_cluster=example --ignore-not-found >/dev/null
kubectl delete pvc backups --ignore-not-found --wait=false >/dev/null
show cat "$here/cluster.yaml"
sed 's|^  size: 3|  size: 3\n  repository: localhost/etcd\n  storage: {size: 1Gi, onDelete: Delete}\n  members: {deadAfter: 20s}|' "$here/cluster.yaml" | kubectl apply -f -
spec ''
show kubectl get pods,pvc -l etcd_cluster=example
ctl member list -w table

step "4. A writer, from now on: one key after another, each noted when it is acknowledged"
: >"$demo/acknowledged"
(
	n=0
	while [ -e "$demo/acknowledged" ]; do
		n=$((n + 1))
		! ctl put "demo/$n" x >/dev/null 2>&1 || echo "demo/$n" >>"$demo/acknowledged"
	done
) &
writer=$!
trap 'kill $writer 2>/dev/null || true' EXIT

step "5. Five members, and three again"
spec '{"size":5}'
ctl member list -w table
spec '{"size":3}'

step "6. A member's pod and volume are destroyed"
before=$(ctl member list)
show kubectl delete pvc data-example-1 --wait=false
show kubectl delete pod example-1
replaced() { ctl member list | grep started | grep example-1 | grep 'false$' && [ "$(ctl member list | grep example-1)" != "$(grep example-1 <<<"$before")" ]; }
until_ok 300 replaced
spec ''
ctl member list -w table

step "7. From 3.5 to 3.6, member by member"
spec '{"version":"3.6.16"}'
ctl endpoint status -w table

step "8. Every acknowledged write is there"
kill $writer
wait $writer 2>/dev/null || true
ctl get demo/ --prefix --keys-only | grep . | sort >"$demo/found"
sort "$demo/acknowledged" >"$demo/wanted"
lost=$(comm -23 "$demo/wanted" "$demo/found" | wc -l)
echo "$(wc -l <"$demo/wanted") writes acknowledged, $lost lost"
[ "$lost" = 0 ]

step "9. Back to 3.5 is no way that etcd goes"
kubectl patch etcd example --type=merge -p '{"spec":{"version":"3.5.35"}}' >/dev/null
refused() { kubectl get etcd example -o json | jq -e 'any(.status.conditions[]; .type == "Ready" and .reason == "VersionDowngrade")'; }
until_ok 60 refused
kubectl get etcd example

kubectl patch etcd example --type=merge -p '{"spec":{"version":"3.6.16"}}' >/dev/null
spec ''

step "10. A backup onto a volume, as a custom resource"
kubectl apply -f - <<EOF
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: backups}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: etcd.database.coreos.com/v1beta2
kind: EtcdBackup
metadata: {name: demo}
spec:
  etcdEndpoints: [http://example-client:2379]
  storageType: Volume
  volume: {path: example/demo, claimName: backups}
  securityContext: {runAsUser: 0, runAsNonRoot: false} # volumes of this node are root's
EOF
show kubectl wait etcdbackup/demo --for=condition=Ready --timeout=120s
kubectl get pods -l app.kubernetes.io/instance=demo -o jsonpath='{.items[0].status.containerStatuses[0].state.terminated.message}{"\n"}'

step "11. The cluster and its volumes are deleted, and another begins with the backup"
show kubectl delete etcd example --timeout=120s
no_volumes() { [ -z "$(kubectl get pvc -l etcd_cluster=example -o name)" ]; }
until_ok 120 no_volumes
kubectl apply -f - <<EOF
apiVersion: etcd.database.coreos.com/v1beta2
kind: EtcdCluster
metadata: {name: example}
spec:
  size: 3
  version: 3.6.16
  repository: localhost/etcd
  storage: {size: 1Gi, onDelete: Delete}
  restore:
    storageType: Volume
    volume: {path: example/demo, claimName: backups}
    image: localhost/tillerman:test
EOF
spec ''
ctl member list -w table
ctl get demo/ --prefix --keys-only | grep . | sort >"$demo/restored"
lost=$(comm -23 "$demo/wanted" "$demo/restored" | wc -l)
echo "$(wc -l <"$demo/restored") keys restored, $lost lost"
[ "$lost" = 0 ]

step "How to go on"
cat <<EOF
  export KUBECONFIG=$KUBECONFIG PATH=$TOOLS:\$PATH
  kubectl get etcd --watch
To stop the node: examples/etcd/demo-down.sh
EOF

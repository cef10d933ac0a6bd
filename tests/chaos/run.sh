#!/usr/bin/env bash
# Does harm to clusters of MariaDB and of etcd on a real node while clients write: run.sh TILLERMAN_BINARY AGENT_BINARY
# CHAOS_OF says of which (mysql etcd), CHAOS_SECONDS how long for each seed, and CHAOS_SEEDS which seeds. A node that runs already is used and
# left; one that is started for this is stopped again. A machine that can run none says why in one line.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
usage="usage: run.sh TILLERMAN_BINARY AGENT_BINARY"
bin=$(realpath "${1:?$usage}") agent=$(realpath "${2:?$usage}")
. "$top/tests/cluster/env.sh"
. "$top/tests/cluster/lib.sh"
why=$("$top/tests/cluster/node-can.sh") || { echo "no pods run here, so no harm was done: $why"; exit 0; }
of=${CHAOS_OF:-mysql etcd}
work=$(mktemp -d)
undo=true
trap '$undo || true; rm -rf "$work"' EXIT

need make make mkfs.ext4 e2fsprogs fsfreeze util-linux
# Debian's own Python, with a client of MySQL.
/usr/bin/python3 -c 'import pymysql' 2>/dev/null || need pymysql-of-debian python3-pymysql
[[ $of != *etcd* ]] || "$top/tests/cluster/build-tools.sh" members backup
runs=no
if [ -s "$STATE/node.pid" ] && kill -0 "$(cat "$STATE/node.pid")" 2>/dev/null; then runs=yes; fi
"$top/tests/cluster/node-up.sh"
[ $runs = yes ] || undo=$top/tests/cluster/node-down.sh
export KUBECONFIG=$STATE/admin.kubeconfig
node_ctr "$work/bin"
ln -sf "$bin" "$work/bin/tillerman"
export PATH=$work/bin:$TOOLS:$PATH LOAD=containerd

# What a user does: an operator of charts/mysql is made, and deployed.
operator_of_mysql() {
	"$top/tests/node/mysql-images.sh" "$bin" "$agent" "$work/images"
	for archive in "$work"/images/*.tar; do ctr -n k8s.io images import "$archive" >/dev/null; done
	mkdir "$work/mysql-operator"
	cd "$work/mysql-operator"
	tillerman init --domain tillerman.dev --group databases --version v1alpha1 --kind MySQLCluster --plural mysqlclusters \
		--helm-chart "$top/charts/mysql" >/dev/null
	make image-load deploy >/dev/null
	cd "$top"
	kubectl -n mysql-operator-system rollout status deployment/mysql-operator-controller-manager --timeout=120s >/dev/null
}

operator_of_etcd() {
	"$top/tests/node/etcd-images.sh" "$bin" "$work/etcd-images"
	for archive in "$work"/etcd-images/*.tar; do ctr -n k8s.io images import "$archive" >/dev/null; done
	"$bin" crd "$top/charts/etcd" | kubectl apply --server-side -f - >/dev/null
	"$bin" crd "$top/charts/etcd-backup" | kubectl apply --server-side -f - >/dev/null
	"$bin" crd --require "$top/charts/etcd-restore" | kubectl apply --server-side -f - >/dev/null
	for crd in etcdclusters etcdbackups etcdrestores; do
		until_ok 30 kubectl wait --for=condition=Established "crd/$crd.etcd.database.coreos.com" --timeout=1s
	done
	sed 's|image: etcd-operator:latest|image: localhost/etcd-operator:test|; s|tillerman:0.1.0|localhost/tillerman:test|' \
		"$top/examples/etcd/operator.yaml" | kubectl apply -f - >/dev/null
	kubectl -n etcd-operator rollout status deployment/etcd-operator --timeout=120s >/dev/null
}

failed=0
for what in $of; do
	"operator_of_$what"
	for seed in ${CHAOS_SEEDS:-1 2 3}; do
		echo "--- $what, seed $seed, ${CHAOS_SECONDS:-600} s"
		/usr/bin/python3 -B "$here/$what.py" --seconds "${CHAOS_SECONDS:-600}" --seed "$seed" ${CHAOS_HARMS:+--harms "$CHAOS_HARMS"} || failed=1
	done
done
exit $failed

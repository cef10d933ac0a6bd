#!/usr/bin/env bash
# Shows a cluster of MariaDB on a real local node, step by step: demo.sh TILLERMAN_BINARY AGENT_BINARY
# The operator is a project that `tillerman init` makes from charts/mysql. It runs as a pod with the rights that the chart needs. The node
# stays: demo-down.sh removes it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../local-node.sh" demo-mysql "$@"
need mariadb mariadb-client-core

step "1. A local cluster with one node"
"$top/tests/cluster/node-up.sh"
export KUBECONFIG=$STATE/admin.kubeconfig PATH=$TOOLS:$PATH

step "2. The operator: a project of the chart, its image, and the rights that the chart needs"
WITH_MYSQL=yes "$top/tests/node/mysql-operator.sh" "$bin" "$agent" "$demo"
kubectl delete mysql example --ignore-not-found --timeout=60s >/dev/null
kubectl delete pvc -l app.kubernetes.io/instance=example --ignore-not-found >/dev/null
kubectl delete pvc backups --ignore-not-found --wait=false >/dev/null

# spec PATCH: changes the cluster, and waits until it is ready
spec() {
	[ -z "$1" ] || show kubectl patch mysql example --type=merge -p "{\"spec\":$1}"
	settled
}
settled() {
	until_ok 300 is_ready || { kubectl get mysql example -o yaml >&2; kubectl get pods >&2; exit 1; }
	kubectl get mysql example
	kubectl get pods -l app.kubernetes.io/instance=example,tillerman.dev/role -L tillerman.dev/role
}
is_ready() {
	kubectl get mysql example -o json | jq -e '.status.observedGeneration == .metadata.generation and
		any(.status.conditions[]; .type == "Ready" and .status == "True") and
		.status.readyMembers == .spec.replicas and (.spec.replicas == 1 or .status.safeToFailOver)'
}
primary() { kubectl get mysql example -o jsonpath='{.status.primary}'; }
is_primary() { [ "$(primary)" = "$1" ]; }
# The demo uses the address of the Service.
sql() { MYSQL_PWD=$password timeout 10 mariadb -h "$address" -u root --connect-timeout=2 -N -e "$1"; }

step "3. One member"
sed 's|^  replicas: 3|  replicas: 1\n  image: localhost/mariadb:10.11.19\n  agentImage: localhost/tillerman-agent:test\n  storage: {size: 1Gi, onDelete: Delete}|' \
	"$here/cluster.yaml" | tee /dev/stderr | kubectl apply -f -
settled
address=$(kubectl get service example-primary -o jsonpath='{.spec.clusterIP}')
password=$(kubectl get secret example-root -o jsonpath='{.data.password}' | base64 -d)
sql 'CREATE DATABASE demo; CREATE TABLE demo.written (id INT PRIMARY KEY)'

step "4. A writer, from now on: one row after another, each noted when it is acknowledged"
: >"$demo/acknowledged"
: >"$demo/refused"
touch "$demo/writing"
(
	n=0 last=$(date +%s%N)
	while [ -e "$demo/writing" ]; do
		n=$((n + 1))
		sql "INSERT INTO demo.written VALUES ($n)" >/dev/null 2>"$demo/error" || { echo "$(date +%T.%3N) $(cat "$demo/error")" >>"$demo/refused"; continue; }
		now=$(date +%s%N)
		echo "$n $(((now - last) / 1000000))" >>"$demo/acknowledged"
		last=$now
	done
) &
writer=$!
trap 'rm -f "$demo/writing"; kill $writer 2>/dev/null || true' EXIT
# gap: the longest time without an acknowledged write since the last call
seen=0
gap() {
	sleep 1 # so that writes after the step count, too
	echo "longest time without an acknowledged write: $(tail -n +$((seen + 1)) "$demo/acknowledged" | awk '$2 > most { most = $2 } END { print most + 0 }') ms"
	seen=$(wc -l <"$demo/acknowledged")
}

step "5. Three members, and five"
spec '{"replicas":3}'
gap
spec '{"replicas":5}'
gap

step "6. The primary's pod is deleted: it hands over first"
old=$(primary)
show kubectl delete pod "$old" --wait=false
moved() { [ "$(primary)" != "$old" ]; }
until_ok 60 moved
settled
gap

step "7. Another primary is asked for"
old=$(primary)
show kubectl annotate mysql example tillerman.dev/switch-over=any
until_ok 60 moved
kubectl get mysql example -o jsonpath='{.status.members.db.switchOver}{"\n"}'
settled
gap

step "8. The primary's container is killed"
old=$(primary)
show kubectl delete pod "$old" --grace-period=0 --force
until_ok 60 moved
settled
gap

step "9. A replica's volume is destroyed"
victim=$(kubectl get pods -l app.kubernetes.io/instance=example,tillerman.dev/role=replica -o jsonpath='{.items[0].metadata.name}')
claim=$(kubectl get pvc "data-$victim" -o jsonpath='{.metadata.uid}')
show kubectl delete pvc "data-$victim" --wait=false
show kubectl delete pod "$victim" --grace-period=0 --force
replaced() { [ "$(kubectl get pvc "data-$victim" -o jsonpath='{.metadata.uid}')" != "$claim" ]; }
until_ok 120 replaced
settled
gap

step "10. A setting that needs a restart: replicas first, then the primary hands over. Another one that does not"
spec '{"configuration":{"back_log":77,"max_connections":177}}'
[ "$(sql 'SELECT @@back_log, @@max_connections' | tr '\t' ' ')" = "77 177" ]
gap
uids() { kubectl get pods -l app.kubernetes.io/instance=example,tillerman.dev/role -o jsonpath='{.items[*].metadata.uid}'; }
pods=$(uids)
spec '{"configuration":{"back_log":77,"max_connections":277}}'
in_use() { [ "$(sql 'SELECT @@max_connections')" = 277 ]; }
until_ok 150 in_use
[ "$(uids)" = "$pods" ]
gap

step "11. MariaDB 11.8: replicas first"
spec '{"image":"localhost/mariadb:11.8","version":"11.8"}'
sql 'SELECT @@version'
gap

step "12. Two members"
spec '{"replicas":2}'
gap

step "13. A backup, while the writer goes on"
kubectl apply -f - <<'EOF'
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: backups
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
EOF
spec '{"backup":{"storageType":"Volume","volume":{"path":"example/db","claimName":"backups"}},"backupOnDelete":true}'
show kubectl annotate mysql example tillerman.dev/operation=backup@1
backed_up() { [ "$(kubectl get mysql example -o jsonpath='{.status.operations.backup.result}')" = Succeeded ]; }
until_ok 120 backed_up
gap

step "14. A drill restores it in a pod of its own; a second one finds a harm"
spec '{"backup":{"drill":{"size":"1Gi","checks":["SELECT 1 FROM demo.written LIMIT 1"]}}}'
drilled() { [ "$(kubectl get mysql example -o jsonpath='{.status.operations.drill.result}')" = "$1" ]; }
show kubectl annotate mysql example --overwrite tillerman.dev/operation=drill@1
until_ok 180 drilled Succeeded
kubectl get mysql example -o jsonpath='{.status.operations.drill}{"\n"}'
spec '{"backup":{"drill":{"size":"1Gi","checks":["SELECT 1 FROM demo.missing LIMIT 1"]}}}'
show kubectl annotate mysql example --overwrite tillerman.dev/operation=drill@2
until_ok 180 drilled Failed
kubectl get mysql example -o jsonpath='{.status.operations.drill}{"\n"}'
gap

step "15. It sleeps: its volumes stay, and no pod is left; then it wakes"
show kubectl patch mysql example --type=merge -p '{"spec":{"sleep":true}}'
asleep() { [ "$(kubectl get mysql example -o jsonpath='{.status.conditions[?(@.type=="Ready")].reason}')" = Asleep ]; }
until_ok 120 asleep
show kubectl get statefulset,pvc -l app.kubernetes.io/instance=example
spec '{"sleep":false}'
settled
gap

step "16. Every acknowledged write is there, on each member"
rm "$demo/writing"
wait $writer 2>/dev/null || true
cut -d' ' -f1 "$demo/acknowledged" | sort >"$demo/wanted"
for pod in $(kubectl get pods -l app.kubernetes.io/instance=example,tillerman.dev/role -o name); do
	address=$(kubectl get "$pod" -o jsonpath='{.status.podIP}')
	sql 'SELECT id FROM demo.written' | sort >"$demo/found"
	lost=$(comm -23 "$demo/wanted" "$demo/found" | wc -l)
	echo "$pod: $(wc -l <"$demo/wanted") writes acknowledged, $lost lost"
	[ "$lost" = 0 ]
done

step "17. All of it is deleted; a last backup is taken before"
show kubectl delete mysql example --timeout=180s
no_claims() { [ -z "$(kubectl get pvc -l app.kubernetes.io/instance=example -o name)" ]; }
until_ok 60 no_claims

step "18. A new cluster from the last backup, with every row"
sed 's|^  replicas: 3|  replicas: 2\n  image: localhost/mariadb:11.8\n  version: "11.8"\n  agentImage: localhost/tillerman-agent:test\n  storage: {size: 1Gi, onDelete: Delete}\n  restore:\n    storageType: Volume\n    volume: {path: example/latest, claimName: backups}\n    namePrefix: db|' \
	"$here/cluster.yaml" | tee /dev/stderr | kubectl apply -f -
settled
password=$(kubectl get secret example-root -o jsonpath='{.data.password}' | base64 -d)
address=$(kubectl get service example-primary -o jsonpath='{.spec.clusterIP}')
sql 'SELECT id FROM demo.written' | sort >"$demo/found"
lost=$(comm -23 "$demo/wanted" "$demo/found" | wc -l)
echo "$(wc -l <"$demo/wanted") writes acknowledged, $lost lost"
[ "$lost" = 0 ]

# comes CHART IMAGE FIELDS OBJECTS: a cluster imports a database that runs as a release `shop` of this chart of Bitnami's, while a writer continues
comes() {
	local chart=$1 image=$2 fields=$3 objects=$4 source writer lost
	kubectl delete mysql shop --ignore-not-found --timeout=60s >/dev/null
	sed "s|docker.io/library/|localhost/|" "$objects" | kubectl apply -f -
	show kubectl rollout status "statefulset/shop-$chart" --timeout=180s
	source=$(kubectl get service "shop-$chart" -o jsonpath='{.spec.clusterIP}')
	shop "$source" 'CREATE TABLE app.written (id INT PRIMARY KEY)'
	: >"$demo/acknowledged"
	touch "$demo/writing"
	(
		n=0
		while [ -e "$demo/writing" ]; do
			n=$((n + 1))
			if shop "$source" "INSERT INTO app.written VALUES ($n)" >/dev/null 2>&1; then echo $n >>"$demo/acknowledged"; fi
		done
	) &
	writer=$!
	kubectl apply -f - <<EOF
apiVersion: databases.tillerman.dev/v1alpha1
kind: MySQLCluster
metadata:
  name: shop
spec:
  replicas: 2
  image: $image
  agentImage: localhost/tillerman-agent:test
  storage: {size: 1Gi, onDelete: Delete}
  import:
    host: shop-$chart
    passwordSecret: {name: shop-$chart, key: $chart-root-password}
$fields
EOF
	until_ok 240 equal
	import && echo
	show kubectl patch mysql shop --type=merge -p '{"spec":{"import":{"cutOver":true}}}'
	until_ok 180 has_come
	import && echo
	rm "$demo/writing"
	wait $writer 2>/dev/null || true
	sort "$demo/acknowledged" >"$demo/wanted"
	# The account of the application came along.
	shop "$(kubectl get service shop-primary -o jsonpath='{.spec.clusterIP}')" 'SELECT id FROM app.written' | sort >"$demo/found"
	lost=$(comm -23 "$demo/wanted" "$demo/found" | wc -l)
	echo "$(wc -l <"$demo/wanted") writes acknowledged, $lost lost"
	[ "$lost" = 0 ]
}
# gone CHART OBJECTS: removes both
gone() {
	kubectl delete mysql shop --timeout=120s >/dev/null
	kubectl delete -f "$2" --wait=false >/dev/null
	kubectl delete pvc "data-shop-$1-0" --wait=false >/dev/null
}
# The password of an account of MySQL is sent with TLS only; MariaDB 10.11 here has none.
shop() { MYSQL_PWD=shop-writes timeout 10 mariadb -h "$1" -u shop "${tls[@]}" --connect-timeout=2 -N -e "$2"; }
import() { kubectl get mysql shop -o jsonpath='{.status.import}'; }
equal() { import | grep -q 'are equal'; }
has_come() { import | grep -q '^done'; }

step "19. A database that runs as Bitnami's chart lays it out, and a writer; a cluster imports it"
tls=()
comes mariadb localhost/mariadb:10.11.19 "" "$here/bitnami-like.yaml"
gone mariadb "$here/bitnami-like.yaml"

step "20. A volume that is nearly full grows by itself, on a storage driver that can enlarge it"
"$top/tests/cluster/csi-up.sh"
kubectl delete mysql room --ignore-not-found --timeout=60s >/dev/null
kubectl apply -f - <<'EOF'
apiVersion: databases.tillerman.dev/v1alpha1
kind: MySQLCluster
metadata:
  name: room
spec:
  replicas: 1
  image: localhost/mariadb:10.11.19
  agentImage: localhost/tillerman-agent:test
  storage:
    size: 600Mi
    className: growing
    onDelete: Delete
    autoGrow: {max: 1Gi, atPercent: 60, by: 50%}
EOF
show kubectl wait mysql/room --for=condition=Ready --timeout=180s
password=$(kubectl get secret room-root -o jsonpath='{.data.password}' | base64 -d)
address=$(kubectl get service room-primary -o jsonpath='{.spec.clusterIP}')
sql 'CREATE DATABASE demo; CREATE TABLE demo.large (id INT AUTO_INCREMENT PRIMARY KEY, data LONGBLOB)'
has_more() { [ "$(kubectl get pvc data-room-0 -o jsonpath='{.status.capacity.storage}')" = 900Mi ]; }
fills() { has_more || { sql 'INSERT INTO demo.large (data) VALUES (REPEAT(RANDOM_BYTES(1024), 4096))' && sleep 1 && false; }; }
show kubectl exec room-0 -c mysql -- df -h /var/lib/mysql
until_ok 240 fills
show kubectl get pvc data-room-0
show kubectl exec room-0 -c mysql -- df -h /var/lib/mysql
kubectl get events --field-selector=reason=VolumeEnlarged -o custom-columns=MESSAGE:.message --no-headers
kubectl delete mysql room --timeout=120s >/dev/null

step "21. The same with MySQL itself; then a backup, and drills that restore it"
tls=(--ssl)
comes mysql localhost/mysql:9.7 "  flavor: mysql
  backup:
    storageType: Volume
    volume: {path: shop/db, claimName: backups}
    drill: {size: 1Gi, checks: [SELECT 1 FROM app.written LIMIT 1]}" "$here/bitnami-like-mysql.yaml"
result() { [ "$(kubectl get mysql shop -o jsonpath="{.status.operations.$1.result}")" = "$2" ]; }
show kubectl annotate mysql shop tillerman.dev/operation=backup@1
until_ok 120 result backup Succeeded
show kubectl annotate mysql shop --overwrite tillerman.dev/operation=drill@1
until_ok 240 result drill Succeeded
kubectl get mysql shop -o jsonpath='{.status.operations.drill}{"\n"}'
# A byte of the backup is changed on the node.
volume=$(kubectl get pv "$(kubectl get pvc backups -o jsonpath='{.spec.volumeName}')" -o jsonpath='{.spec.hostPath.path}')
show "$top/tests/cluster/node-in.sh" /bin/sh -euc \
	"file=\$(find '$volume/shop' -type f -size +64k | head -1); printf X | dd of=\"\$file\" bs=1 seek=50000 conv=notrunc status=none; echo \"\$file\""
show kubectl annotate mysql shop --overwrite tillerman.dev/operation=drill@2
until_ok 240 result drill Failed
kubectl get mysql shop -o jsonpath='{.status.operations.drill}{"\n"}'
gone mysql "$here/bitnami-like-mysql.yaml"

step "What to do next"
cat <<EOF
  export KUBECONFIG=$KUBECONFIG PATH=$TOOLS:\$PATH
  kubectl get mysql --watch
To stop the node: examples/mysql/demo-down.sh
EOF

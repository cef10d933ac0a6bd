#!/usr/bin/env bash
# Runs the tests of the operator as a pod on a real node, and of clusters of etcd there: run.sh TILLERMAN_BINARY [AGENT_BINARY]
# TEST picks tests by their names; TEST_ARGS has more arguments for them, and TEST_THREADS says how many run at once.
# WITH_VOLUMES=yes starts a storage driver, for `growth::`, which CI leaves out.
# With the agent for MariaDB (`make build-agent`) those of clusters of MariaDB and of PHP applications, too.
# The project of tests/node/project is deployed as its own `make deploy` does it, with only its image changed. A node that runs
# already is used and left; one that is started for this is stopped again. A machine that can run none says why in one line.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage="usage: run.sh TILLERMAN_BINARY [AGENT_BINARY]"
bin=$(realpath "${1:?$usage}")
agent=${2:+$(realpath "$2")}
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
why=$("$here/../cluster/node-can.sh") || { echo "no pods run here, so none of this part ran: $why"; exit 0; }
image=localhost/page-operator:test
work=$(mktemp -d)
undo=true # what undoes what this has started
trap '$undo || true; rm -rf "$work"' EXIT
stop_node() { "$here/../cluster/node-down.sh"; }
undeploy() {
	kubectl delete pages --all --all-namespaces --ignore-not-found --timeout=60s
	kubectl delete -k "$work/project/config/default" --ignore-not-found --timeout=60s
	kubectl delete etcd --all --all-namespaces --ignore-not-found --timeout=60s
	kubectl delete -f "$here/../../examples/etcd/operator.yaml" --ignore-not-found --timeout=60s
	[ -z "$agent" ] || kubectl delete mysql,hungries --all --all-namespaces --ignore-not-found --timeout=60s
	[ -z "$agent" ] || kubectl delete -k "$work/mysql-operator/config/default" --ignore-not-found --timeout=60s
} >"$work/undeploy.log" 2>&1

# Built before the node starts, so that it does not idle meanwhile.
"$here/../cluster/build-tools.sh" members backup issuer helm mail exporter external-metrics
(cd "$here/../.." && nice cargo test --no-run --workspace --features tillerman/cluster-tests --test node)
runs=no
if [ -s "$STATE/node.pid" ] && kill -0 "$(cat "$STATE/node.pid")" 2>/dev/null; then runs=yes; fi
"$here/../cluster/node-up.sh"
if [ -n "${WITH_VOLUMES:-}" ]; then "$here/../cluster/csi-up.sh"; fi
if [ $runs = yes ]; then undo=undeploy; else undo=stop_node; fi
export KUBECONFIG=$STATE/admin.kubeconfig PATH=$TOOLS:$PATH

cp -r "$here/project" "$work/project"
# What a user types, on the node: containerd is reached from there only.
"$here/../cluster/node-in.sh" "$(command -v env)" CONTAINERD_SNAPSHOTTER=overlayfs \
	"$bin" image "$work/project" --tag "$image" --load containerd
"$here/etcd-images.sh" "$bin" "$work/etcd"
for archive in "$work"/etcd/*.tar; do
	"$here/../cluster/node-in.sh" "$(command -v ctr)" -a /run/containerd/containerd.sock -n k8s.io \
		images import --snapshotter overlayfs "$archive" >/dev/null
done
"$here/install-images.sh" "$bin" "$work/install"
for archive in "$work"/install/*.tar; do
	"$here/../cluster/node-in.sh" "$(command -v ctr)" -a /run/containerd/containerd.sock -n k8s.io \
		images import --snapshotter overlayfs "$archive" >/dev/null
done

# The definitions of cert-manager, whose labels are templates of its chart, of ServiceMonitors, and of routes of the Gateway API.
module() { (cd "$here/../cluster/tools/$1" && go mod download "$2" && go list -m -f '{{.Dir}}' "$2"); }
certificates=$(module cert-manager github.com/cert-manager/cert-manager)
monitors=$(module servicemonitor github.com/prometheus-operator/prometheus-operator)
gateway=$(module gateway-api sigs.k8s.io/gateway-api)
for crd in "$certificates"/deploy/crds/crd-*.yaml "$monitors"/example/prometheus-operator-crd/*_servicemonitors.yaml \
	"$gateway"/config/crd/standard/*_httproutes.yaml; do
	grep -v '{{' "$crd" | kubectl apply --server-side -f - >/dev/null
done

# The guest book of examples/stack, for the test of the installation.
# It takes minutes, so CI leaves it out.
if [ -n "$agent" ] && [ -z "${CI:-}" ]; then
	"$here/mysql-images.sh" "$bin" "$agent" "$work/stack"
	"$here/php-images.sh" "$IMAGES-php" php-fpm
	node_ctr "$work/bin"
	for archive in "$work"/stack/{tillerman-agent,mariadb}.tar "$IMAGES-php/php-fpm.tar"; do "$work/bin/ctr" -n k8s.io images import "$archive" >/dev/null; done
	"$work/bin/ctr" -n k8s.io images tag --force localhost/tillerman-agent:test docker.io/library/tillerman-agent:0.1.0 >/dev/null
	export TILLERMAN_TEST_STACK=yes
fi

skip="--skip install:: --skip php::"
[ -n "${WITH_VOLUMES:-}" ] || skip="$skip --skip growth::"
export TILLERMAN_TEST_CLUSTER=$STATE
# Installs an operator of all namespaces and removes it again, so nothing runs beside it.
case ${TEST:-install} in install*)
	nice cargo test --workspace --features tillerman/cluster-tests --test node install:: -- --nocapture || {
		kubectl -n tillerman-system describe pods >&2
		kubectl -n tillerman-system logs deployment/tillerman --tail=50 >&2
		exit 1
	}
	[ -z "${TEST:-}" ] || exit 0 ;;
esac

# Its operator serves clusters of MariaDB of all namespaces, and no other one does beside it.
case ${TEST:-php} in php*)
	if [ -n "$agent" ]; then
		"$here/php-operator.sh" "$bin" "$agent" "$work"
		nice cargo test --workspace --features tillerman/cluster-tests --test node "${TEST:-php::}" -- --nocapture --test-threads=3 || {
			kubectl -n stack-operator-system logs deployment/stack-operator-controller-manager --tail=50 >&2
			exit 1
		}
		kubectl delete wordpresses,phpapps,mysqlclusters --all --all-namespaces --timeout=60s >/dev/null
		kubectl delete -k "$work/stack-operator/config/default" --ignore-not-found --timeout=60s >/dev/null
	fi
	[ -z "${TEST:-}" ] || exit 0 ;;
esac

if [ -n "$agent" ]; then "$here/mysql-operator.sh" "$bin" "$agent" "$work"; else skip="$skip --skip growth:: --skip import:: --skip mysql:: --skip notices::"; fi

# What `make deploy IMG=…` does: `kustomize edit set image`, `kustomize build | kubectl apply`.
cat >>"$work/project/config/manager/kustomization.yaml" <<EOF
images:
- {name: controller, newName: ${image%:*}, newTag: ${image##*:}}
EOF
export TILLERMAN_TEST_AUDIT_FROM=$(stat -c %s "$STATE/log/audit.log")
kubectl apply -k "$work/project/config/default" >"$work/deploy.log" || { cat "$work/deploy.log"; exit 1; }
# shellcheck disable=SC2086
nice cargo test --workspace --features tillerman/cluster-tests --test node ${TEST:+"$TEST"} -- $skip ${TEST_ARGS:-} --nocapture --test-threads=${TEST_THREADS:-4} || {
	kubectl -n page-operator-system describe pods >&2
	kubectl -n page-operator-system logs deployment/page-operator-controller-manager --tail=50 >&2
	exit 1
}

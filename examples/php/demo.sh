#!/usr/bin/env bash
# Shows the operator, step by step: demo.sh TILLERMAN_BINARY
# Uses the cluster of KUBECONFIG if that is set; if not, a local one. Pods run there with DEMO_PODS=yes, or if the programs of a node are
# already built (make node-up).
# DEMO_IMAGE names an image with PHP for your own cluster, where php:8.2-cli cannot be pulled.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
bin=$(realpath "${1:?usage: demo.sh TILLERMAN_BINARY}")
. "$top/tests/cluster/env.sh"
. "$top/tests/cluster/lib.sh"
demo=$CACHE/demo
mkdir -p "$demo"
export FROM_PATH=1

began=$SECONDS
step() { printf '\n\033[1m%s\033[0m  (%d s)\n' "$*" $((SECONDS - began)); }
show() { printf '$ %s\n' "$*"; "$@"; }
image=localhost/php:8.2 pods=no why=
if [ -n "${KUBECONFIG:-}" ]; then
	step "1. Your cluster (KUBECONFIG=$KUBECONFIG)"
	operator_config=$KUBECONFIG image=${DEMO_IMAGE:-php:8.2-cli} pods=yes
	command -v kubectl >/dev/null || "$top/tests/cluster/build-tools.sh" api-server
	PATH=$PATH:$TOOLS
elif [ "${DEMO_PODS:-$([ -x "$TOOLS/kubelet" ] && echo yes || echo no)}" = yes ] && why=$("$top/tests/cluster/node-can.sh"); then
	step "1. A local cluster with one node"
	"$top/tests/cluster/node-up.sh"
	export KUBECONFIG=$STATE/admin.kubeconfig PATH=$TOOLS:$PATH
	operator_config=$STATE/operator.kubeconfig pods=yes
	echo node >"$demo/cluster"
else
	step "1. A local control plane"
	echo "No pods run here: ${why:-they need the programs of a node, which DEMO_PODS=yes builds}"
	[ -e "$demo/control-plane/etcd.pid" ] || "$top/tests/cluster/up.sh" "$demo/control-plane"
	export KUBECONFIG=$demo/control-plane/admin.kubeconfig PATH=$TOOLS:$PATH
	operator_config=$demo/control-plane/operator.kubeconfig
	echo control-plane >"$demo/cluster"
fi
show kubectl version

step "2. The custom resource: a CRD made from the chart's values.schema.json"
echo '$ tillerman crd charts/php | kubectl apply -f -'
"$bin" crd "$top/charts/php" | kubectl apply -f -
until_ok 30 kubectl wait --for=condition=Established crd/phpapps.apps.tillerman.dev --timeout=1s
until_ok 30 kubectl explain phpapp.spec.replicas # the API server publishes the schema a moment later
show kubectl explain phpapp.spec.replicas

step "3. The operator"
if [ -s "$demo/operator.pid" ] && kill -0 "$(cat "$demo/operator.pid")" 2>/dev/null; then
	kill "$(cat "$demo/operator.pid")" && until_ok 30 test ! -e "/proc/$(cat "$demo/operator.pid")"
fi
port=$(free_port 2)
echo '$ tillerman run --watches-file examples/php/watches.yaml &'
# A plain command, so that the stored process ID is that of the operator; its paths are relative to the repository.
cd "$top"
KUBECONFIG=$operator_config setsid "$bin" run --watches-file examples/php/watches.yaml \
	--metrics-bind-address "127.0.0.1:$port" --health-probe-bind-address "127.0.0.1:$((port + 1))" \
	>"$demo/operator.log" 2>&1 </dev/null &
echo $! >"$demo/operator.pid"
until_ok 30 curl -sf "http://127.0.0.1:$((port + 1))/readyz" || { tail -20 "$demo/operator.log" >&2; exit 1; }
echo "ready; its log is $demo/operator.log"

step "4. A PhpApp, and what appears"
kubectl delete phpapp hello --ignore-not-found --wait --timeout=60s >/dev/null
sed "s|^spec:|spec:\n  image: $image|" "$here/cr.yaml" >"$demo/cr.yaml"
show cat "$here/cr.yaml"
show kubectl apply -f "$demo/cr.yaml"
kubectl wait --for=condition=Deployed phpapp/hello --timeout=60s >/dev/null
show kubectl get deployment,service,ingress,configmap -l app.kubernetes.io/instance=hello

step "5. Its conditions"
[ $pods = no ] || kubectl wait --for=condition=Ready phpapp/hello --timeout=180s >/dev/null
conditions() { kubectl get phpapp hello -o custom-columns='CONDITION:.status.conditions[*].type,STATUS:.status.conditions[*].status' --no-headers; }
show kubectl get phpapp hello
kubectl get phpapp hello -o go-template='{{range .status.conditions}}{{printf "  %-15s %-6s %-20s %s\n" .type .status (or .reason "") (or .message "")}}{{end}}'

if [ $pods = yes ]; then
	step "6. The page"
	kubectl run "hello-client-$$" --image="$image" --restart=Never --quiet --command -- \
		php -r 'for ($try = 0; $try < 30; $try++) { if (($page = @file_get_contents("http://hello/")) !== false) { echo $page; exit(0); } usleep(500000); } exit(1);' \
		>/dev/null # a Service answers a moment after its pods are ready, when kube-proxy has its rules
	kubectl wait --for=jsonpath='{.status.phase}'=Succeeded "pod/hello-client-$$" --timeout=120s >/dev/null
	echo '$ (in a pod) curl http://hello/'
	kubectl logs "hello-client-$$"
	kubectl delete pod "hello-client-$$" --wait=false >/dev/null
else
	step "6. No page: no pods run here, so Ready stays False and says why"
fi

step "7. A change of spec.replicas arrives"
show kubectl patch phpapp hello --type=merge -p '{"spec":{"replicas":2}}'
kubectl wait --for=jsonpath='{.spec.replicas}'=2 deployment/hello --timeout=30s
show kubectl get deployment hello

step "8. A Deployment deleted by hand comes back"
before=$(kubectl get deployment hello -o jsonpath='{.metadata.uid}')
show kubectl delete deployment hello
came_back() { [ "$(kubectl get deployment hello -o jsonpath='{.metadata.uid}')" != "$before" ]; }
until_ok 30 came_back
show kubectl get deployment hello

step "9. The history, as the real helm prints it"
if [ ! -x "$TOOLS/helm" ]; then
	command -v helm >/dev/null || echo "helm is built from its Go module first, once: about two minutes"
	"$top/tests/cluster/build-tools.sh" helm
fi
show helm history hello
show helm list

step "10. A value of the wrong type is refused by the API server, in words"
kubectl patch phpapp hello --type=merge -p '{"spec":{"replicas":"three"}}' 2>&1 && { echo "error: it was taken" >&2; exit 1; } || true

step "11. The custom resource goes, and all with it"
show kubectl delete phpapp hello --timeout=60s
gone() { [ -z "$(kubectl get deployment,service,ingress,configmap,secret -l app.kubernetes.io/instance=hello -o name; kubectl get secret -l owner=helm,name=hello -o name)" ]; }
until_ok 60 gone
show kubectl get deployment,service,ingress,configmap -l app.kubernetes.io/instance=hello

step "How to go on"
cat <<EOF
The operator still runs. In this shell:
  export KUBECONFIG=$KUBECONFIG PATH=$TOOLS:\$PATH
  kubectl apply -f $demo/cr.yaml
  kubectl get phpapps --watch
Your own chart: give it a line in a watches.yaml, make its CRD with 'tillerman crd', and run the same binary
(examples/helm-chart shows it with a plain Helm chart).
To remove everything the demo made: make demo-down
EOF

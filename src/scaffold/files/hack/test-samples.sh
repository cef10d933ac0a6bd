#!/bin/sh
# Renders each sample as the operator will, applies it in a namespace of its own, waits until it is ready, deletes it, and checks that nothing is left. `make test` runs it.
set -eu
kubectl=${KUBECTL:-kubectl} tillerman=${TILLERMAN:-tillerman} namespace=${NAMESPACE:-{{ name }}-test} timeout=${TIMEOUT:-300s}
work=$(mktemp -d)
trap 'rm -rf "$work"; $kubectl delete namespace "$namespace" --ignore-not-found --wait=false >/dev/null' EXIT

# Objects of a new namespace, reports about it, and objects that StatefulSets leave on purpose.
left() {
	for kind in $($kubectl api-resources --namespaced --verbs=list,delete -o name | grep -v -e '^events' -e '\.metrics\.k8s\.io$' -e '^endpoint'); do
		$kubectl -n "$namespace" get "$kind" -o name 2>/dev/null || true
	done | grep -v -e '^configmap/kube-root-ca.crt$' -e '^serviceaccount/default$' -e '^persistentvolumeclaim/' | sort -u
}

for sample in config/samples/*.yaml; do
	case $sample in */kustomization.yaml) continue ;; esac
	echo "==> $sample"
	$kubectl create namespace "$namespace"
	# The API server checks the objects without writing them: 1 means that there are some.
	rendered=0
	$tillerman diff --watches-file watches.yaml -n "$namespace" -f "$sample" >"$work/rendered" || rendered=$?
	[ $rendered = 1 ] || { echo "error: $sample renders no objects that the API server accepts" >&2; exit 1; }
	grep -E ' is (created|changed)$' "$work/rendered" || true
	$kubectl -n "$namespace" apply -f "$sample"
	if ! $kubectl -n "$namespace" wait -f "$sample" --for=condition=Ready --timeout="$timeout"; then
		$kubectl -n "$namespace" get -f "$sample" -o jsonpath='{range .items[*].status.conditions[*]}{.type}={.status} {.message}{"\n"}{end}{range .status.conditions[*]}{.type}={.status} {.message}{"\n"}{end}' >&2
		exit 1
	fi
	$kubectl -n "$namespace" delete -f "$sample" --timeout="$timeout"
	# Garbage collection of dependents of the objects takes a moment.
	tries=60
	while left >"$work/left" && [ -s "$work/left" ] && [ $tries -gt 0 ]; do tries=$((tries - 1)); sleep 1; done
	if [ -s "$work/left" ]; then
		echo "these objects are left:" >&2
		cat "$work/left" >&2
		exit 1
	fi
	$kubectl delete namespace "$namespace" --timeout="$timeout"
done
echo "all samples became ready and left nothing"

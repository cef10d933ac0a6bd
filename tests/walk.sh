#!/usr/bin/env bash
# Runs the commands of docs/tutorial.md on a real node, with charts of the corpus as they are: walk.sh TILLERMAN_BINARY [registry etcd vpa]
# registry is stateless, etcd has volumes, vpa has definitions and hooks. Without a name all three; in a share (SWEEP_SHARE), registry.
# Then operator-sdk's own way to the same custom resource, beside it. Prints the seconds of each step. No registry is reached from here,
# so the samples name local images (tests/node/walk-images.sh); the charts are not changed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(realpath "${1:?usage: walk.sh TILLERMAN_BINARY [registry etcd vpa]}")
shift
case ${SWEEP_SHARE:-0/1} in */1) all="registry etcd vpa" ;; *) all=registry ;; esac
charts=${*:-$all}
. "$here/cluster/env.sh"
. "$here/cluster/lib.sh"
cd "$here/.."
why=$("$here/cluster/node-can.sh") || { echo "no pods run here, so the walk did not: $why"; exit 0; }
need_corpus
[ -n "${CHARTS:-}" ] || { echo "the walk did not run: the corpus of charts is not beside this checkout (set CORPUS)"; exit 0; }
need jq jq make make
"$here/cluster/build-tools.sh" node members sources helm-operator operator-sdk
case " $charts " in *" vpa "*) "$here/cluster/build-tools.sh" walk ;; esac
work=$(mktemp -d)
peer= undo=true
finish() {
	[ -z "$peer" ] || kill "$peer" 2>/dev/null || true
	$undo || true
	rm -rf "$work"
}
trap finish EXIT
stop_node() { "$here/cluster/node-down.sh"; }
if [ ! -s "$STATE/node.pid" ] || ! kill -0 "$(cat "$STATE/node.pid")" 2>/dev/null; then undo=stop_node; fi
"$here/cluster/node-up.sh"
export KUBECONFIG=$STATE/admin.kubeconfig
# shellcheck disable=SC2086
"$here/node/walk-images.sh" "$work/images" $charts >/dev/null
node_ctr "$work/bin"
ln -s "$bin" "$work/bin/tillerman"
export PATH=$work/bin:$TOOLS:$PATH LOAD=containerd
for archive in "$work"/images/*.tar; do ctr -n k8s.io images import "$archive" >/dev/null; done

# what there is besides what every cluster has, and the claims of a StatefulSet, which Helm leaves, too; pods and Secrets of releases included
left() {
	kubectl get all,pvc,configmaps,secrets,serviceaccounts,roles,rolebindings,ingresses,pdb -A -o name |
		grep -v -e '/kube-root-ca.crt$' -e '/default$' -e '/kubernetes$' -e '^persistentvolumeclaim/etcd-data-' || true
	kubectl get clusterroles,clusterrolebindings,crd,namespaces,mutatingwebhookconfigurations -o name | grep -E 'operator|vpa|app-sample' | grep -v tillerman-operator || true
}

# walk NAME CHART SAMPLE [SED]: SAMPLE is the spec as JSON; SED makes the commands of the tutorial those of this chart
walk() {
	local name=$1 chart=$CHARTS/charts/$2 sample=$3 sed=${4:-} title= commands= line total=0 five=0
	export CHART=$chart NEXT=$work/$name-next NEXT_CHART=$(basename "$chart")-99.0.0
	cp -r "$chart" "$NEXT"
	sed -i 's/^version:.*/version: 99.0.0/' "$NEXT/Chart.yaml"
	mkdir "$work/$name"
	cd "$work/$name"
	left >"$work/before"
	run_block() {
		[ -n "$title" ] || return 0
		local began=$(date +%s%N) ms
		bash -euc "$commands"$'\n'"pwd >'$work/folder'" >"$work/output" 2>&1 </dev/null || {
			echo "walk $name: $title: failed" >&2
			cat "$work/output" >&2
			kubectl get app -A -o json | jq -c '.items[].status.conditions' >&2
			kubectl get pods -A >&2
			exit 1
		}
		cd "$(cat "$work/folder")"
		ms=$((($(date +%s%N) - began) / 1000000)) total=$((total + ms))
		case $title in '## '[1-5].*) five=$((five + ms)) ;; esac
		printf '  %6d.%d s  %s\n' $((ms / 1000)) $((ms % 1000 / 100)) "${title#'## '}"
		grep -E 'The operator needs a rule' "$work/output" || true
		# What stands in for a registry.
		if [ -n "$sample" ]; then
			grep -q '^spec: {}$' config/samples/charts_v1alpha1_app.yaml
			sed -i "s|^spec: {}$|spec: $(jq -nc --argjson spec "$sample" '$spec')|" config/samples/charts_v1alpha1_app.yaml
			sample=
		fi
	}
	echo "walk $name ($2)"
	while IFS= read -r line; do
		case $line in '###'*) run_block; title=${line#'#'} commands= ;; *) commands+=$line$'\n' ;; esac
	done < <(blocks "$here/../docs/tutorial.md" | sed -E "$sed")
	run_block
	[ "$five" -gt 0 ] && [ "$total" -gt "$five" ] || { echo "walk $name: the tutorial has no commands" >&2; exit 1; }
	# Pods take a moment to end, and garbage collection to follow.
	until_ok 120 nothing_new || { diff "$work/before" "$work/after" >&2; exit 1; }
	cd "$here/.."
	printf 'walk %s: 1 passed, 0 failed; five commands in %d.%d s, all in %d s\n' "$name" $((five / 1000)) $((five % 1000 / 100)) $((total / 1000))
}
nothing_new() {
	left | grep -v -e '^secret/vpa-tls-certs$' -e '/verticalpodautoscaler[a-z]*.autoscaling.k8s.io$' >"$work/after"
	diff -q "$work/before" "$work/after"
}

no_pods() { [ -z "$(kubectl get pods -o name)" ]; }

# operator-sdk's way to the same custom resource: its project, its rights, helm-operator as a process here; `docker build` is left out.
peer() {
	local began step=$SECONDS at
	mark() { at=$(date +%s%N); printf '  %6d.%d s  %s\n' $(((at - began) / 1000000000)) $(((at - began) / 100000000 % 10)) "$1"; began=$at; }
	echo "operator-sdk (docker build left out; helm-operator as a process, with the rights of an administrator)"
	mkdir "$work/peer"
	cd "$work/peer"
	began=$(date +%s%N)
	operator-sdk init --plugins helm --domain example.com --project-name registry-operator >/dev/null 2>&1
	operator-sdk create api --group charts --version v1alpha1 --kind App --helm-chart "$CHARTS/charts/helm+charts/stable/docker-registry" >"$work/output" 2>&1 || { cat "$work/output" >&2; exit 1; }
	mark "init, create api"
	kubectl apply -k config/crd >/dev/null
	kubectl apply -k config/rbac >/dev/null 2>&1 || true # its namespace comes with config/default
	helm-operator run --watches-file=./watches.yaml --metrics-bind-address=0 --health-probe-bind-address=127.0.0.1:18099 >"$work/peer.log" 2>&1 &
	peer=$!
	until_ok 60 curl -sf http://127.0.0.1:18099/healthz
	mark "definitions and rights applied, helm-operator started"
	jq -n --argjson spec "$registry" '{apiVersion: "charts.example.com/v1alpha1", kind: "App", metadata: {name: "app-sample"}, spec: $spec}' | kubectl apply -f - >/dev/null
	until_ok 120 kubectl get deployment app-sample-docker-registry
	kubectl wait deployment/app-sample-docker-registry --for=condition=Available --timeout=120s >/dev/null
	mark "sample, its Deployment is available (there is no condition Ready)"
	kubectl delete app app-sample --timeout=120s >/dev/null
	kubectl delete -k config/crd >/dev/null
	kubectl delete -k config/rbac --ignore-not-found >/dev/null 2>&1 || true
	kill "$peer" && wait "$peer" || true
	peer=
	until_ok 60 no_pods # the next walk compares with what there is before it
	cd "$here/.."
}

registry='{"image": {"repository": "localhost/registry", "tag": "3.1.2"}}'
etcd='{"image": {"registry": "localhost", "repository": "etcd-and-client", "tag": "3.6"}, "initImage": {"registry": "localhost", "repository": "certgen", "tag": "1"}, "storage": {"requestedSize": "1Gi"}}'
vpa='{"fullnameOverride": "vpa",
	"recommender": {"replicas": 1, "image": {"repository": "localhost/vpa-recommender", "tag": "1.7.2"}},
	"updater": {"replicas": 1, "image": {"repository": "localhost/vpa-updater", "tag": "1.7.2"}},
	"admissionController": {"replicas": 1, "image": {"repository": "localhost/vpa-admission-controller", "tag": "1.7.2"},
		"certGen": {"image": {"repository": "localhost/certgen", "tag": "1"}}}}'
for chart in $charts; do case $chart in
registry)
	walk registry 'helm+charts/stable/docker-registry' "$registry"
	peer ;;
etcd) # a StatefulSet with a volume
	walk etcd 'groundhog2k+helm-charts/charts/etcd' "$etcd" \
		's/\{"replicaCount": 2\}/{"customLabels": {"walk": "yes"}}/; s/, persistentvolumeclaims/, serviceaccounts/; s/\{"persistence": .*\}\}\x27/{"serviceAccount": {"create": true}}}\x27/; s/registry-operator/etcd-operator/g' ;;
vpa) # definitions, and hooks before and after; its ClusterRoles have fixed names, so there is one release of it
	walk vpa 'kubernetes+autoscaler/vertical-pod-autoscaler/charts/vertical-pod-autoscaler' "$vpa" \
		's/\{"replicaCount": 2\}/{"commonLabels": {"walk": "yes"}}/; s|s/, persistentvolumeclaims//|s/serviceaccounts, //|; s/\{"persistence": .*\}\}\x27/{"commonLabels": {"walk": "no"}}}\x27/; s/registry-operator/vpa-operator/g; s/^make test$/true/' ;;
*) echo "error: $chart is none of registry, etcd, vpa" >&2; exit 2 ;;
esac; done

#!/usr/bin/env bash
# Builds the programs of the local cluster from their Go modules, once, into the tools folder:
#   build-tools.sh api-server      etcd kube-apiserver kube-controller-manager kubectl
#   build-tools.sh control-plane   the same and helm
#   build-tools.sh helm            helm alone
#   build-tools.sh node            what `make node-up` needs besides: kubelet, kube-proxy, kube-scheduler, CNI plugins, CoreDNS
#   build-tools.sh sources         what the tests of chart sources need besides: helm and a container registry
#   build-tools.sh signatures      what the tests of signed releases need besides: cosign
#   build-tools.sh members         etcd 3.6 and 3.5, for the tests of the driver, and the checker of what their clients recorded
#   build-tools.sh backup          what the tests of backups need besides: etcdutl of both, and servers that speak as S3 and as Azure do
#   build-tools.sh issuer          cert-manager, for the test of the chart's certificates that it issues; the last version whose module has its program
#   build-tools.sh metrics         what the check of alerts and dashboard needs: promtool
#   build-tools.sh bundle          what checks the bundle for the Operator Lifecycle Manager: operator-framework's operator-verify; and actionlint, for workflows
#   build-tools.sh helm-operator   whom we take over from and are measured beside: operator-sdk's helm-operator
#   build-tools.sh operator-sdk    whose projects ours are compared with (operator-sdk-project.sh)
#   build-tools.sh walk            what runs in the pods of the walk of five commands: the autoscaler of pods (VPA), whose chart has definitions and hooks
#   build-tools.sh traces          what the test of traces needs besides: a collector of OpenTelemetry
#   build-tools.sh gitops          what the tests beside Argo CD, Flux and Karmada need besides: what Argo CD shows, by its own package, kustomize-controller, and Karmada's engine of scripts
#   build-tools.sh mail            a server of mail that shows what arrived
#   build-tools.sh exporter        metrics of PHP-FPM, by plugins of Telegraf
#   build-tools.sh external-metrics  the length of a list in Redis for autoscalers
#   build-tools.sh volumes         volumes that grow and have snapshots: the usual sidecars of the CSI, and a driver of ours
#   build-tools.sh browser         what the tests of pages need besides: Chromium with its driver, and the rules of accessibility (axe-core)
# The versions are pinned by tools/*/go.mod, and those of Azurite and axe-core by a package-lock.json. A program is built again when the file it comes from changes.
# With FROM_PATH=1 a program on PATH is taken in place of one that is not built yet, when its version serves; tests never do that.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/lib.sh"

command -v go >/dev/null || { echo "error: Go is needed to build the cluster's programs: install Go 1.26 or newer" >&2; exit 1; }
KUBE=1.36.3 HELM=4.3.1 SDK=1.42.3
kube_flags="-s -w -X k8s.io/component-base/version.gitVersion=v$KUBE -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36 -X k8s.io/client-go/pkg/version.gitVersion=v$KUBE"

is_built() { [ -x "$1" ] && [ "$(cat "$1.built-from" 2>/dev/null)" = "$2" ]; }

# serves PROGRAM: whether PATH has it, outside of the tools folder, in a version that can stand in for ours; where
serves() {
	local PATH=:$PATH:
	PATH=${PATH//:"$TOOLS":/:}
	command -v "$1" || return 1
	case $1 in
	# kubectl is supported one minor version off the API server's.
	kubectl) kubectl version --client 2>/dev/null | grep -qE "v1\.(35|36|37)\." ;;
	etcd) etcd --version 2>/dev/null | grep -qE 'Version: 3\.[56]\.' ;;
	# Older ones do not read what Helm 4 writes.
	helm) helm version --template '{{.Version}}' 2>/dev/null | grep -qE '^v(3\.(1[4-9]|[2-9][0-9])|4)\.' ;;
	*) return 1 ;;
	esac
}

# build MODULE PROGRAM PACKAGE LDFLAGS: does nothing when PROGRAM was built from this go.mod before
build() {
	local module=$1 program=$2 package=$3 flags=$4 stamp out=$TOOLS/$2 began=$SECONDS
	# These are sources of ours, that change when their go.mod does not.
	stamp=$(cat "$here/tools/$module/"{go.mod,check.go,driver.go,exporter.go,server.go} 2>/dev/null | sha256sum | cut -c1-16) || true
	is_built "$out" "$stamp" && return
	local other
	if [ -n "${FROM_PATH:-}" ] && other=$(serves "$program"); then
		# Without the stamp it is never taken for one that was built.
		rm -f "$out.built-from"
		ln -sf "$other" "$out"
		return
	fi
	flock 9 # two builds at once would only fight for the cores
	is_built "$out" "$stamp" && { flock -u 9; return; }
	[ -n "${said:-}" ] || { said=1; echo "building the cluster's programs from their Go modules, once (kept in $TOOLS)"; }
	echo "  $program ..."
	mkdir -p "$(dirname "$out")"
	(cd "$here/tools/$module" && CGO_ENABLED=0 nice go build -trimpath -ldflags "$flags" -o "$out.new" "$package") ||
		{ echo "error: $program could not be built; the Go module proxy must be reachable" >&2; exit 1; }
	mv "$out.new" "$out"
	echo "$stamp" >"$out.built-from"
	flock -u 9
	echo "  $program: $((SECONDS - began)) s"
}

# npm_package NAME: a package for Node or for a browser and what it needs, as the lock file has them
npm_package() {
	local name=$1 stamp out=$TOOLS/$1 began=$SECONDS
	need node nodejs npm npm
	stamp=$(cat "$here/tools/$name/"*.json | sha256sum | cut -c1-16)
	[ "$(cat "$out/.built-from" 2>/dev/null)" != "$stamp" ] || return 0
	flock 9
	[ "$(cat "$out/.built-from" 2>/dev/null)" != "$stamp" ] || { flock -u 9; return 0; }
	echo "  $name ..."
	rm -rf "$out" "$out.new"
	mkdir -p "$out.new"
	cp "$here/tools/$name/"{*.json,.npmrc} "$out.new"
	(cd "$out.new" && nice npm ci --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null) ||
		{ echo "error: $name could not be installed; the package registry of npm must be reachable" >&2; exit 1; }
	echo "$stamp" >"$out.new/.built-from"
	mv "$out.new" "$out"
	flock -u 9
	echo "  $name: $((SECONDS - began)) s"
}

build_helm() {
	build helm helm helm.sh/helm/v4/cmd/helm "-s -w -X helm.sh/helm/v4/internal/version.version=v$HELM"
}
build_api_server() {
	build etcd etcd go.etcd.io/etcd/server/v3 "-s -w"
	for p in kube-apiserver kubectl kube-controller-manager; do build kube $p k8s.io/kubernetes/cmd/$p "$kube_flags"; done
}

mkdir -p "$TOOLS"
exec 9>"$TOOLS/.lock"
for set in "${@:-control-plane}"; do case $set in
api-server | control-plane | helm)
	if [ "$set" != helm ]; then build_api_server; fi
	if [ "$set" != api-server ]; then build_helm; fi ;;
node)
	for p in kube-scheduler kubelet kube-proxy; do build kube $p k8s.io/kubernetes/cmd/$p "$kube_flags"; done
	for p in main/bridge main/loopback ipam/host-local meta/portmap; do
		build kube cni/${p#*/} github.com/containernetworking/plugins/plugins/$p "-s -w"
	done
	build coredns coredns . "-s -w"
	build etcd etcdctl go.etcd.io/etcd/etcdctl/v3 "-s -w" ;;
sources)
	build_helm
	build registry registry github.com/distribution/distribution/v3/cmd/registry "-s -w" ;;
signatures) build cosign cosign github.com/sigstore/cosign/v3/cmd/cosign "-s -w" ;;
members)
	build etcd etcd go.etcd.io/etcd/server/v3 "-s -w"
	build etcd35 etcd-3.5 go.etcd.io/etcd/server/v3 "-s -w"
	build porcupine linearizable . "-s -w" ;;
backup)
	build etcd etcdutl go.etcd.io/etcd/etcdutl/v3 "-s -w"
	build etcd35 etcdutl-3.5 go.etcd.io/etcd/etcdutl/v3 "-s -w"
	build versitygw versitygw github.com/versity/versitygw/cmd/versitygw "-s -w"
	npm_package azurite ;;
issuer) build cert-manager cert-manager github.com/cert-manager/cert-manager/cmd/controller "-s -w" ;;
metrics)
	# Without service discovery, which nothing here asks for, it is a third of the size.
	GOFLAGS=-tags=remove_all_sd build prometheus promtool github.com/prometheus/prometheus/cmd/promtool "-s -w" ;;
bundle)
	build operator-verify operator-verify github.com/operator-framework/api/cmd/operator-verify "-s -w"
	build actionlint actionlint github.com/rhysd/actionlint/cmd/actionlint "-s -w" ;;
helm-operator)
	# The tag is the one of its own Makefile.
	GOFLAGS=-tags=containers_image_openpgp build helm-operator helm-operator github.com/operator-framework/operator-sdk/cmd/helm-operator \
		"-s -w -X github.com/operator-framework/operator-sdk/internal/version.Version=v$SDK" ;;
operator-sdk)
	GOFLAGS=-tags=containers_image_openpgp,exclude_graphdriver_btrfs build operator-sdk operator-sdk \
		github.com/operator-framework/operator-sdk/cmd/operator-sdk \
		"-s -w -X github.com/operator-framework/operator-sdk/internal/version.Version=v$SDK" ;;
walk)
	for p in recommender updater admission-controller; do
		build vpa vpa-$p k8s.io/autoscaler/vertical-pod-autoscaler/pkg/$p "-s -w"
	done ;;
traces) build otelcol otelcol . "-s -w" ;;
gitops)
	build argocd argocd-health . "-s -w"
	build kustomize-controller kustomize-controller github.com/fluxcd/kustomize-controller "-s -w"
	build karmada karmada-lua . "-s -w" ;;
mail) build mailpit mailpit github.com/axllent/mailpit "-s -w" ;;
volumes)
	need mkfs.xfs xfsprogs losetup mount
	build csi csi-driver . "-s -w"
	build csi csi-provisioner github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner "-s -w"
	build csi csi-resizer github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer "-s -w"
	for p in csi-snapshotter snapshot-controller; do build csi $p github.com/kubernetes-csi/external-snapshotter/v8/cmd/$p "-s -w"; done ;;
exporter) build phpfpm-exporter phpfpm-exporter . "-s -w" ;;
external-metrics) build external-metrics external-metrics . "-s -w" ;;
browser)
	need chromium chromium chromedriver chromium-driver
	npm_package axe ;;
*) echo "error: unknown set '$set': api-server, control-plane, helm, node, sources, signatures, members, backup, issuer, metrics, bundle, helm-operator, operator-sdk, walk, traces, gitops, mail, exporter, external-metrics, volumes or browser" >&2; exit 2 ;;
esac; done

#!/usr/bin/env bash
# Builds the programs of the local cluster from their Go modules, once, into the tools folder:
#   build-tools.sh control-plane   etcd kube-apiserver kube-controller-manager kubectl helm
#   build-tools.sh node            what `make node-up` needs besides: kubelet, kube-proxy, kube-scheduler, CNI plugins, CoreDNS
#   build-tools.sh sources         what the tests of chart sources need besides: helm and a container registry
#   build-tools.sh members         etcd 3.6 and 3.5, for the tests of the driver, and the checker of what their clients recorded
#   build-tools.sh backup          what the tests of backups need besides: etcdutl of both, and servers that speak as S3 and as Azure do
#   build-tools.sh issuer          cert-manager, for the test of the chart's certificates that it issues; the last version whose module has its program
#   build-tools.sh metrics         what the check of alerts and dashboard needs: promtool
#   build-tools.sh helm-operator   whom we take over from and are measured beside: operator-sdk's helm-operator
#   build-tools.sh traces          what the test of traces needs besides: a collector of OpenTelemetry
# The versions are pinned by tools/*/go.mod, and Azurite's by a package-lock.json. A program is built again when the file it comes from changes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/lib.sh"

command -v go >/dev/null || { echo "error: Go is needed to build the cluster's programs: install Go 1.26 or newer" >&2; exit 1; }
KUBE=1.36.3 HELM=4.3.1 SDK=1.42.3
kube_flags="-s -w -X k8s.io/component-base/version.gitVersion=v$KUBE -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36 -X k8s.io/client-go/pkg/version.gitVersion=v$KUBE"

is_built() { [ -x "$1" ] && [ "$(cat "$1.built-from" 2>/dev/null)" = "$2" ]; }

# build MODULE PROGRAM PACKAGE LDFLAGS: does nothing when PROGRAM was built from this go.mod before
build() {
	local module=$1 program=$2 package=$3 flags=$4 stamp out=$TOOLS/$2 began=$SECONDS
	# check.go is a source of ours, that changes when its go.mod does not.
	stamp=$(cat "$here/tools/$module/"{go.mod,check.go} 2>/dev/null | sha256sum | cut -c1-16) || true
	is_built "$out" "$stamp" && return
	flock 9 # two builds at once would only fight for the cores
	is_built "$out" "$stamp" && { flock -u 9; return; }
	[ -n "${told:-}" ] || { told=1; echo "building the cluster's programs from their Go modules: about 20 minutes, once (kept in $TOOLS)"; }
	echo "  $program ..."
	mkdir -p "$(dirname "$out")"
	(cd "$here/tools/$module" && CGO_ENABLED=0 nice go build -trimpath -ldflags "$flags" -o "$out.new" "$package") ||
		{ echo "error: $program could not be built; the Go module proxy must be reachable" >&2; exit 1; }
	mv "$out.new" "$out"
	echo "$stamp" >"$out.built-from"
	flock -u 9
	echo "  $program: $((SECONDS - began)) s"
}

# Azurite is a program for Node: its package and what it needs, as the lock file has them
build_azurite() {
	local stamp out=$TOOLS/azurite began=$SECONDS
	need node nodejs npm npm
	stamp=$(cat "$here/tools/azurite/"*.json | sha256sum | cut -c1-16)
	[ "$(cat "$out/.built-from" 2>/dev/null)" != "$stamp" ] || return 0
	flock 9
	[ "$(cat "$out/.built-from" 2>/dev/null)" != "$stamp" ] || { flock -u 9; return 0; }
	echo "  azurite ..."
	rm -rf "$out" "$out.new"
	mkdir -p "$out.new"
	cp "$here/tools/azurite/"{*.json,.npmrc} "$out.new"
	(cd "$out.new" && nice npm ci --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null) ||
		{ echo "error: azurite could not be installed; the package registry of npm must be reachable" >&2; exit 1; }
	echo "$stamp" >"$out.new/.built-from"
	mv "$out.new" "$out"
	flock -u 9
	echo "  azurite: $((SECONDS - began)) s"
}

mkdir -p "$TOOLS"
exec 9>"$TOOLS/.lock"
for set in "${@:-control-plane}"; do case $set in
control-plane)
	build etcd etcd go.etcd.io/etcd/server/v3 "-s -w"
	build kube kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "$kube_flags"
	build kube kubectl k8s.io/kubernetes/cmd/kubectl "$kube_flags"
	build kube kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager "$kube_flags"
	build helm helm helm.sh/helm/v4/cmd/helm "-s -w -X helm.sh/helm/v4/internal/version.version=v$HELM" ;;
node)
	for p in kube-scheduler kubelet kube-proxy; do build kube $p k8s.io/kubernetes/cmd/$p "$kube_flags"; done
	for p in main/bridge main/loopback ipam/host-local meta/portmap; do
		build kube cni/${p#*/} github.com/containernetworking/plugins/plugins/$p "-s -w"
	done
	build coredns coredns . "-s -w"
	build etcd etcdctl go.etcd.io/etcd/etcdctl/v3 "-s -w" ;;
sources)
	build helm helm helm.sh/helm/v4/cmd/helm "-s -w -X helm.sh/helm/v4/internal/version.version=v$HELM"
	build registry registry github.com/distribution/distribution/v3/cmd/registry "-s -w" ;;
members)
	build etcd etcd go.etcd.io/etcd/server/v3 "-s -w"
	build etcd35 etcd-3.5 go.etcd.io/etcd/server/v3 "-s -w"
	build porcupine linearizable . "-s -w" ;;
backup)
	build etcd etcdutl go.etcd.io/etcd/etcdutl/v3 "-s -w"
	build etcd35 etcdutl-3.5 go.etcd.io/etcd/etcdutl/v3 "-s -w"
	build versitygw versitygw github.com/versity/versitygw/cmd/versitygw "-s -w"
	build_azurite ;;
issuer) build cert-manager cert-manager github.com/cert-manager/cert-manager/cmd/controller "-s -w" ;;
metrics)
	# Without service discovery, which nothing here asks for, it is a third of the size.
	GOFLAGS=-tags=remove_all_sd build prometheus promtool github.com/prometheus/prometheus/cmd/promtool "-s -w" ;;
helm-operator)
	# The tag is the one of its own Makefile.
	GOFLAGS=-tags=containers_image_openpgp build helm-operator helm-operator github.com/operator-framework/operator-sdk/cmd/helm-operator \
		"-s -w -X github.com/operator-framework/operator-sdk/internal/version.Version=v$SDK" ;;
traces) build otelcol otelcol . "-s -w" ;;
*) echo "error: unknown set '$set': control-plane, node, sources, members, backup, issuer, metrics, helm-operator or traces" >&2; exit 2 ;;
esac; done

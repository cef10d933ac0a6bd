#!/usr/bin/env bash
# Makes the images that the charts of the walk run in place of their own, which no registry here has: walk-images.sh OUT_FOLDER [registry etcd vpa]
# The programs are the real ones, but for that of the certificates (../cluster/certgen.sh).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
. "$here/../cluster/pack.sh"
out=${1:?usage: walk-images.sh OUT_FOLDER [registry etcd vpa]}
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# image NAME:TAG CONFIG_JSON FILE=PROGRAM...: an image of programs alone
image() {
	local name=$1 config=$2 folder=$work/folder pair
	shift 2
	rm -rf "$folder" && mkdir -p "$folder/tmp"
	chmod 1777 "$folder/tmp"
	for pair in "$@"; do install -D -m 755 "$TOOLS/${pair#*=}" "$folder${pair%%=*}"; done
	pack "localhost/$name" "$out/${name%:*}.tar" "$config" "$folder"
}
certificates() { "$here/../cluster/images.sh" certgen && cp "$IMAGES/certgen.tar" "$out/"; }
for chart in "${@:-registry}"; do case $chart in
registry) image registry:3.1.2 '{"Cmd": ["/bin/registry"]}' /bin/registry=registry ;;
etcd)
	image etcd-and-client:3.6 '{"Cmd": ["/usr/local/bin/etcd"]}' /usr/local/bin/etcd=etcd /usr/local/bin/etcdctl=etcdctl
	certificates ;;
vpa)
	for part in recommender updater admission-controller; do
		image "vpa-$part:1.7.2" "{\"Entrypoint\": [\"/$part\"]}" "/$part=vpa-$part"
	done
	certificates ;;
*) echo "error: $chart is none of registry, etcd, vpa" >&2; exit 2 ;;
esac; done

#!/usr/bin/env bash
# Makes the images for clusters of etcd: etcd-images.sh TILLERMAN_BINARY OUT_FOLDER
# localhost/etcd:v3.5.35 and :v3.6.16 hold the programs alone, as upstream's do: no shell, nothing else. localhost/etcd-operator:test
# is what examples/etcd/Dockerfile makes; localhost/tillerman:test is the program alone, for Jobs and init containers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
. "$here/../cluster/pack.sh"
usage="usage: etcd-images.sh TILLERMAN_BINARY OUT_FOLDER"
bin=${1:?$usage} out=${2:?$usage}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
for program in etcd-3.5 etcd; do
	version=$("$TOOLS/$program" --version | awk '/^etcd Version:/ {print $3}')
	folder=$work/$program
	mkdir -p "$folder/usr/local/bin" "$folder/var/lib/etcd"
	install -m 755 "$TOOLS/$program" "$folder/usr/local/bin/etcd"
	install -m 755 "$TOOLS/${program/etcd/etcdutl}" "$folder/usr/local/bin/etcdutl"
	pack "localhost/etcd:v$version" "$out/etcd-$version.tar" '{"Cmd": ["/usr/local/bin/etcd"]}' "$folder"
done
root=$here/../..
mkdir -p "$work/context/examples/etcd"
install -D -m 755 "$bin" "$work/context/target/tillerman"
cp -r "$root/charts" "$work/context/"
cp "$root/examples/etcd/watches.yaml" "$work/context/examples/etcd/"
build_image "$root/examples/etcd/Dockerfile" last "$work/context" localhost/etcd-operator:test "$out/etcd-operator.tar"
"$bin" image --bare --tag localhost/tillerman:test --output "$out/tillerman.tar" >/dev/null

#!/usr/bin/env bash
# Makes the container images that the node runs, from Debian's packages, without Docker: images.sh [pause php]
# An image that is there already is kept.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/lib.sh"
need gcc gcc jq jq mmdebstrap mmdebstrap
mkdir -p "$IMAGES"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# pack NAME:TAG OUT.tar CONFIG_JSON FOLDER: a folder as an image of one layer. Layers stay uncompressed: no time is lost,
# and a layer's digest is its diff id.
pack() {
	local name=$1 out=$2 config=$3 w=$work/image layer
	rm -rf "$w" && mkdir -p "$w/blobs/sha256"
	blob() { # blob FILE MEDIA_TYPE: stores it and prints its descriptor
		local digest
		digest=$(sha256sum "$1" | cut -d' ' -f1)
		mv "$1" "$w/blobs/sha256/$digest"
		jq -nc --arg type "$2" --arg digest "sha256:$digest" --argjson size "$(stat -c %s "$w/blobs/sha256/$digest")" \
			'{mediaType: $type, digest: $digest, size: $size}'
	}
	tar -C "$4" --sort=name --numeric-owner --mtime=@0 -cf "$work/layer" .
	layer=$(blob "$work/layer" application/vnd.oci.image.layer.v1.tar)
	jq -nc --argjson config "$config" --argjson layer "$layer" \
		'{architecture: "amd64", os: "linux", config: $config, rootfs: {type: "layers", diff_ids: [$layer.digest]}}' >"$work/config"
	config=$(blob "$work/config" application/vnd.oci.image.config.v1+json)
	jq -nc --argjson config "$config" --argjson layer "$layer" \
		'{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config, layers: [$layer]}' >"$work/manifest"
	blob "$work/manifest" application/vnd.oci.image.manifest.v1+json | jq -c --arg name "$name" \
		'{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
		  manifests: [. + {platform: {architecture: "amd64", os: "linux"}, annotations: {"io.containerd.image.name": $name}}]}' >"$w/index.json"
	echo '{"imageLayoutVersion":"1.0.0"}' >"$w/oci-layout"
	tar -C "$w" --sort=name -cf "$out.new" oci-layout index.json blobs
	mv "$out.new" "$out"
}

pause() { # what keeps a pod's namespaces
	mkdir -p "$work/pause"
	cat >"$work/pause.c" <<'C'
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void quit(int s) { (void)s; _exit(0); }
static void reap(int s) { (void)s; while (waitpid(-1, 0, WNOHANG) > 0); }
int main(void) {
	signal(SIGINT, quit); signal(SIGTERM, quit); signal(SIGCHLD, reap);
	for (;;) pause();
}
C
	gcc -Os -static -s -o "$work/pause/pause" "$work/pause.c"
	pack localhost/pause:1 "$1" '{"Entrypoint":["/pause"]}' "$work/pause"
}

php() { # Debian's PHP; the machine's own package sources and keys are used
	local root=$work/php
	mmdebstrap --quiet --mode=root --variant=essential --include=php8.2-cli \
		--aptopt='APT::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--essential-hook='echo "exit 101" > "$1/usr/sbin/policy-rc.d"; chmod 755 "$1/usr/sbin/policy-rc.d"' \
		--customize-hook='rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*' \
		--customize-hook='mkdir -p "$1/srv"' \
		bookworm "$root" "${APT_SOURCES:-/etc/apt/sources.list.d/debian.sources}" 2>"$work/php.log" ||
		{ tail -5 "$work/php.log" >&2; die "the PHP image could not be made"; }
	pack localhost/php:8.2 "$1" '{"Cmd":["php","-a"],"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}' "$root"
}

for image in "${@:-pause php}"; do for image in $image; do
	out=$IMAGES/$image.tar
	[ -s "$out" ] || { "$image" "$out"; say "image $image made"; }
done; done

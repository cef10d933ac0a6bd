#!/usr/bin/env bash
# Makes the container images that the node runs, from Debian's packages, without Docker: images.sh [pause php]
# An image that is there already is kept.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/lib.sh"
. "$here/pack.sh"
need gcc gcc mmdebstrap mmdebstrap
mkdir -p "$IMAGES"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

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

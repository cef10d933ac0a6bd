#!/usr/bin/env bash
# Makes the container images that the node runs, from Debian's packages, without Docker: images.sh [pause php certgen mariadb mariadb-11.8 mysql-9.7]
# An image that this file made as it is now is kept.
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

# debian FOLDER PACKAGES [SUITE]: Debian's essential packages and these; the machine's own package sources and keys are used
debian() {
	local suite=${3:-bookworm}
	sed "s/bookworm/$suite/g" "${APT_SOURCES:-/etc/apt/sources.list.d/debian.sources}" >"$work/debian.sources"
	# The unstable suite has no updates beside it, and mirrors that stand still have an index whose time is over.
	[ "$suite" != sid ] || sed -i 's/^Suites:.*/Suites: sid/; /^$/,$d' "$work/debian.sources"
	mmdebstrap --quiet --mode=root --variant=essential --include="$2" \
		--aptopt='APT::Install-Recommends "false"' \
		--aptopt="Acquire::Check-Valid-Until \"$([ "$suite" = sid ] && echo false || echo true)\"" \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--essential-hook='echo "exit 101" > "$1/usr/sbin/policy-rc.d"; chmod 755 "$1/usr/sbin/policy-rc.d"' \
		--customize-hook='rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*' \
		--customize-hook='mkdir -p "$1/srv"' \
		"$suite" "$1" "$work/debian.sources" 2>"$work/debian.log" ||
		{ tail -5 "$work/debian.log" >&2; die "an image with $2 could not be made"; }
}

php() { # Debian's PHP
	local root=$work/php
	debian "$root" php8.2-cli
	pack localhost/php:8.2 "$1" '{"Cmd":["php","-a"],"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}' "$root"
}

certgen() { # a shell, and what hooks of charts use ingress-nginx' kube-webhook-certgen for, whose module is not to be had (certgen.sh)
	local root=$work/certgen
	"$here/build-tools.sh" api-server
	debian "$root" openssl
	install -m 755 "$TOOLS/kubectl" "$here/certgen.sh" "$root/usr/local/bin/"
	pack localhost/certgen:1 "$1" '{"Entrypoint":["/usr/local/bin/certgen.sh"],"Env":["HOME=/tmp","PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}' "$root"
}

# mariadb_of SUITE VERSION OUT: Debian's MariaDB, with the user of the image docker.io/library/mariadb
mariadb_of() {
	local root=$work/mariadb-$1
	debian "$root" mariadb-server-core,mariadb-backup,mariadb-client "$1"
	echo 'mysql:x:999:999::/var/lib/mysql:/usr/sbin/nologin' >>"$root/etc/passwd"
	echo 'mysql:x:999:' >>"$root/etc/group"
	install -d -o 999 -g 999 "$root/var/lib/mysql" "$root/run/mysqld"
	pack "localhost/mariadb:$2" "$3" '{"User":"999","Cmd":["mariadbd"],"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}' "$root"
}

mariadb() { mariadb_of bookworm 10.11.19 "$1"; }

mariadb-11.8() { mariadb_of trixie 11.8 "$1"; }

mysql-9.7() { # Debian's MySQL, of its unstable suite, with the user of the image docker.io/library/mysql
	local root=$work/mysql-9.7
	debian "$root" mysql-server-core,mysql-client-core sid
	echo 'mysql:x:999:999::/var/lib/mysql:/usr/sbin/nologin' >>"$root/etc/passwd"
	echo 'mysql:x:999:' >>"$root/etc/group"
	install -d -o 999 -g 999 "$root/var/lib/mysql" "$root/run/mysqld"
	pack localhost/mysql:9.7 "$1" '{"User":"999","Cmd":["mysqld"],"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}' "$root"
}

made_by=$(sha256sum <"$here/images.sh")
for image in "${@:-pause php}"; do for image in $image; do
	out=$IMAGES/$image.tar
	if [ -s "$out" ] && [ "$(cat "$out.from" 2>/dev/null)" = "$made_by" ]; then continue; fi
	"$image" "$out"
	echo "$made_by" >"$out.from"
	say "image $image made"
done; done

#!/usr/bin/env bash
# Makes the images of PHP applications, and of what they use: php-images.sh OUT_FOLDER [php-fpm php-apache wordpress wordpress-6.8 symfony redis mailpit exporter external-metrics]
# All but the last three are of Debian's packages: localhost/php-fpm:8.2 has fpm, nginx, git and msmtp, localhost/php-apache:8.2 has Apache with its
# module; localhost/wordpress:6.1 and, of the next suite, localhost/wordpress:6.8 are Debian's package, with a copy where public images have
# WordPress (/usr/src/wordpress), and localhost/symfony:5.4 an application (php/symfony) on Debian's packages of Symfony,
# whose autoloader Composer makes; localhost/redis:7.0. localhost/mailpit:test is a server of mail, and
# localhost/php-fpm-exporter:test has metrics of PHP-FPM, and localhost/external-metrics:test the length of a queue
# (../cluster/build-tools.sh mail exporter external-metrics).
# An image that this file made as it is now is kept.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
. "$here/../cluster/pack.sh"
need mmdebstrap mmdebstrap
out=$(realpath -m "${1:?usage: php-images.sh OUT_FOLDER [IMAGE...]}")
shift
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fpm=php8.2-fpm,php8.2-cli,php8.2-mysql,php8.2-opcache,php8.2-xml,php8.2-mbstring,php8.2-curl,php-redis,nginx-light

# debian FOLDER PACKAGES [HOOK...]: Debian's essential packages and these, and what more is done with the folder; SUITE is bookworm or given
debian() {
	local folder=$1 packages=$2 hook hooks=()
	shift 2
	for hook in "$@"; do hooks+=(--customize-hook="$hook"); done
	sed "s/bookworm/${SUITE:-bookworm}/g" "${APT_SOURCES:-/etc/apt/sources.list.d/debian.sources}" >"$work/debian.sources"
	mmdebstrap --quiet --mode=root --variant=essential --include="$packages" \
		--aptopt='APT::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--essential-hook='echo "exit 101" > "$1/usr/sbin/policy-rc.d"; chmod 755 "$1/usr/sbin/policy-rc.d"' \
		"${hooks[@]}" \
		--customize-hook='rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*' \
		"${SUITE:-bookworm}" "$folder" "$work/debian.sources" 2>"$work/debian.log" ||
		{ tail -5 "$work/debian.log" >&2; die "an image with $packages could not be made"; }
}
# What the public images have: fpm by a name without a version.
names='for fpm in "$1"/usr/sbin/php-fpm8.*; do ln -s "${fpm##*/}" "$1/usr/sbin/php-fpm"; done'
config='{"Cmd":["sh"],"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}'

php-fpm() {
	debian "$work/fpm" "$fpm,git,ca-certificates,msmtp" "$names"
	pack localhost/php-fpm:8.2 "$1" "$config" "$work/fpm"
}

php-apache() {
	debian "$work/apache" apache2,libapache2-mod-php8.2,php8.2-cli,php8.2-mysql,php8.2-opcache
	pack localhost/php-apache:8.2 "$1" "$config" "$work/apache"
}

# Files that the package has as links are files there.
public='chroot "$1" cp -rL /usr/share/wordpress /usr/src/'

wordpress() {
	debian "$work/wordpress" "$fpm,php8.2-gd,wordpress,wordpress-theme-twentytwentythree" "$names" "copy-in '$here/php/wordpress/config-default.php' /etc/wordpress" \
		"copy-in '$here/php/wordpress/install.php' /usr/local/share" "$public"
	pack localhost/wordpress:6.1 "$1" "$config" "$work/wordpress"
}

wordpress-6.8() {
	SUITE=trixie debian "$work/wordpress-6.8" "${fpm//8.2/8.4},php8.4-gd,wordpress,wordpress-theme-twentytwentyfive" "$names" "$public"
	pack localhost/wordpress:6.8 "$1" "$config" "$work/wordpress-6.8"
}

symfony() {
	debian "$work/symfony" "$fpm,composer,php-symfony-framework-bundle,php-symfony-yaml,php-symfony-console,php-symfony-dotenv" "$names" \
		"copy-in '$here/php/symfony' /" 'mv "$1/symfony" "$1/app"' \
		'chroot "$1" composer --working-dir=/app --no-interaction install --optimize-autoloader'
	pack localhost/symfony:5.4 "$1" "$config" "$work/symfony"
}

redis() {
	debian "$work/redis" redis-server
	pack localhost/redis:7.0 "$1" "$config" "$work/redis"
}

mailpit() { "$here/mail-image.sh" "$1"; }

exporter() {
	"$here/../cluster/build-tools.sh" exporter
	mkdir -p "$work/exporter"
	cp "$TOOLS/phpfpm-exporter" "$work/exporter/exporter"
	pack localhost/php-fpm-exporter:test "$1" '{"Entrypoint":["/exporter"],"User":"65532"}' "$work/exporter"
}

external-metrics() {
	"$here/../cluster/build-tools.sh" external-metrics
	mkdir -p "$work/external-metrics"
	cp "$TOOLS/external-metrics" "$work/external-metrics/server"
	pack localhost/external-metrics:test "$1" '{"Entrypoint":["/server"],"User":"65532"}' "$work/external-metrics"
}

# made_by IMAGE: a digest of all that makes it
made_by() {
	{
		declare -f debian "$1"
		echo "$fpm $names $config $public"
		case $1 in mailpit) cat "$here/../cluster/tools/mailpit/go.mod" ;; exporter) cat "$here/../cluster/tools/phpfpm-exporter/"*.{mod,go} ;; external-metrics) cat "$here/../cluster/tools/external-metrics/"*.{mod,go} ;; esac
		[ ! -d "$here/php/$1" ] || find "$here/php/$1" -type f | sort | xargs cat
	} | sha256sum
}
for image in "${@:-php-fpm php-apache wordpress wordpress-6.8 symfony redis mailpit exporter external-metrics}"; do for image in $image; do
	file=$out/$image.tar
	if [ -s "$file" ] && [ "$(cat "$file.from" 2>/dev/null)" = "$(made_by "$image")" ]; then continue; fi
	"$image" "$file"
	made_by "$image" >"$file.from"
	say "image $image made"
done; done

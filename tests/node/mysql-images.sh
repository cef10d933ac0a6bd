#!/usr/bin/env bash
# Makes the image of the agent for MariaDB: mysql-images.sh AGENT_BINARY OUT_FOLDER
# localhost/tillerman-agent:test is the program alone. localhost/mariadb:10.11.19 and localhost/mariadb:11.8 are of Debian's packages
# (../cluster/images.sh mariadb mariadb-11.8). With WITH_MYSQL=yes there is localhost/mysql:9.7, too, of its unstable suite.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
. "$here/../cluster/pack.sh"
usage="usage: mysql-images.sh AGENT_BINARY OUT_FOLDER"
bin=${1:?$usage} out=${2:?$usage}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/agent"
install -m 755 "$bin" "$work/agent/tillerman-agent"
pack localhost/tillerman-agent:test "$out/tillerman-agent.tar" '{"Entrypoint":["/tillerman-agent"],"User":"65532"}' "$work/agent"
"$here/../cluster/images.sh" mariadb mariadb-11.8
cp "$IMAGES/mariadb.tar" "$IMAGES/mariadb-11.8.tar" "$out/"
if [ -n "${WITH_MYSQL:-}" ]; then
	"$here/../cluster/images.sh" mysql-9.7
	cp "$IMAGES/mysql-9.7.tar" "$out/"
fi

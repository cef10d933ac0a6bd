#!/usr/bin/env bash
# Makes the images of a cluster of MariaDB: mysql-images.sh TILLERMAN_BINARY AGENT_BINARY OUT_FOLDER
# localhost/tillerman-agent:test is made as a user makes it. localhost/mariadb:10.11.19 and localhost/mariadb:11.8 are of Debian's packages
# (../cluster/images.sh mariadb mariadb-11.8). With WITH_MYSQL=yes there is localhost/mysql:9.7, too, of its unstable suite.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
usage="usage: mysql-images.sh TILLERMAN_BINARY AGENT_BINARY OUT_FOLDER"
bin=${1:?$usage} agent=${2:?$usage} out=${3:?$usage}
mkdir -p "$out"
"$bin" image --bare --program "$agent" --tag localhost/tillerman-agent:test --output "$out/tillerman-agent.tar" >/dev/null
"$here/../cluster/images.sh" mariadb mariadb-11.8
cp "$IMAGES/mariadb.tar" "$IMAGES/mariadb-11.8.tar" "$out/"
if [ -n "${WITH_MYSQL:-}" ]; then
	"$here/../cluster/images.sh" mysql-9.7
	cp "$IMAGES/mysql-9.7.tar" "$out/"
fi

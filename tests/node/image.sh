#!/usr/bin/env bash
# Makes the image of a project of operator-sdk: image.sh TILLERMAN_BINARY PROJECT NAME:TAG OUT.tar
# What the project's Dockerfile does, with this operator in helm-operator's place (operator-sdk 1.42, images/helm-operator/Dockerfile):
# the same working folder, user and arguments, so that the project's own manifests fit.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
. "$here/../cluster/pack.sh"
usage="usage: image.sh TILLERMAN_BINARY PROJECT NAME:TAG OUT.tar"
bin=${1:?$usage} project=${2:?$usage} name=${3:?$usage} out=${4:?$usage}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
operator=$work/operator copies=$work/project
mkdir -p "$operator"/{usr/local/bin,opt/helm,etc/ssl/certs,tmp} "$copies/opt/helm"
chmod 1777 "$operator/tmp"
install -m 755 "$bin" "$operator/usr/local/bin/tillerman"
ln -s tillerman "$operator/usr/local/bin/helm-operator"
echo 'helm:x:1001:0:helm user:/opt/helm:/sbin/nologin' >"$operator/etc/passwd"
# Whom it trusts when it fetches charts.
[ ! -s /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$operator/etc/ssl/certs/"
cp -r "$project/watches.yaml" "$project/helm-charts" "$copies/opt/helm/"
chmod -R a+rX "$copies"
pack "$name" "$out" '{
	"User": "1001", "WorkingDir": "/opt/helm",
	"Env": ["HOME=/opt/helm", "USER_NAME=helm", "USER_UID=1001", "PATH=/usr/local/bin"],
	"Entrypoint": ["/usr/local/bin/tillerman", "run", "--watches-file=./watches.yaml"]}' "$operator" "$copies"

#!/usr/bin/env bash
# Makes the image of a project of operator-sdk: image.sh TILLERMAN_BINARY PROJECT NAME:TAG OUT.tar
# What docs/helm-operator.md says: the project's own Dockerfile, of which only the image is changed that it begins with.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
. "$here/../cluster/pack.sh"
usage="usage: image.sh TILLERMAN_BINARY PROJECT NAME:TAG OUT.tar"
bin=${1:?$usage} project=${2:?$usage} name=${3:?$usage} out=${4:?$usage}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$project" "$work/project"
install -D -m 755 "$bin" "$work/project/target/tillerman"
sed 's|^FROM quay.io/operator-framework/helm-operator:.*|FROM helm-operator AS project|' "$project/Dockerfile" |
	cat "$here/../../deploy/Dockerfile" - >"$work/Dockerfile"
build_image "$work/Dockerfile" project "$work/project" "$name" "$out"

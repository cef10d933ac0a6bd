#!/usr/bin/env bash
# Makes the image of deploy/install twice: install-images.sh TILLERMAN_BINARY OUT_FOLDER
# tillerman:0.1.0 is the image of a release, or where the program cannot make images, what deploy/operator.Dockerfile makes. tillerman:0.0.9
# differs from it in a label or a variable alone, and stands for the version before.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
. "$here/../cluster/pack.sh"
usage="usage: install-images.sh TILLERMAN_BINARY OUT_FOLDER"
bin=${1:?$usage} out=${2:?$usage}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
# As the registry is called that Kubernetes takes where a name has none.
library=docker.io/library/tillerman
if "$bin" image --help >/dev/null 2>&1; then
	charts=()
	# charts/wordpress has links to charts/php, and nothing may lead out of a chart in an image.
	cp -rL "$here/../../charts" "$work/"
	for chart in "$work"/charts/*/; do charts+=(--chart "${chart%/}"); done
	"$bin" image --bare "${charts[@]}" --tag "$library:0.1.0" --format oci-archive --output "$out/tillerman-0.1.0.tar"
	"$bin" image --bare "${charts[@]}" --tag "$library:0.0.9" --label before=yes --format oci-archive --output "$out/tillerman-0.0.9.tar"
	exit
fi
install -D -m 755 "$bin" "$work/context/target/tillerman"
cp -r "$here/../../charts" "$work/context/"
build_image "$here/../../deploy/operator.Dockerfile" last "$work/context" "$library:0.1.0" "$out/tillerman-0.1.0.tar"
sed 's|^COPY charts /charts$|&\nENV TILLERMAN_TEST=before|' "$here/../../deploy/operator.Dockerfile" >"$work/Dockerfile"
build_image "$work/Dockerfile" last "$work/context" "$library:0.0.9" "$out/tillerman-0.0.9.tar"

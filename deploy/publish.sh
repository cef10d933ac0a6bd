#!/usr/bin/env bash
# Pushes a release that `make release` made: publish.sh FOLDER
# IMAGE=registry.example.com/tillerman is the name with which it was made. The script pushes the images and the chart there; the other files
# belong on the page of the release. SIGN_KEY is the key that signed it. PUSH_FLAGS are more flags of `tillerman image --push`, such as
# --plain-http. The script refuses a tree with changes, a version that the registry has with other content, and a folder with an unsigned or
# changed file. After a push that failed half-way, run it again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath "${1:?usage: publish.sh FOLDER}")
image=${IMAGE:?IMAGE is the name with which the release was made}
key=$(realpath "${SIGN_KEY:?SIGN_KEY is the private key with which the release was signed}")
self=${SELF:?SELF is the program of this release that runs here}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../Cargo.toml" | head -1)
read -ra flags <<<"${PUSH_FLAGS:-}"
die() { echo "error: $*" >&2; exit 1; }

[ -z "$(git -C "$here" status --porcelain)" ] || die "the tree has changes: commit them, and make the release again"
commit=$(git -C "$here" rev-parse HEAD)
grep -q "\"gitCommit\": \"$commit\"" "$out/provenance.json" 2>/dev/null ||
	die "$out was not signed, or made from another commit than $commit: make the release again with SIGN_KEY"
(cd "$out" && sha256sum --check --strict --quiet SHA256SUMS) || die "$out has changed since it was made"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The same key and bytes make the same signature.
while read -r _ file; do
	cp "$out/$file" "$work/$file"
	"$self" sign --sign-key "$key" "$work/$file"
	cmp -s "$work/$file.sigstore.json" "$out/$file.sigstore.json" || die "$file has no signature of this key"
	rm -f "$work/$file"
done < <(cat "$out/SHA256SUMS"; echo - SHA256SUMS)

# programs NAME: flags for the programs of a name, unpacked from their archives
programs() {
	local archive folder
	for archive in "$out/$1-$version"-linux-*.tar.gz; do
		folder=$work/$(basename "$archive" .tar.gz)
		mkdir "$folder"
		tar -C "$folder" --strip-components=1 -xzf "$archive"
		printf -- '--program\n%s\n' "$folder/$1"
	done
}
signed=(--sign-key "$key" --provenance "$out/provenance.json")
# pushes NAME ARCHIVE FLAGS...: makes the image again, which has the digest of the one that was signed, and pushes it
pushes() {
	local name=$1 archive=$2 digest
	shift 2
	digest=$(tar -xOf "$archive" index.json | jq -r '.manifests[0].digest')
	"$self" image --bare --tag "$name:$version" "$@" | grep -qF "@$digest" || die "$archive is not what its programs make"
	"$self" image --bare --tag "$name:$version" --push --new "${signed[@]}" "${flags[@]}" "$@"
}
mapfile -t operator < <(programs tillerman)
mapfile -t agent < <(programs tillerman-agent)
charts=()
cp -rL "$here/../charts" "$work/"
for chart in "$work"/charts/*/; do charts+=(--chart "${chart%/}"); done
pushes "$image" "$out/tillerman-$version-image.tar" "${charts[@]}" "${operator[@]}"
pushes "$image-agent" "$out/tillerman-agent-$version-image.tar" "${agent[@]}"
"$self" push --new "${signed[@]}" "${flags[@]}" "$out/tillerman-$version.tgz" "oci://${CHARTS:-${image%/*}/charts}"
echo "published $version; the page of the release gets the files of $out"

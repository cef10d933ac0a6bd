#!/usr/bin/env bash
# Writes all files of a release into a folder: release.sh FOLDER TARGET=PROGRAM...
# TARGET is rustc's name of a platform, such as x86_64-unknown-linux-gnu, and PROGRAM the static program for it. `make release` builds them.
# AGENTS="TARGET=PROGRAM..." are the agents for MariaDB, which get a separate image, IMAGE-agent.
# IMAGE=registry.example.com/tillerman is the name of the image in the registry. All files of the release use this name.
# SIGN_KEY=FILE is a private key (P-256, PEM). Each file gets a signature, FILE.sigstore.json, and provenance.sigstore.json describes how all of
# them were built. HELM_SIGN_KEY=NAME is the name of a GnuPG key: the chart gets a provenance file, which `helm verify` accepts, and names the
# key, whose public part becomes tillerman.gpg, a keyring for `helm verify --keyring`.
# WITHOUT_IMAGE=1 leaves out the image, which needs static programs. The same sources and programs make the same files.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage="usage: release.sh FOLDER TARGET=PROGRAM..."
out=${1:?$usage}
shift
[ $# -gt 0 ] || { echo "$usage" >&2; exit 2; }
image=${IMAGE:-tillerman}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../Cargo.toml" | head -1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"

# platform TARGET: the name of the platform in Kubernetes
platform() {
	case $1 in
	x86_64-*-linux-*) echo linux-amd64 ;;
	aarch64-*-linux-*) echo linux-arm64 ;;
	*-apple-darwin) echo "darwin-$(sed 's/^aarch64/arm64/; s/^x86_64/amd64/; s/-.*//' <<<"$1")" ;;
	*) echo "$1" ;;
	esac
}

# archive FOLDER OUT.tgz: the same bytes for the same files
archive() {
	tar -C "$(dirname "$1")" --sort=name --numeric-owner --owner=0 --group=0 --mode=go=rX,u+rw --mtime=@0 -cf - "$(basename "$1")" | gzip -n9 >"$2"
}

# The programs. The first program that runs here, or the program SELF, generates the other files.
self=${SELF:-}
for pair in "$@"; do
	target=${pair%%=*} program=${pair#*=}
	name=tillerman-$version-$(platform "$target")
	install -D -m 755 "$program" "$work/$name/tillerman"
	cp "$here/../LICENSE" "$work/$name/"
	if [ -z "$self" ] && "$program" --version >/dev/null 2>&1; then self=$program; fi
done
[ -n "$self" ] || { echo "error: none of the programs runs on this machine" >&2; exit 1; }
offers() { "$self" "$1" --help >/dev/null 2>&1; }
for shell in bash zsh fish; do
	offers completion || break
	"$self" completion $shell >"$work/tillerman.$shell"
done
agents=()
for pair in ${AGENTS:-}; do
	name=tillerman-agent-$version-$(platform "${pair%%=*}")
	install -D -m 755 "${pair#*=}" "$work/$name/tillerman-agent"
	cp "$here/../LICENSE" "$work/$name/"
	archive "$work/$name" "$out/$name.tar.gz"
	agents+=(--program "${pair#*=}")
done
for folder in "$work"/tillerman-"$version"-*; do
	cp "$work"/tillerman.{bash,zsh,fish} "$folder/" 2>/dev/null || true
	archive "$folder" "$out/${folder##*/}.tar.gz"
done

# The definitions and the operator in one file each.
cat "$here"/install/crds/*.dev.yaml "$here"/install/crds/*.com.yaml | awk 'FNR > 1 && /^# Written/ { print "---"; next } !/^# Written/' >"$out/crds.yaml"
# named: the images of a text as this release names them
named() { sed "s|\btillerman\(-agent\)\{0,1\}:$version|$image\1:$version|g"; }
named <"$here/install/base/operator.yaml" >"$work/operator.yaml"
{
	cat "$out/crds.yaml"
	for file in "$here/install/base/namespace.yaml" "$work/operator.yaml"; do
		echo ---
		grep -v '^# Written' "$file"
	done
} >"$out/install.yaml"

# The chart.
cp -r "$here/chart" "$work/tillerman"
sed -i "s|^  repository: tillerman\(-agent\)\{0,1\}$|  repository: $image\1|" "$work/tillerman/values.yaml"
named <"$work/tillerman/Chart.yaml" >"$work/Chart.yaml" && mv "$work/Chart.yaml" "$work/tillerman/Chart.yaml"
if [ -n "${HELM_SIGN_KEY:-}" ]; then
	gpg --batch --export "$HELM_SIGN_KEY" >"$out/tillerman.gpg"
	fingerprint=$(gpg --batch --with-colons --fingerprint "$HELM_SIGN_KEY" | awk -F: '$1 == "fpr" { print $10; exit }')
	repository=$(sed -n 's/^repository = "\(.*\)"/\1/p' "$here/../Cargo.toml" | head -1)
	cat >>"$work/tillerman/Chart.yaml" <<-END
	  artifacthub.io/signKey: |
	    fingerprint: $fingerprint
	    url: $repository/releases/download/v$version/tillerman.gpg
	END
fi
archive "$work/tillerman" "$out/tillerman-$version.tgz"
"$self" lint "$out/tillerman-$version.tgz" >"$work/lint" || { cat "$work/lint" >&2; exit 1; }

# The bundle for the Operator Lifecycle Manager.
cp -r "$here/bundle" "$work/tillerman-bundle-$version"
for file in "$work/tillerman-bundle-$version"/manifests/tillerman{.clusterserviceversion,-watches.configmap}.yaml; do
	named <"$file" >"$work/named" && mv "$work/named" "$file"
done
archive "$work/tillerman-bundle-$version" "$out/tillerman-bundle-$version.tar.gz"

# The notes: the section of this version in the changelog, or the section of unreleased changes if the version has none.
section() { awk -v name="[$1]" '/^## / { found = ($2 == name); next } /^\[[^]]*\]: / { next } found' "$here/../CHANGELOG.md" | sed '/./,$!d'; }
section "$version" >"$out/notes.md"
[ -s "$out/notes.md" ] || section Unreleased >"$out/notes.md"
[ -s "$out/notes.md" ] || { echo "error: CHANGELOG.md has no section $version" >&2; exit 1; }

# The image of all programs for Linux, and lists of its contents (SPDX).
make_image() {
	local pair target flags=() charts=() chart
	# charts/wordpress has links to charts/php, and nothing may lead out of a chart in an image.
	[ -d "$work/charts" ] || cp -rL "$here/../charts" "$work/"
	for chart in "$work"/charts/*/; do charts+=(--chart "${chart%/}"); done
	for pair in "$@"; do
		target=${pair%%=*}
		case $target in *-linux-*) ;; *) continue ;; esac
		flags+=(--program "${pair#*=}")
		"$self" image --bare --tag "$image:$version" "${charts[@]}" --program "${pair#*=}" \
			--output "$work/image.tar" --sbom "$out/tillerman-$version-$(platform "$target").spdx.json" >/dev/null
	done
	"$self" image --bare --tag "$image:$version" "${charts[@]}" "${flags[@]}" --format oci-archive --output "$out/tillerman-$version-image.tar"
	[ ${#agents[@]} = 0 ] || "$self" image --bare --tag "$image-agent:$version" "${agents[@]}" --format oci-archive \
		--output "$out/tillerman-agent-$version-image.tar"
}
if [ -n "${WITHOUT_IMAGE:-}" ]; then
	echo "no image is made"
elif offers image; then
	make_image "$@"
else
	echo "no image is made: this program has no command image"
fi

# chart_provenance ARCHIVE: the file that `helm package --sign` writes next to it
chart_provenance() {
	{
		cat "$work/tillerman/Chart.yaml"
		printf '\n...\nfiles:\n  %s: sha256:%s\n' "$(basename "$1")" "$(sha256sum <"$1" | cut -d' ' -f1)"
	} | gpg --batch --yes --clearsign --digest-algo SHA512 --local-user "$HELM_SIGN_KEY" --output "$1.prov"
}
[ -z "${HELM_SIGN_KEY:-}" ] || chart_provenance "$out/tillerman-$version.tgz"

[ -z "${SIGN_KEY:-}" ] || openssl pkey -in "$SIGN_KEY" -pubout -out "$out/tillerman.pub"

(cd "$out" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)

# The provenance in the format of SLSA: the commit, the compiler, the locked dependencies and the parameters of the build.
predicate() {
	local lock commit
	lock=$(sha256sum <"$here/../Cargo.lock" | cut -d' ' -f1)
	commit=$(git -C "$here" rev-parse HEAD 2>/dev/null || true)
	cat <<END
{"buildDefinition": {
  "buildType": "https://tillerman.dev/make-release/v1",
  "externalParameters": {"version": "$version", "image": "$image", "targets": [$(printf '"%s", ' "${@%%=*}" | sed 's/, $//')]},
  "internalParameters": {"rustc": "$(rustc --version)"},
  "resolvedDependencies": [
    {"uri": "git+$(sed -n 's/^repository = "\(.*\)"/\1/p' "$here/../Cargo.toml" | head -1)", "digest": {"gitCommit": "$commit"}},
    {"name": "Cargo.lock", "digest": {"sha256": "$lock"}}]},
 "runDetails": {"builder": {"id": "${BUILDER:-https://tillerman.dev/make-release}"}}}
END
}
if [ -n "${SIGN_KEY:-}" ]; then
	predicate "$@" >"$out/provenance.json"
	files=("$out"/*)
	"$self" sign --sign-key "$SIGN_KEY" --provenance "$out/provenance.json" --provenance-output "$out/provenance.sigstore.json" "${files[@]}"
fi

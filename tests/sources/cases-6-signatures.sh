# Signatures of images and files, which the real cosign verifies with the public key and without a network.
# shellcheck shell=bash disable=SC2154
cosign=$TOOLS/cosign
mkdir -p "$work/input" "$work/cosign" && cp -r "$here/../node/project" "$work/input/project"
for name in ours theirs; do
	openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/cosign/$name.pem" 2>/dev/null
	openssl pkey -in "$work/cosign/$name.pem" -pubout -out "$work/cosign/$name.pub" 2>/dev/null
done
printf '{"buildDefinition": {"buildType": "https://example.com/make", "externalParameters": {}}, "runDetails": {"builder": {"id": "https://example.com/here"}}}' \
	>"$work/cosign/provenance.json"

# verifies CODE COMMAND...: cosign, which knows no server but those of the tests, ends with CODE
verifies() {
	local code=$1 command=$2
	shift 2
	HOME=$work/cosign "$cosign" "$command" --insecure-ignore-tlog=true "$@" >"$case/cosign" 2>&1
	[ $? = "$code" ] || { cat "$case/cosign" && false; }
}
# Without cosign, which is only built for `make test-full`, openssl checks the signatures of files.
if [ ! -x "$cosign" ]; then
	begin "signed files, checked by openssl" && {
		(cd "$case" && echo one >one && "$ours" sign --sign-key "$work/cosign/ours.pem" --provenance "$work/cosign/provenance.json" one)
		jq -r .messageSignature.signature "$case/one.sigstore.json" | base64 -d >"$case/signature"
		jq -r .dsseEnvelope.payload "$case/provenance.sigstore.json" | base64 -d >"$case/payload"
		jq -r '.dsseEnvelope.signatures[0].sig' "$case/provenance.sigstore.json" | base64 -d >"$case/envelope"
		{ printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "$(wc -c <"$case/payload")" && cat "$case/payload"; } >"$case/signed"
		openssl dgst -sha256 -verify "$work/cosign/ours.pub" -signature "$case/signature" "$case/one" &&
			openssl dgst -sha256 -verify "$work/cosign/ours.pub" -signature "$case/envelope" "$case/signed" &&
			! openssl dgst -sha256 -verify "$work/cosign/theirs.pub" -signature "$case/signature" "$case/one"
	} >"$work/openssl" 2>&1
	verdict $?
	rm -rf "$work/input"
	return 0
fi
registry=(--allow-http-registry)
signed=$open/images/signed:1

begin "image with a signature" && {
	image project --tag "$signed" --push "${plain[@]}" "${both[@]}" --sign-key "$work/cosign/ours.pem" --provenance "$work/cosign/provenance.json"
	[ "$(cat "$case/ours.code")" = 0 ] || cat "$case/ours.err"
	verifies 0 verify "${registry[@]}" --key "$work/cosign/ours.pub" "$signed" &&
		verifies 0 verify-attestation "${registry[@]}" --type slsaprovenance1 --key "$work/cosign/ours.pub" "$signed"
	verdict $?
}
begin "image with somebody else's signature" && {
	verifies 10 verify "${registry[@]}" --key "$work/cosign/theirs.pub" "$signed" || verifies 1 verify "${registry[@]}" --key "$work/cosign/theirs.pub" "$signed"
	verdict $?
}
begin "image without a signature" && {
	image project --tag "$open/images/unsigned:1" --push "${plain[@]}" "${one[@]}"
	! verifies 0 verify "${registry[@]}" --key "$work/cosign/ours.pub" "$open/images/unsigned:1" >/dev/null
	verdict $?
}
begin "files with signatures" && {
	(cd "$case" && echo one >one && echo two >two && "$ours" sign --sign-key "$work/cosign/ours.pem" --provenance "$work/cosign/provenance.json" one two)
	bad=0
	for file in one two; do
		verifies 0 verify-blob --key "$work/cosign/ours.pub" --bundle "$case/$file.sigstore.json" "$case/$file" || bad=1
		verifies 0 verify-blob-attestation --type slsaprovenance1 --key "$work/cosign/ours.pub" --bundle "$case/provenance.sigstore.json" "$case/$file" || bad=1
	done
	echo three >>"$case/two"
	verifies 1 verify-blob --key "$work/cosign/ours.pub" --bundle "$case/two.sigstore.json" "$case/two" || bad=1
	verdict $bad
}
own "signed image that is there with other content" 1 "with other content, and is not replaced" image project --tag "$signed" --push --new "${plain[@]}" "${one[@]}"
begin "chart with a signature" && {
	cp "$work/www/open/web-1.2.0+build.5.tgz"* "$case/ours" && cp "$work/www/open/web-1.2.0+build.5.tgz" "$case/helm"
	run ours "$ours" push web-1.2.0+build.5.tgz "oci://$open/signed" "${plain[@]}" --new --sign-key "$work/cosign/ours.pem"
	bad=0
	grep -qx "Pushed: $open/signed/web:1.2.0_build.5" "$case/ours.out" || { bad=1 && cat "$case/ours.out" "$case/ours.err"; }
	verifies 0 verify "${registry[@]}" --key "$work/cosign/ours.pub" "$open/signed/web:1.2.0_build.5" || bad=1
	# The real helm finds the chart and its provenance.
	(cd "$case/helm" && mkdir pulled && in_helm "$work/home" "$helm" pull "oci://$open/signed/web" --version 1.2.0+build.5 --verify \
		--keyring "$work/public.gpg" --plain-http --destination pulled >/dev/null && cmp web-1.2.0+build.5.tgz pulled/web-1.2.0+build.5.tgz) || bad=1
	verdict $bad
}
own "chart to no registry" 1 "a registry is oci://" push x.tgz "https://$open"

# A release, of the smallest programs, from a clean tree; made again from a copy elsewhere, with other modes, times and words.
begin "signed release that verifies" && {
	tree=$case/tree release=$case/release bad=0
	mkdir "$tree" && (cd "$here/../.." && git ls-files -z -- . ':!:tests' ':!:fuzz' | xargs -0 cp --parents -t "$tree")
	(cd "$tree" && git init -q && git add -A && git -c user.name=x -c user.email=x@example.com commit -qm x) >/dev/null
	targets=("x86_64-unknown-linux-gnu=$work/amd64" "aarch64-unknown-linux-gnu=$work/arm64")
	export AGENTS="${targets[*]}" IMAGE=$open/release/tillerman SELF=$ours SIGN_KEY=$work/cosign/ours.pem HELM_SIGN_KEY=else@example.test
	GNUPGHOME=$work/gnupg "$tree/deploy/release.sh" "$release" "${targets[@]}" >"$case/made" 2>&1 || { bad=1 && cat "$case/made"; }
	version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$tree/Cargo.toml" | head -1)
	while read -r file; do
		verifies 0 verify-blob --key "$work/cosign/ours.pub" --bundle "$release/$file.sigstore.json" "$release/$file" || bad=1
		verifies 0 verify-blob-attestation --type slsaprovenance1 --key "$work/cosign/ours.pub" --bundle "$release/provenance.sigstore.json" "$release/$file" || bad=1
	done < <(cd "$release" && ls | grep -v sigstore)
	in_helm "$work/home" "$helm" verify --keyring "$release/tillerman.gpg" "$release/tillerman-$version.tgz" >/dev/null || bad=1
	fingerprint=$(GNUPGHOME=$work/gnupg gpg --with-colons --fingerprint "$HELM_SIGN_KEY" | awk -F: '/^fpr/ { print $10; exit }')
	tar -xOzf "$release/tillerman-$version.tgz" tillerman/Chart.yaml | grep -q "fingerprint: $fingerprint" || bad=1
	mkdir -p "$work/elsewhere" && cp -r "$tree" "$work/elsewhere/tree" && find "$work/elsewhere/tree" -exec touch -d 2001-02-03 {} + && chmod -R go= "$work/elsewhere/tree"
	(umask 077 && cd / && TZ=Asia/Tokyo LC_ALL=tr_TR.UTF-8 GNUPGHOME=$work/gnupg "$work/elsewhere/tree/deploy/release.sh" "$case/second" "${targets[@]}" >/dev/null 2>&1)
	# GnuPG puts the time into its signature, which no second build can have.
	for file in "$case/second"/*; do
		case ${file##*/} in SHA256SUMS* | provenance.sigstore.json | *.prov*) continue ;; esac
		cmp "$file" "$release/${file##*/}" || bad=1
	done
	[ "$(ls "$case/second" | wc -l)" -gt 10 ] || bad=1
	verdict $bad
}
begin "signed release that is published" && {
	release=$work/cases/signed-release-that-verifies/release tree=$work/cases/signed-release-that-verifies/tree bad=0
	publish() { PUSH_FLAGS=--plain-http CHARTS=${CHARTS:-$open/release/charts} "$tree/deploy/publish.sh" "$release" >"$case/published" 2>&1; }
	refuses() { ! publish && grep -q "$1" "$case/published" || { bad=1 && cat "$case/published"; }; }
	touch "$tree/new" && refuses "the tree has changes" && rm "$tree/new"
	mv "$release/install.yaml.sigstore.json" "$case/kept" && refuses "install.yaml has no signature" && mv "$case/kept" "$release/install.yaml.sigstore.json"
	SIGN_KEY=$work/cosign/theirs.pem refuses "has no signature of this key"
	# The registry of the charts does not answer: the images are there already when it is asked.
	CHARTS=127.0.0.1:1/charts refuses "127.0.0.1:1"
	publish || { bad=1 && cat "$case/published"; }
	for image in tillerman tillerman-agent charts/tillerman; do
		verifies 0 verify "${registry[@]}" --key "$work/cosign/ours.pub" "$open/release/$image:$version" || bad=1
		verifies 0 verify-attestation "${registry[@]}" --type slsaprovenance1 --key "$work/cosign/ours.pub" "$open/release/$image:$version" || bad=1
	done
	# What is there with the same bytes is there; other bytes do not replace it.
	publish || { bad=1 && cat "$case/published"; }
	"$ours" image --bare --tag "$IMAGE:$version" --program "$work/amd64" --push --plain-http >/dev/null
	refuses "tillerman:$version is in the registry with other content"
	verdict $bad
}
unset AGENTS IMAGE SELF SIGN_KEY HELM_SIGN_KEY
own "signature with a key of another kind" 1 "the curve P-256 in PEM" image project --tag "$signed" --push "${plain[@]}" "${one[@]}" --sign-key "$work/pki/self.key"
own "image signed without a push" 1 "--sign-key signs what --push pushes" image project --tag a.b/c:1 "${one[@]}" --sign-key "$work/cosign/ours.pem"
rm -rf "$work/input"

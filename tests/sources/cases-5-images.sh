# Images: pushed to a registry, and pulled from there by a second program, which must find the same digests.
# shellcheck shell=bash disable=SC2154
need skopeo skopeo jq jq

# elf FILE MACHINE: the smallest static program for a machine, which is a number of ELF in octal digits
elf() {
	zeros() { head -c "$1" /dev/zero; }
	{
		printf '\177ELF\2\1\1' && zeros 9 && printf "\\2\\0\\$2\\0" && zeros 12 && printf '\100' && zeros 19
		printf '\100\0\70\0\1\0' && zeros 6 && printf '\1' && zeros 55
	} >"$1"
}

# image ARGS...: makes an image; its output is in $case/ours.out
image() { run ours "$ours" image "$@"; }

# pushes NAME REFERENCE ARGS...: the image is pushed and has the same digest for skopeo; `read` are its flags
pushes() {
	local reference=$2
	begin "$1" || return 0
	shift 2
	stdin=$typed
	image project --tag "$reference" --push "$@"
	local bad=0 found
	found=$(skopeo inspect --raw "${read[@]}" "docker://$reference" | sha256sum | cut -d' ' -f1)
	# Where there is no terminal, nobody watches how far it is.
	[ "$(cat "$case/ours.code")" = 0 ] && [ "$(head -1 "$case/ours.out")" = "$reference@sha256:$found" ] && [ ! -s "$case/ours.err" ] || bad=1
	[ $bad = 0 ] || { echo "skopeo finds $found" && cat "$case/ours.out" "$case/ours.err"; }
	verdict $bad
}

mkdir -p "$work/input" && cp -r "$here/../node/project" "$work/input/project"
elf "$work/amd64" 76
elf "$work/arm64" 267
export SOURCE_DATE_EPOCH=
typed=
one=(--program "$work/amd64") both=(--program "$work/amd64" --program "$work/arm64")

# The same digest from another directory, with other times, modes, environment and user.
begin "image twice" && {
	image project --tag a/b:1 "${one[@]}"
	mkdir -p "$work/elsewhere" && cp -r "$work/input/project" "$work/elsewhere/deep" && chmod -R go= "$work/elsewhere/deep"
	find "$work/elsewhere" -exec touch -d 2001-02-03 {} +
	cp "$ours" "$work/elsewhere/tillerman" && cp "$work/amd64" "$work/elsewhere/program" && chmod 755 "$work/elsewhere/tillerman"
	chown -R nobody "$work/elsewhere"
	(umask 077 && cd "$work/elsewhere" && setpriv --reuid=nobody --clear-groups env -i TZ=Asia/Tokyo LC_ALL=tr_TR.UTF-8 HOME=/nonexistent \
		./tillerman image deep -t docker.io/a/b:1 --program program) >"$case/other" 2>&1
	grep -q '^docker.io/a/b:1@sha256:' "$case/other" && diff <(head -2 "$case/ours.out") <(head -2 "$case/other")
	verdict $?
}

read=(--tls-verify=false)
pushes "image without a login" "$open/images/page:1" "${plain[@]}" "${one[@]}"
holds "image again sends nothing" bash -c \
	"'$ours' image '$work/input/project' --tag '$open/images/page:1' --push --plain-http ${one[*]} | grep -qx 'pushed 0 of 5 blobs, 0 B'"
pushes "image of two platforms" "$open/images/page:2" "${plain[@]}" "${both[@]}"
begin "image of two platforms is whole" && {
	skopeo copy --quiet --all --src-tls-verify=false "docker://$open/images/page:2" "oci:$case/copy:2" && image project --tag "$open/images/page:2" "${both[@]}"
	diff <(jq -r '.manifests[0].digest' "$case/copy/index.json") <(head -1 "$case/ours.out" | sed 's/.*@//')
	verdict $?
}
begin "image with an SPDX document" && {
	hex=$(skopeo inspect --raw "${read[@]}" "docker://$open/images/page:1" | sha256sum | cut -d' ' -f1)
	artifact=$(skopeo inspect --raw "${read[@]}" "docker://$open/images/page:sha256-$hex" |
		jq -r '.manifests[] | select(.artifactType == "application/spdx+json").digest')
	document=$(skopeo inspect --raw "${read[@]}" "docker://$open/images/page@$artifact" | jq -r --arg of "sha256:$hex" 'select(.subject.digest == $of).layers[0].digest')
	curl -s "http://$open/v2/images/page/blobs/$document" | jq -e '.spdxVersion == "SPDX-2.3" and any(.packages[]; .name == "page")' >/dev/null
	verdict $?
}
for format in oci oci-archive docker-archive; do
	begin "image as $format" && {
		image project --tag a.b/c:1 "${one[@]}" --output "$case/out" --format $format
		tag=$([ $format = docker-archive ] || echo :1)
		skopeo inspect --config "$format:$case/out$tag" | jq -e '.config.User == "1001"' >/dev/null
		verdict $?
	}
done

own "image of two platforms for docker" 1 "holds one platform" image project --tag a.b/c:1 "${both[@]}" --output x --format docker-archive
own "image into a directory with something else" 1 "project is neither empty nor an OCI layout" image project --tag a.b/c:1 "${one[@]}" --output project
own "image twice for one platform" 1 "two programs are for linux/amd64" image project --tag a.b/c:1 "${one[@]}" "${one[@]}"
own "image that goes nowhere" 0 "the image was not written" image project --tag a.b/c:1 "${one[@]}"
own "image of the program alone" 0 "b:1@sha256:" image --bare --chart project/helm-charts/page --tag a.b/b:1 "${one[@]}"
mkdir -p "$work/bin"
printf '#!/bin/sh\necho "$0 $*" && tar -tf "$3"\n' >"$work/bin/kind" && chmod +x "$work/bin/kind"
PATH=$work/bin:$PATH own "image into kind" 0 "index.json" image project --tag a.b/c:1 "${both[@]}" --load kind:dev
begin "image into kind without kind" && {
	(PATH=/nonexistent && "$ours" image "$work/input/project" --tag a.b/c:1 "${one[@]}" --load kind) >"$case/out" 2>&1
	grep -q -- '--load kind needs the program kind, which is not in PATH' "$case/out"
	verdict $?
}
holds "image with progress on a terminal" bash -c "script -qefc '$ours image $work/input/project --tag $open/images/page:3 --push --plain-http ${one[*]} \
	--label a=b' /dev/null </dev/null | grep -q 'pushing [0-9.]* K*i*B of .* (100 %)'"

# Registries that want to know who pushes.
read=(--cert-dir "$work/trust" --creds user:secret)
mkdir -p "$work/trust" && cp "$work/pki/ca.crt" "$work/trust/ca.crt"
printf secret >"$work/password"
typed=$work/password
pushes "image with a login" "$locked/images/login:1" "${ca[@]}" "${one[@]}" --username user --password-stdin
typed=
printf '{"auths": {"%s": {"auth": "%s"}}}' "$locked" "$(printf user:secret | base64)" >"$work/logins.json"
pushes "image with a kept login" "$locked/images/kept:1" "${ca[@]}" "${one[@]}" --registry-config "$work/logins.json"
own "image without its login" 1 "basic credential not found" image project --tag "$locked/images/x:1" --push "${ca[@]}" "${one[@]}"
own "image to a registry without TLS" 1 "a registry without TLS needs --plain-http" image project --tag "$open/images/x:1" --push "${one[@]}"
own "image for an unknown authority" 1 "certificate signed by unknown authority" image project --tag "$locked/images/x:1" --push "${one[@]}"
cp "$work/token.json" "$work/pull.json" && make_token images/token '"pull","push"'
printf '{"auths": {"%s": {"auth": "%s"}}}' "$token" "$(printf user:secret | base64)" >"$work/logins.json"
pushes "image with a token" "$token/images/token:1" "${ca[@]}" "${one[@]}" --registry-config "$work/logins.json"
own "image with a token for something else" 1 "401" image project --tag "$token/images/other:1" --push "${ca[@]}" "${one[@]}" --registry-config "$work/logins.json"
mv "$work/pull.json" "$work/token.json"
export SOURCE_DATE_EPOCH=1700000000
rm -rf "$work/input"

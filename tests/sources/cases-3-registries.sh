# Charts in registries.
# shellcheck shell=bash disable=SC2154
plain=(--plain-http)

# digest REPOSITORY TAG: of a manifest
digest() {
	curl -sI -H 'Accept: application/vnd.oci.image.manifest.v1+json' "http://$open/v2/$1/manifests/$2" | tr -d '\r' | awk 'tolower($1) == "docker-content-digest:" {print $2}'
}
old=$(digest charts/web 1.0.0) new=$(digest charts/web 1.1.0)

works "newest tag" pull "oci://$open/charts/web" "${plain[@]}"
works "tag" pull "oci://$open/charts/web" --version 1.0.0 "${plain[@]}"
works "tag in the reference" pull "oci://$open/charts/web:1.0.0" "${plain[@]}"
works "constraint on tags" pull "oci://$open/charts/web" --version '~1.0' "${plain[@]}"
works "prerelease tags" pull "oci://$open/charts/web" --devel "${plain[@]}"
works "metadata in a tag" pull "oci://$open/charts/web" --version 1.2.0+build.5 "${plain[@]}"
works "digest" pull "oci://$open/charts/web@$old" "${plain[@]}"
works "digest and version" pull "oci://$open/charts/web@$old" --version 1.0.0 "${plain[@]}"
works "digest and tag" pull "oci://$open/charts/web:1.0.0@$old" "${plain[@]}"
works "digest and a tag that is not there" pull "oci://$open/charts/web:7.0.0@$old" "${plain[@]}"
fails "digest of another version" pull "oci://$open/charts/web:1.0.0@$new" "${plain[@]}"
fails "digest that is not there" pull "oci://$open/charts/web@sha256:$(printf '0%.0s' {1..64})" "${plain[@]}"
fails "tag and another version" pull "oci://$open/charts/web:1.0.0" --version 1.1.0 "${plain[@]}"
fails "tag that is not there" pull "oci://$open/charts/web" --version 9.0.0 "${plain[@]}"
fails "no fitting tag" pull "oci://$open/charts/web" --version ^9 "${plain[@]}"
fails "no such repository" pull "oci://$open/charts/nothing" "${plain[@]}"
fails "no such repository with a tag" pull "oci://$open/charts/nothing" --version 1.0.0 "${plain[@]}"
fails "no repository" pull "oci://$open" "${plain[@]}"
fails "capitals" pull "oci://$open/Charts/web" "${plain[@]}"
fails "https of a plain registry" pull "oci://$open/charts/web" --version 1.0.0
fails "unreachable registry" pull "oci://127.0.0.1:1/charts/web" --version 1.0.0
works "unpacked from a registry" pull "oci://$open/charts/web" --version 1.0.0 --untar "${plain[@]}"
works "template from a registry" template x "oci://$open/charts/web" --version 1.0.0 "${plain[@]}"
works "template by digest" template x "oci://$open/charts/web@$old" "${plain[@]}"

fails "registry without login" pull "oci://$locked/charts/web" --version 1.0.0 "${ca[@]}"
works "registry with a login" pull "oci://$locked/charts/web" --version 1.0.0 "${ca[@]}" "${login[@]}"
works "registry with a login and tags" pull "oci://$locked/charts/web" "${ca[@]}" "${login[@]}"
fails "registry with a wrong login" pull "oci://$locked/charts/web" --version 1.0.0 "${ca[@]}" --username user --password wrong
fails "registry of an unknown authority" pull "oci://$locked/charts/web" --version 1.0.0 "${login[@]}"
works "registry of any authority" pull "oci://$locked/charts/web" --version 1.0.0 --insecure-skip-tls-verify "${login[@]}"
works "token" pull "oci://$token/charts/web" --version 1.0.0 "${ca[@]}" "${login[@]}"
works "token for tags" pull "oci://$token/charts/web" "${ca[@]}" "${login[@]}"
fails "token without login" pull "oci://$token/charts/web" --version 1.0.0 "${ca[@]}"
fails "token for something else" pull "oci://$token/charts/plain" --version 0.1.0 "${ca[@]}" "${login[@]}"

# Logins that helm, docker or a credential helper keeps.
printf secret | in_helm "$work/home" "$helm" registry login "$locked" --username user --password-stdin "${ca[@]}" >/dev/null 2>&1
works "kept login" pull "oci://$locked/charts/web" --version 1.0.0 "${ca[@]}"
cp "$work/home/config/registry/config.json" "$work/kept.json"
rm "$work/home/config/registry/config.json" && mkdir -p "$work/home/docker" && cp "$work/kept.json" "$work/home/docker/config.json"
works "login of docker" pull "oci://$locked/charts/web" --version 1.0.0 "${ca[@]}"
printf '{"credsStore": "tests"}' >"$work/home/docker/config.json"
mkdir -p "$work/bin"
printf '#!/bin/sh\ncat >/dev/null\necho '\''{"Username": "user", "Secret": "secret"}'\''\n' >"$work/bin/docker-credential-tests"
chmod +x "$work/bin/docker-credential-tests"
PATH=$work/bin:$PATH works "login of a helper" pull "oci://$locked/charts/web" --version 1.0.0 "${ca[@]}"
printf '{"auths": {"%s": {"auth": "c2VjcmV0"}}}' "$locked" >"$work/home/docker/config.json"
own "broken login" 1 "not base64(username:password)" pull "oci://$locked/charts/web" --version 1.0.0 "${ca[@]}"
own "broken login is not told" 1 "invalid config format" pull "oci://$locked/charts/web" --version 1.0.0 "${ca[@]}"
holds "no secret in the message" bash -c "! grep -q secret '$work'/cases/broken-login*/ours.err"
rm "$work/home/docker/config.json"

# Dependencies.
app "$(dependency_of web '^1' "oci://$open/charts" '')"
works "dependency from a registry" dependency update app "${plain[@]}"
locked_oci() { (cd "$work/input" && in_helm "$work/home" "$helm" dependency update app "${plain[@]}" >/dev/null); }
locked_oci
works "build from a registry" dependency build app "${plain[@]}"
app "$(dependency_of web '1.0.0' "oci://$locked/charts" '')"
works "dependency from a registry with a login" dependency update app "${ca[@]}" "${login[@]}"
fails "dependency from a registry without a login" dependency update app "${ca[@]}"
app "$(dependency_of web '^9' "oci://$open/charts" '')"
fails "no fitting tag for a dependency" dependency update app "${plain[@]}"
app "$(dependency_of nothing '^9' "oci://$open/charts" '')"
fails "no such repository for a dependency" dependency update app "${plain[@]}"
rm -rf "$work/input"

# What is stored is changed: nobody may get it.
blob=$(curl -s -H 'Accept: application/vnd.oci.image.manifest.v1+json' "http://$open/v2/charts/swapped/manifests/0.1.0" | grep -o 'chart.content.v1.tar+gzip","digest":"sha256:[0-9a-f]*' | sed 's/.*"//')
stored=$work/blobs/docker/registry/v2/blobs/sha256/${blob:7:2}/${blob#sha256:}/data
printf 'x' | dd of="$stored" bs=1 seek=40 conv=notrunc status=none
fails "changed blob" pull "oci://$open/charts/swapped" --version 0.1.0 "${plain[@]}"

# Repositories over http and https, by link and by name.
# shellcheck shell=bash disable=SC2154
login=(--username user --password secret)

fails "archive of this folder" pull ./nothing
works "by link" pull "$first/open/web-1.0.0.tgz" "${ca[@]}"
works "by link over http" pull "$http/open/web-1.0.0.tgz"
fails "by link into a folder that is not there" template "$first/open/nothing-1.0.0.tgz" "${ca[@]}"
works "newest" pull web --repo "$first/open" "${ca[@]}"
works "prereleases" pull web --repo "$first/open" --devel "${ca[@]}"
works "exact version" pull web --repo "$first/open" --version 1.0.0 "${ca[@]}"
works "constraint" pull web --repo "$first/open" --version '~1.0' "${ca[@]}"
works "metadata in a version" pull web --repo "$first/open" --version 1.2.0+build.5 "${ca[@]}"
fails "version that is not there" pull web --repo "$first/open" --version 9.9.9 "${ca[@]}"
works "not exact" pull web --repo "$first/open" --version 1.1 "${ca[@]}"
fails "bad constraint" pull web --repo "$first/open" --version '?' "${ca[@]}"
fails "chart that is not there" pull nothing --repo "$first/open" "${ca[@]}"
fails "no index" pull web --repo "$first/nothing" "${ca[@]}"
fails "broken index" pull web --repo "$first/broken" "${ca[@]}"
fails "unknown authority" pull web --repo "$first/open"
fails "another authority" pull web --repo "$first/open" --ca-file "$work/pki/stranger.crt"
fails "certificate for another name" pull web --repo "https://localhost:$port/open" "${ca[@]}"
works "self-signed server that is named" pull web --repo "https://127.0.0.1:$((port + 7))/open" --ca-file "$work/pki/self.crt"
fails "self-signed server under another name" pull web --repo "https://localhost:$((port + 7))/open" --ca-file "$work/pki/self.crt"
fails "self-signed server that is not named" pull web --repo "https://127.0.0.1:$((port + 7))/open" "${ca[@]}"
works "any authority" pull web --repo "$first/open" --insecure-skip-tls-verify
fails "no file of authorities" pull web --repo "$first/open" --ca-file nothing.crt
fails "file without authorities" pull web --repo "$first/open" --ca-file "$work/pki/ca.key"
fails "unreachable" pull web --repo https://127.0.0.1:1/charts
fails "https of an http server" pull web --repo "https://127.0.0.1:$((port + 2))/open" "${ca[@]}"
fails "unknown scheme" pull web --repo ftp://127.0.0.1/charts
fails "no client certificate" pull web --repo "$mutual/open" "${ca[@]}"
works "client certificate" pull web --repo "$mutual/open" "${ca[@]}" --cert-file "$work/pki/client.crt" --key-file "$work/pki/client.key"
fails "no login" pull web --repo "$first/auth" "${ca[@]}"
works "login" pull web --repo "$first/auth" "${ca[@]}" "${login[@]}"
fails "wrong login" pull web --repo "$first/auth" "${ca[@]}" --username user --password wrong
fails "redirect" pull "$first/moved/x" "${ca[@]}"
works "two charts" pull web plain --repo "$first/open" "${ca[@]}"
works "into a folder" pull web --repo "$first/open" -d . --untar --untardir a/b "${ca[@]}"
works "unpacked" pull web --repo "$first/open" --untar "${ca[@]}"
works "template by link" template x "$first/open/web-1.1.0.tgz" "${ca[@]}"
works "template by repository" template x web --repo "$first/auth" --version ^1 "${ca[@]}" "${login[@]}"
fails "template of no chart" template x nothing
fails "template of no repository" template x no/thing

mkdir -p "$work/input/web"
fails "unpacked over something" pull web --repo "$first/open" --untar "${ca[@]}"
rm -rf "$work/input"

# An archive on another server, of a repository that is not known otherwise: helm tells that server the password.
: >"$work/nginx/second.log"
own "archive of an unknown repository on another server" 0 "" pull web --repo "$first/far" --version 1.0.0 "${ca[@]}" "${login[@]}"
holds "the other server is told no password" bash -c "grep -q web-1.0.0 '$work/nginx/second.log' && ! grep -q Basic '$work/nginx/second.log'"

# Known repositories.
for repo in open auth wrong far; do
	in_helm "$work/home" "$helm" repo add $repo "$first/$repo" "${ca[@]}" $([ $repo = auth ] && echo "${login[@]}") >/dev/null
done
in_helm "$work/home" "$helm" repo add secure "$first/elsewhere" "${ca[@]}" "${login[@]}" >/dev/null
works "by name" pull open/web
works "by name with a login" pull auth/web --version 1.0.0
works "by name and constraint" template x open/web --version '<1.1'
fails "link of a known repository" pull "$first/auth/web-1.0.0.tgz" "${ca[@]}"
fails "unknown repository" pull other/web
fails "no such chart by name" pull open/nothing
fails "no such version by name" pull open/web --version 9
fails "without a repository" pull web
own "wrong digest" 1 "but the index of its repository says sha256:0000" pull wrong/web --version 1.0.0
own "wrong digest by link of the repository" 1 "but the index of its repository says sha256:0000" pull web --repo "$first/wrong" "${ca[@]}"

# What other servers are told.
: >"$work/nginx/second.log"
own "archives on another server" 0 "" pull web --repo "$first/far" --version 1.0.0 "${ca[@]}" "${login[@]}"
own "redirect to another server" 0 "" pull secure/web --version 1.0.0
holds "other servers are told no password" bash -c "[ \$(wc -l <'$work/nginx/second.log') = 2 ] && ! grep -q Basic '$work/nginx/second.log'"
: >"$work/nginx/second.log"
own "pass credentials" 0 "" pull web --repo "$first/far" --version 1.0.0 "${ca[@]}" "${login[@]}" --pass-credentials
holds "other servers are told when asked to" grep -q Basic "$work/nginx/second.log"
begin "password from standard input" && {
	printf 'secret\n' >"$work/password" && stdin=$work/password
	run ours "$ours" pull web --repo "$first/auth" "${ca[@]}" --username user --password-stdin
	[ -s "$case/ours/web-1.2.0+build.5.tgz" ]
	verdict $?
}

# What Helm does not do: hide passwords, and end a download that is too large.
works "login in a link" pull web --repo "https://user:secret@127.0.0.1:$port/auth" "${ca[@]}"
own "password in a link is not told" 1 "https://user:xxxxx@127.0.0.1" pull web --repo "https://user:wrong@127.0.0.1:$port/auth" "${ca[@]}"
mkdir -p "$work/www/large"
truncate -s 101M "$work/www/large/index.yaml" "$work/www/large/web-1.0.0.tgz"
own "index that is too large" 1 "is larger than the maximum size 104857600" pull web --repo "$http/large"
own "archive that is too large" 1 "is larger than the maximum size 104857600" pull "$http/large/web-1.0.0.tgz"
rm -r "$work/www/large"

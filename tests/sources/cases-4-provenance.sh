# Signatures.
# shellcheck shell=bash disable=SC2154
key=(--verify --keyring "$work/public.gpg")

works "verified" pull web --repo "$http/open" --version 1.0.0 "${key[@]}"
works "verified with an armored keyring" pull web --repo "$http/open" --version 1.0.0 --verify --keyring "$work/public.asc"
works "verified with two armored keys" pull web --repo "$http/open" --version 1.0.0 --verify --keyring "$work/both.asc"
works "verified with a keybox" pull web --repo "$http/open" --version 1.0.0 --verify --keyring "$work/gnupg/pubring.kbx"
works "verified with a secret keyring" pull web --repo "$http/open" --version 1.0.0 --verify --keyring "$work/secret.gpg"
works "verified with the default keyring" pull web --repo "$http/open" --version 1.0.0 --verify
works "verified with a subkey" pull subkey --repo "$http/open" --verify
fails "another key" pull web --repo "$http/open" --version 1.0.0 --verify --keyring "$work/other.gpg"
fails "no keyring" pull web --repo "$http/open" --version 1.0.0 --verify --keyring "$work/nothing.gpg"
fails "no signature" pull plain --repo "$http/open" "${key[@]}"
fails "tampered signature" pull tampered --repo "$http/open" "${key[@]}"
fails "signature of another archive" pull swapped --repo "$http/open" "${key[@]}"
works "provenance without verifying" pull web --repo "$http/open" --version 1.0.0 --prov
works "no provenance and no verifying" pull plain --repo "$http/open" --prov
works "verified and unpacked" pull web --repo "$http/open" --version 1.0.0 --untar "${key[@]}"
works "verified template" template x web --repo "$http/open" --version 1.0.0 "${key[@]}"
fails "template without signature" template x plain --repo "$http/open" "${key[@]}"
fails "template with a tampered signature" template x tampered --repo "$http/open" "${key[@]}"
works "verified from a registry" pull "oci://$open/charts/web" --version 1.0.0 --plain-http "${key[@]}"
fails "tampered in a registry" pull "oci://$open/charts/tampered" --version 0.1.0 --plain-http "${key[@]}"
fails "no signature in a registry" pull "oci://$open/charts/plain" --version 0.1.0 --plain-http "${key[@]}"
own "verified template from a locked server" 0 "name: web-1.0.0" template x web --repo "$first/auth" --version 1.0.0 "${ca[@]}" "${login[@]}" "${key[@]}"

mkdir -p "$work/input" && cp "$work/www/open/"{web-1.0.0,tampered-0.1.0,swapped-0.1.0}.tgz* "$work/www/open/plain-0.1.0.tgz" "$work/input/"
works "verified file" template x web-1.0.0.tgz "${key[@]}"
fails "file without signature" template x plain-0.1.0.tgz "${key[@]}"
fails "file with a tampered signature" template x tampered-0.1.0.tgz "${key[@]}"
fails "file that was changed" template x swapped-0.1.0.tgz "${key[@]}"
mv "$work/input/web-1.0.0.tgz" "$work/input/renamed.tgz" && mv "$work/input/web-1.0.0.tgz.prov" "$work/input/renamed.tgz.prov"
fails "file with another name" template x renamed.tgz "${key[@]}"
chart "$work/input" unpacked 0.1.0
fails "directory cannot be verified" template x unpacked "${key[@]}"
rm -rf "$work/input"

app "$(dependency_of web '1.0.0' "$http/open" '')"
works "verified dependency" dependency update app "${key[@]}"
app "$(dependency_of plain '*' "$first/open" '')"
fails "dependency without signature" dependency update app "${key[@]}"
locked
works "build tells what is not signed" dependency build app "${key[@]}"
app "$(dependency_of tampered '*' "$first/open" '')"
fails "tampered dependency" dependency update app "${key[@]}"
locked
fails "build with a tampered dependency" dependency build app "${key[@]}"
rm -rf "$work/input"

# A key that was revoked or has expired signs nothing any more.
export GNUPGHOME=$work/gnupg
gpg --batch --quiet --yes --quick-set-expire "$(fingerprint maker@)" seconds=1 2>/dev/null
until_ok 20 bash -c "gpg --batch --with-colons --list-keys maker@example.test 2>/dev/null | grep -q '^pub:e'"
gpg --batch --quiet --no-auto-check-trustdb --export maker@example.test >"$work/expired.gpg"
gpg --batch --quiet --yes --quick-set-expire "$(fingerprint maker@)" 0 2>/dev/null
sed 's/^:-----BEGIN/-----BEGIN/' "$GNUPGHOME/openpgp-revocs.d/$(fingerprint maker@).rev" | gpg --batch --quiet --import 2>/dev/null
gpg --batch --quiet --no-auto-check-trustdb --export maker@example.test >"$work/revoked.gpg"
unset GNUPGHOME
fails "expired key" pull web --repo "$http/open" --version 1.0.0 --verify --keyring "$work/expired.gpg"
fails "revoked key" pull web --repo "$http/open" --version 1.0.0 --verify --keyring "$work/revoked.gpg"

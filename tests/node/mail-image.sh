#!/usr/bin/env bash
# Makes the image localhost/mailpit:test, a server of mail that shows what it got: mail-image.sh OUT.tar
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
. "$here/../cluster/pack.sh"
out=$(realpath -m "${1:?usage: mail-image.sh OUT.tar}")
"$here/../cluster/build-tools.sh" mail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/mailpit"
install -m 755 "$TOOLS/mailpit" "$work/mailpit/mailpit"
pack localhost/mailpit:test "$out" '{"Entrypoint":["/mailpit"],"User":"65532"}' "$work/mailpit"

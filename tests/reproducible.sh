#!/usr/bin/env bash
# Makes the release a second time, from a clone in another folder, with another home of cargo, time zone, locale and umask, and compares all
# files. It compiles everything twice.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -z "$(git status --porcelain)" ] || { echo "error: the tree has changes, which a clone would not have" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
first=${CARGO_TARGET_DIR:-target}/release-$version second=$work/elsewhere/target/release-$version
make --no-print-directory release
git clone --quiet . "$work/elsewhere"
# The same downloads: links to them.
cp -al "${CARGO_HOME:-$HOME/.cargo}" "$work/cargo"
(
	umask 077
	cd "$work/elsewhere"
	unset CARGO_TARGET_DIR
	CARGO_HOME=$work/cargo TZ=Asia/Tokyo LC_ALL=tr_TR.UTF-8 make --no-print-directory release
)
diff <(cd "$first" && sha256sum -- *) <(cd "$second" && sha256sum -- *) || { echo "error: the second release differs" >&2; exit 1; }
echo "the second release has the same $(wc -l <"$first/SHA256SUMS") files"

#!/usr/bin/env bash
# Builds the static programs for another machine: cross.sh TARGET writes target/tillerman-TARGET and target/tillerman-agent-TARGET
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
target=${1:?usage: cross.sh TARGET}
. "$here/tests/cluster/lib.sh"
cd "$here"
need_protoc
[ -d "$(rustc --print target-libdir --target "$target")" ] ||
	die "the standard library for $target is missing: rustup target add $target"
tools=
case $target in aarch64-unknown-linux-gnu)
	tools=aarch64-linux-gnu-
	need ${tools}gcc gcc-aarch64-linux-gnu
	[ -e /usr/aarch64-linux-gnu/lib/libc.a ] || need libc.a libc6-dev-arm64-cross
	export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=${tools}gcc
	;;
esac
out=${CARGO_TARGET_DIR:-target}
# As in the Makefile: static, and the same in any folder.
export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static -C relocation-model=static"
export RUSTC_WRAPPER=$here/deploy/rustc.sh SYSROOT
SYSROOT=$(rustc --print sysroot)
nice ${CARGO:-cargo} build --release --target "$target" -p tillerman -p tillerman-agent-mysql -p tillerman-bench --bin tillerman --bin tillerman-agent
"${tools}strip" -o "$out/tillerman-$target" "$out/$target/release/tillerman"
"${tools}strip" -o "$out/tillerman-agent-$target" "$out/$target/release/tillerman-agent"

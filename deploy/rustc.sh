#!/bin/sh
# The compiler for programs that are the same in any folder: `RUSTC_WRAPPER=deploy/rustc.sh`. It replaces the folders of this machine in paths
# that the programs contain. In RUSTFLAGS, these folders would change the names of cargo's build folders, which are in the programs, too.
# SYSROOT is the folder of the compiler (`rustc --print sysroot`).
here=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-target}
case $target in /*) ;; *) target=$here/$target ;; esac
rustc=$1
shift
exec "$rustc" "$@" --remap-path-prefix="$here=/tillerman" --remap-path-prefix="$target=/tillerman/target" \
	--remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=/cargo" --remap-path-prefix="${SYSROOT:-$("$rustc" --print sysroot)}=/rust"

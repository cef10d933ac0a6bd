#!/usr/bin/env bash
# Packs the crates as crates.io would take them, in the order of their dependencies, without the network.
set -euo pipefail
cd "$(dirname "$0")/.."
crates=(tillerman-render tillerman-source tillerman-agent tillerman-agent-mysql)
cargo package --quiet --offline --no-verify --allow-dirty "${crates[@]/#/--package=}"
for crate in "${crates[@]}"; do
	archive=$(ls "${CARGO_TARGET_DIR:-target}"/package/"$crate"-[0-9]*.crate | tail -1)
	files=$(tar tzf "$archive")
	for file in Cargo.toml README.md LICENSE src/; do
		[[ $files == *"/$file"* ]] || { echo "$archive has no $file" >&2; exit 1; }
	done
	echo "$crate: $(wc -l <<<"$files") files, $(stat -c %s "$archive") bytes"
done

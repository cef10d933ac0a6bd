#!/usr/bin/env bash
# Builds everything that a demo needs, in parallel, and reports the progress: prepare.sh PROGRAM
# PROGRAM is compiled with the profile "demo". Without KUBECONFIG, the programs of a local control plane are also built, unless PATH has
# suitable ones. Both happen only once: the next demo starts at once.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
program=${1:?usage: prepare.sh PROGRAM}
. "$top/tests/cluster/env.sh"
. "$top/tests/cluster/lib.sh"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
cd "$top"

touch "$logs/program" "$logs/cluster"
export FROM_PATH=1
nice cargo build --profile demo --bin tillerman --target-dir "$(dirname "$(dirname "$program")")" 2>"$logs/program" &
jobs=($!) names=(program)
if [ -z "${KUBECONFIG:-}" ]; then
	# The end of a demo needs helm, which is built while the rest is.
	{ tests/cluster/build-tools.sh api-server && { nohup tests/cluster/build-tools.sh helm >/dev/null & }; } >"$logs/cluster" 2>&1 &
	jobs+=($!) names+=(cluster)
fi

# The current work of each job, in a few words.
now() {
	case $1 in
	program) echo "the program: $(grep -c '^ *Compiling' "$logs/program" || true) crates begun" ;;
	cluster) echo "the cluster: $(grep -oE '^  [a-z-]+ \.\.\.$' "$logs/cluster" | tail -1 | tr -d ' .')" ;;
	esac
}
failed=
while [ ${#jobs[@]} -gt 0 ]; do
	left=() left_names=() doing=
	for at in "${!jobs[@]}"; do
		if kill -0 "${jobs[$at]}" 2>/dev/null; then
			left+=("${jobs[$at]}") left_names+=("${names[$at]}")
			doing+="${doing:+; }$(now "${names[$at]}")"
		elif wait "${jobs[$at]}"; then
			[ $SECONDS -lt 5 ] || say "${names[$at]} done"
		else
			cat "$logs/${names[$at]}" >&2
			failed=1
		fi
	done
	jobs=("${left[@]}") names=("${left_names[@]}")
	[ ${#jobs[@]} -eq 0 ] || { [ $SECONDS -lt 5 ] || say "building: $doing"; }
	# Wait until the first of them ends, but at most ten seconds.
	[ ${#jobs[@]} -eq 0 ] || timeout 10 tail --pid="${jobs[0]}" -f /dev/null || true
done
[ -z "$failed" ]

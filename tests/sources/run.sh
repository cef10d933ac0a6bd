#!/usr/bin/env bash
# Charts from everywhere, compared with the real helm on the same inputs: run.sh TILLERMAN [PATTERN]
# Both run each command on real servers; the same files, output, errors and exit codes are wanted. Where this program is
# stricter than Helm on purpose, its own words are checked instead. Ends with `sources: N passed, N failed`.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cluster/env.sh"
. "$here/../cluster/lib.sh"
. "$here/servers.sh"
ours=$(realpath "${1:?usage: run.sh TILLERMAN [PATTERN]}")
pattern=${2:-}
need gpg gnupg nginx nginx-light htpasswd apache2-utils openssl openssl curl curl
"$here/../cluster/build-tools.sh" sources || exit 1
helm=$TOOLS/helm
# GnuPG's sockets want a short path.
work=$(mktemp -d /tmp/tms.XXXXXX)
chmod 755 "$work" # nginx reads what it serves as another user
servers=()
trap stop_servers EXIT
trap 'exit 130' INT TERM
port=$(free_port 8)
passed=0 failed=0

# run TOOL PROGRAM ARGS...: runs a program in TOOL's folder of the case; notes output, errors, code and files
run() {
	local tool=$1 program=$2
	shift 2
	(cd "$case/$tool" && in_helm "$case/home-$tool" "$program" "$@" <"${stdin:-/dev/null}") >"$case/$tool.out" 2>"$case/$tool.err"
	echo $? >"$case/$tool.code"
	sed -i "s#$case/home-$tool#HOME#g; s#$case/$tool#HERE#g; s#tmpcharts-[0-9]*#tmpcharts#g" "$case/$tool.out" "$case/$tool.err"
	# Helm asks repositories in no particular order.
	awk '/^\.\.\.Succ/ {fflush(); print | "sort"; next} {close("sort"); print}' "$case/$tool.out" >"$case/sorted"
	mv "$case/sorted" "$case/$tool.out"
	tree "$case/$tool" >"$case/$tool.files"
}

# tree FOLDER: the files and what is in them; archives of `lib`, which both make themselves, by their content
tree() {
	(cd "$1" && find . -type f -o -type l | sort | while read -r file; do
		case $file in
		*/charts/lib-*.tgz) tar -tzf "$file" 2>/dev/null | sort | while read -r entry; do
			echo "$file!$entry $(tar -xzOf "$file" "$entry" | grep -v '^generated:' | sha256sum)"
		done ;;
		*.lock) echo "$file" && grep -v '^generated:' "$file" ;;
		*) echo "$file $(sha256sum <"$file")" ;;
		esac
	done)
}

# begin NAME: a new case; before it may be run, `$case/helm` and `$case/ours` can be filled
begin() {
	[[ $1 == *$pattern* ]] || return 1
	name=$1 stdin=
	case=$work/cases/${name// /-}
	rm -rf "$case" && mkdir -p "$case/helm" "$case/ours"
	for tool in helm ours; do
		[ ! -d "$work/home" ] || cp -r "$work/home" "$case/home-$tool"
		mkdir -p "$case/home-$tool"
		[ ! -d "$work/input" ] || cp -r "$work/input/." "$case/$tool/"
	done
}

verdict() {
	if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED: $name"; fi
}

# works NAME ARGS..., fails NAME ARGS...: both do the same, and it works or not
works() { begin "$1" && compare 0 "${@:2}"; }
fails() { begin "$1" && compare 1 "${@:2}"; }

# compare CODE ARGS...: both end with CODE and do the same
compare() {
	local code=$1
	shift
	run helm "$helm" "$@"
	run ours "$ours" "$@"
	local what bad=0
	[ "$(cat "$case/helm.code")" = "$code" ] || { bad=1 && echo "helm ends with $(cat "$case/helm.code"):" && head "$case/helm.err"; }
	for what in code out err files; do
		diff -u "$case/helm.$what" "$case/ours.$what" >"$case/diff" || { bad=1 && head -30 "$case/diff"; }
	done
	verdict $bad
}

# own NAME CODE TEXT ARGS...: this program ends with CODE and says TEXT, where Helm does otherwise
own() {
	local code=$2 text=$3
	begin "$1" || return 0
	shift 3
	run ours "$ours" "$@"
	local bad=0
	[ "$(cat "$case/ours.code")" = "$code" ] && [[ $(cat "$case/ours.out" "$case/ours.err") == *"$text"* ]] || bad=1
	[ $bad = 0 ] || cat "$case/ours.code" "$case/ours.out" "$case/ours.err"
	verdict $bad
}

# holds NAME CMD...: a condition
holds() {
	[[ $1 == *$pattern* ]] || return 0
	name=$1
	shift
	"$@"
	verdict $?
}

start_servers
export SOURCE_DATE_EPOCH=1700000000
ca=(--ca-file "$work/pki/ca.crt")
first=https://127.0.0.1:$port second=https://127.0.0.1:$((port + 1)) http=http://127.0.0.1:$((port + 2))
open=127.0.0.1:$((port + 3)) locked=127.0.0.1:$((port + 4)) token=127.0.0.1:$((port + 5)) mutual=https://127.0.0.1:$((port + 6))
for part in "$here"/cases-*.sh; do . "$part"; done
echo "sources: $passed passed, $failed failed"
[ $failed = 0 ]

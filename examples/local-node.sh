# The beginning of the demos on a local node: `. local-node.sh NAME TILLERMAN_BINARY AGENT_BINARY [PICTURES]`. It sets bin, agent, the folder demo,
# and the folder pictures for those of a browser.
# shellcheck shell=bash disable=SC2034
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
usage="usage: demo.sh TILLERMAN_BINARY AGENT_BINARY [PICTURES]"
bin=$(realpath "${2:?$usage}") agent=$(realpath "${3:?$usage}")
. "$top/tests/cluster/env.sh"
. "$top/tests/cluster/lib.sh"
demo=$CACHE/$1
pictures=$(realpath -m "${4:-$demo}")
rm -rf "$demo"
mkdir -p "$demo" "$pictures"
step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }
why=$("$top/tests/cluster/node-can.sh") || { echo "No pods run here: $why"; exit 1; }
need jq jq make make

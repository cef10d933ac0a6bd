#!/usr/bin/env bash
# Runs a command on the node: its network, its mounts, the cluster's DNS. Paths must be absolute: node-in.sh CMD...
. "$(dirname "$0")/env.sh"
exec nsenter -t "$(cat "$STATE/node.pid")" -m -n -p -u -- "$@"

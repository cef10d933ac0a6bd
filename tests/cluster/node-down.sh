#!/usr/bin/env bash
# Stops the node and removes what it left. Images that are imported stay for a fast next start; --all removes them too.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/lib.sh"
# When the node's PID 1 dies, the kernel ends all in its pid namespace; mounts, links and rules go with the others.
if [ -s "$STATE/node.pid" ] && pid=$(cat "$STATE/node.pid") &&
	tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q node-init.sh; then
	kill -9 "$pid"
	until_ok 20 test ! -e "/proc/$pid"
fi
rm -f "$STATE/node.pid" "$STATE/init.ready"
ip link del "$LINK" 2>/dev/null
# Control groups outlive their processes.
for _ in 1 2 3 4 5 6 7 8 9 10; do
	for group in /sys/fs/cgroup/*/kubepods /sys/fs/cgroup/kubepods; do
		[ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
	done
	compgen -G '/sys/fs/cgroup/*/kubepods' >/dev/null || break
	sleep 0.2
done
[ ! -s "$STATE/sysctl.saved" ] || { sed 's/ *= */=/' "$STATE/sysctl.saved" | xargs sysctl -qw; rm -f "$STATE/sysctl.saved"; }
if [ "${1:-}" = --all ]; then
	rm -rf "$STATE"
	for range in "$LINK_CIDR" "$POD_CIDR" "$SVC_CIDR"; do ip route del unreachable "$range" metric 4000 2>/dev/null; done
else
	rm -rf "$STATE"/{etcd,pv,csi,varlib,varlog}
fi
rmdir /tmp/hostpath_pv 2>/dev/null
exit 0

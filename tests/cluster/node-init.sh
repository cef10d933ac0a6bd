#!/usr/bin/env bash
# PID 1 of the node, in mount, network, pid and host-name namespaces of its own (see node-up.sh). What the node mounts,
# and what it makes in the network, ends with this process.
set -euo pipefail
. "$(dirname "$0")/env.sh"
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/netns
mount --bind "$STATE/varlib" /var/lib
mount --bind "$STATE/varlog" /var/log
mount --bind "$STATE/pv" /tmp/hostpath_pv # the only place where the host-path provisioner makes volumes
[ ! -f /etc/resolv.conf ] || mount --bind "$STATE/etc/node-resolv.conf" /etc/resolv.conf
mount --make-rshared / # volumes may propagate into pods
hostname "$NODE"
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1
sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null || true
touch "$STATE/init.ready"
# bash reaps the orphans it adopts
while :; do sleep 3600 & wait $! || true; done

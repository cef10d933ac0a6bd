#!/usr/bin/env bash
# Says whether this machine can run the node; else why not, in one line, with exit code 1. What it may not allow is tried.
. "$(dirname "$0")/env.sh"
no() { echo "$*"; exit 1; }
[ "$(uname -s)" = Linux ] || no "the node needs Linux"
[ "$(id -u)" = 0 ] || no "the node needs root"
command -v apt-get >/dev/null || command -v containerd >/dev/null || no "the node needs Debian's packages containerd and runc"
inside() { unshare --mount --net --pid --fork --propagation private sh -ec "$1" 2>/dev/null; }
inside true || no "this machine does not let root make namespaces"
inside 'mount -t proc proc /proc && mount -t tmpfs tmpfs /run' || no "this machine does not let root mount in a namespace"
inside 'echo 1 >/proc/sys/net/ipv4/ip_forward' || no "this machine does not let root forward packets in a namespace"
mkdir -p "$STATE"
layers=$(mktemp -d "$STATE/layers.XXXXXX")
trap 'rm -rf "$layers"' EXIT
mkdir "$layers"/{lower,upper,work,root}
inside "cd '$layers' && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root" ||
	no "the file system of $STATE cannot hold the layers of images (overlayfs)"
group=$(find /sys/fs/cgroup -maxdepth 1 -name 'pids*' -type d -print -quit)
group=${group:-/sys/fs/cgroup}/tillerman-try.$$
mkdir "$group" 2>/dev/null || no "this machine does not let root make control groups"
rmdir "$group"

#!/usr/bin/env bash
# Says whether this machine can run the node; else why not, in one line, with exit code 1.
no() { echo "$*"; exit 1; }
[ "$(uname -s)" = Linux ] || no "the node needs Linux"
[ "$(id -u)" = 0 ] || no "the node needs root"
command -v apt-get >/dev/null || command -v containerd >/dev/null || no "the node needs Debian's packages containerd and runc"
unshare --mount --net --pid --fork true 2>/dev/null || no "this machine does not let root make namespaces"

#!/usr/bin/env bash
# Stops the control plane that up.sh started and removes its folder: down.sh DIR [--keep-logs]
set -uo pipefail
dir=${1:?usage: down.sh DIR [--keep-logs]}
for name in kube-controller-manager kube-apiserver etcd; do
	[ -s "$dir/$name.pid" ] || continue
	pid=$(cat "$dir/$name.pid")
	# Only a process that is still ours: the number may have been given to another since.
	if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "/$name "; then
		kill -9 "$pid"
		while [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null; do sleep 0.05; done
	fi
	rm -f "$dir/$name.pid"
done
rm -rf "$dir/etcd" "$dir/pki" "$dir"/*.kubeconfig
[ "${2:-}" = --keep-logs ] || rm -rf "$dir"
exit 0

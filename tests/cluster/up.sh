#!/usr/bin/env bash
# Starts a control plane on loopback: up.sh DIR
# etcd, kube-apiserver and kube-controller-manager with certificates and RBAC of their own; no node, so no pod runs.
# DIR gets admin.kubeconfig, operator.kubeconfig (user tillerman-operator, cluster-admin), audit.log and the programs' logs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/lib.sh"
dir=${1:?usage: up.sh DIR}
[ ! -e "$dir/etcd.pid" ] || die "$dir holds a cluster already; stop it with $here/down.sh $dir"
need openssl openssl curl curl
"$here/build-tools.sh" api-server
mkdir -p "$dir"
dir=$(cd "$dir" && pwd) pki=$dir/pki
trap '"$here/down.sh" "$dir"; echo "error: the cluster did not start" >&2' ERR

start() { # start NAME PROGRAM ARGS...: in a session of its own, so that it survives this script and a Ctrl-C
	local name=$1
	shift
	setsid "$@" >"$dir/$name.log" 2>&1 </dev/null &
	echo $! >"$dir/$name.pid"
}
ready() { # ready NAME SECONDS CMD...: until CMD succeeds; not longer than NAME runs
	local name=$1 end=$((SECONDS + $2))
	shift 2
	until "$@" >/dev/null 2>&1; do
		if [ $SECONDS -ge $end ] || ! kill -0 "$(cat "$dir/$name.pid")" 2>/dev/null; then
			say "$name is not ready:"
			tail -n 5 "$dir/$name.log" >&2
			return 1
		fi
		sleep 0.1
	done
}
api_server() { # etcd and the API server, at ports that nobody listens on
	port=$(free_port 1) etcd_port=$(free_port 2)
	make_pki "$pki" "IP:127.0.0.1,DNS:localhost,IP:$API_SVC_IP,DNS:kubernetes.default.svc"
	start etcd "$TOOLS/etcd" --data-dir="$dir/etcd" --unsafe-no-fsync --log-level=warn \
		--listen-client-urls="http://127.0.0.1:$etcd_port" --advertise-client-urls="http://127.0.0.1:$etcd_port" \
		--listen-peer-urls="http://127.0.0.1:$((etcd_port + 1))"
	# An API server that finds no etcd waits seconds before its next try.
	ready etcd 30 curl -sf "http://127.0.0.1:$etcd_port/health" || return 1
	mapfile -t flags < <(apiserver_flags "$pki" "$port" "http://127.0.0.1:$etcd_port" 127.0.0.1 127.0.0.1 "$dir")
	start kube-apiserver "$TOOLS/kube-apiserver" "${flags[@]}" --cert-dir="$dir"
	ready kube-apiserver 120 curl -sf --cacert "$pki/ca.crt" "https://127.0.0.1:$port/readyz"
}
# Another program may take a port before they listen on it.
api_server || { "$here/down.sh" "$dir" --keep-logs; api_server; }
for user in admin kcm operator; do kubeconfig "$pki" $user "https://127.0.0.1:$port" "$dir/$user.kubeconfig"; done
mapfile -t flags < <(kcm_flags "$pki" "$dir/kcm.kubeconfig")
start kube-controller-manager "$TOOLS/kube-controller-manager" "${flags[@]}" --secure-port=0
"$TOOLS/kubectl" --kubeconfig "$dir/admin.kubeconfig" create clusterrolebinding tillerman-operator \
	--clusterrole=cluster-admin --user=tillerman-operator >/dev/null
until_ok 120 "$TOOLS/kubectl" --kubeconfig "$dir/admin.kubeconfig" get serviceaccount default
say "control plane ready"

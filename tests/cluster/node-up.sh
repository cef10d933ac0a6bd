#!/usr/bin/env bash
# Starts a real one-node cluster without Docker: every process runs in one set of Linux namespaces ("the node"), with a
# veth pair to the host. Needs root on Linux. Prints how to use it; does nothing when it runs already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/lib.sh"
if [ -s "$STATE/node.pid" ] && kill -0 "$(cat "$STATE/node.pid")" 2>/dev/null; then
	echo "the node runs already; export KUBECONFIG=$STATE/admin.kubeconfig"
	exit 0
fi
why=$("$here/node-can.sh") || die "$why"
need inotifywait inotify-tools containerd containerd runc runc ip iproute2 nft nftables conntrack conntrack openssl openssl curl curl jq jq pgrep procps
"$here/build-tools.sh" control-plane node
"$here/images.sh"
pki=$STATE/pki config=$STATE/admin.kubeconfig
kubectl() { "$TOOLS/kubectl" --kubeconfig "$config" "$@"; }
mkdir -p "$STATE"/{varlib,varlog,pv,etc/cni,log,volplugins,imported} /tmp/hostpath_pv
rm -f "$STATE/init.ready"
trap '"$here/node-down.sh"; echo "error: the node did not start; logs are in $STATE/log" >&2' ERR

# --- certificates and files --------------------------------------------------
make_pki "$pki" "DNS:localhost,DNS:$NODE,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:$API_SVC_IP,IP:$NODE_IP"
cert "$pki" scheduler /CN=system:kube-scheduler
cert "$pki" kubelet "/O=system:nodes/CN=system:node:$NODE" "DNS:$NODE,IP:$NODE_IP"
cert "$pki" kube-proxy /CN=system:kube-proxy
cert "$pki" coredns /CN=coredns
for user in admin operator kcm scheduler kubelet kube-proxy coredns; do
	kubeconfig "$pki" $user "https://$NODE_IP:6443" "$STATE/$user.kubeconfig"
done
: >"$STATE/etc/resolv.conf" # the kubelet's: pods know only the cluster's DNS
printf 'search default.svc.cluster.local svc.cluster.local cluster.local\nnameserver %s\n' "$NODE_IP" >"$STATE/etc/node-resolv.conf"
cat >"$STATE/etc/containerd.toml" <<EOF
version = 2
root = '$STATE/containerd'
state = '/run/containerd'
[grpc]
  address = '/run/containerd/containerd.sock'
[plugins.'io.containerd.grpc.v1.cri']
  sandbox_image = 'localhost/pause:1'
  restrict_oom_score_adj = true # root may lack CAP_SYS_RESOURCE
  [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = '$TOOLS/cni'
    conf_dir = '$STATE/etc/cni'
EOF
cat >"$STATE/etc/cni/10-node.conflist" <<EOF
{"cniVersion":"1.0.0","name":"node","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,
  "ipam":{"type":"host-local","dataDir":"/run/cni-ipam","ranges":[[{"subnet":"$POD_SUBNET"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
EOF
cat >"$STATE/etc/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $pki/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: $pki/kubelet.crt
tlsPrivateKeyFile: $pki/kubelet.key
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs # containerd 1.6 cannot be asked for it
failCgroupV1: false
failSwapOn: false
clusterDNS: [$NODE_IP]
clusterDomain: cluster.local
resolvConf: $STATE/etc/resolv.conf
volumePluginDir: $STATE/volplugins
imageGCHighThresholdPercent: 100 # images cannot be pulled again
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
registerNode: true
EOF
cat >"$STATE/etc/kube-proxy.yaml" <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: $STATE/kube-proxy.kubeconfig}
clusterCIDR: $POD_CIDR
hostnameOverride: $NODE
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s} # not for a namespace to set
EOF
cat >"$STATE/etc/Corefile" <<EOF
.:53 {
	bind $NODE_IP
	errors
	ready 127.0.0.1:8181
	kubernetes cluster.local in-addr.arpa ip6.arpa {
		kubeconfig $STATE/coredns.kubeconfig
		pods insecure
		ttl 2
	}
}
EOF
# The kubelet sets these for the whole machine; node-down.sh puts them back.
[ -e "$STATE/sysctl.saved" ] ||
	sysctl vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops >"$STATE/sysctl.saved"

# --- the node's namespaces and its link ---------------------------------------
setsid unshare --mount --net --pid --uts --fork --propagation private \
	"$here/node-init.sh" >"$STATE/log/node-init.log" 2>&1 </dev/null &
until_ok 10 test -e "$STATE/init.ready" || { cat "$STATE/log/node-init.log" >&2; false; }
pid=$(pgrep -P $!)
echo "$pid" >"$STATE/node.pid"
node() { nsenter -t "$pid" -m -n -p -u -- "$@"; }
# With no node, packets to its addresses end here and do not leave the machine by the default route.
for range in "$LINK_CIDR" "$POD_CIDR" "$SVC_CIDR"; do ip route replace unreachable "$range" metric 4000; done
ip link del "$LINK" 2>/dev/null || true
ip link add "$LINK" type veth peer name eth0 netns "$pid"
ip addr add "$HOST_IP/${LINK_CIDR#*/}" dev "$LINK"
ip link set "$LINK" up
node ip addr add "$NODE_IP/${LINK_CIDR#*/}" dev eth0
node ip link set eth0 up
# The node has no default route, so that no pod reaches outside; its own processes need one to service addresses.
node ip route add "$SVC_CIDR" dev eth0 src "$NODE_IP"
ip route replace "$POD_CIDR" via "$NODE_IP"
ip route replace "$SVC_CIDR" via "$NODE_IP"

# --- processes -----------------------------------------------------------------
start() { # start NAME PROGRAM ARGS...
	local name=$1
	shift
	node setsid env PATH="$PATH" "$@" >"$STATE/log/$name.log" 2>&1 </dev/null &
}
start etcd "$TOOLS/etcd" --data-dir="$STATE/etcd" --unsafe-no-fsync --log-level=warn
start containerd "$(command -v containerd)" --config "$STATE/etc/containerd.toml"
until_ok 30 node curl -sf http://127.0.0.1:2379/health
mapfile -t flags < <(apiserver_flags "$pki" 6443 http://127.0.0.1:2379 0.0.0.0 "$NODE_IP" "$STATE/log")
start kube-apiserver "$TOOLS/kube-apiserver" "${flags[@]}" --cert-dir="$STATE/varlib"
ctr() { node "$(command -v ctr)" -a /run/containerd/containerd.sock -n k8s.io "$@"; }
until_ok 30 ctr version
# A node that had no space, or that was killed, may have lost images: stamps have their names.
ctr images ls -q | sort >"$STATE/images"
for image in "$IMAGES"/*.tar; do
	stamp=$STATE/imported/${image##*/}
	if [ ! "$stamp" -nt "$image" ] || [ ! -s "$stamp" ] || [ -n "$(sort "$stamp" | comm -23 - "$STATE/images")" ]; then
		ctr images import --snapshotter overlayfs "$image" >"$STATE/log/import.log" 2>&1 ||
			{ tail -3 "$STATE/log/import.log" >&2; false; }
		sed -n 's/^unpacking \([^ ]*\) .*/\1/p' "$STATE/log/import.log" >"$stamp"
	fi
done
until_ok 120 curl -sf --cacert "$pki/ca.crt" "https://$NODE_IP:6443/readyz" ||
	{ tail -5 "$STATE"/log/{etcd,kube-apiserver}.log >&2; false; }
# The kubelet gives a host path no group (fsGroup), so users other than root may use it only if all may.
start volumes bash -c 'inotifywait -qm -e create,moved_to --format %w%f /tmp/hostpath_pv | while read -r volume; do chmod 0777 "$volume"; done'
mapfile -t flags < <(kcm_flags "$pki" "$STATE/kcm.kubeconfig")
# Autoscalers look once a second instead of every 15 seconds.
start kube-controller-manager "$TOOLS/kube-controller-manager" "${flags[@]}" --enable-hostpath-provisioner=true \
	--horizontal-pod-autoscaler-sync-period=1s
start kube-scheduler "$TOOLS/kube-scheduler" --kubeconfig="$STATE/scheduler.kubeconfig" --leader-elect=false \
	--bind-address=127.0.0.1 --authentication-kubeconfig="$STATE/scheduler.kubeconfig" \
	--authorization-kubeconfig="$STATE/scheduler.kubeconfig"
start kubelet "$TOOLS/kubelet" --config="$STATE/etc/kubelet.yaml" --kubeconfig="$STATE/kubelet.kubeconfig" \
	--hostname-override="$NODE" --node-ip="$NODE_IP"
start kube-proxy "$TOOLS/kube-proxy" --config="$STATE/etc/kube-proxy.yaml"
start coredns "$TOOLS/coredns" -conf "$STATE/etc/Corefile"
kubectl apply -f "$here/node.yaml" >"$STATE/log/apply.log"
kubectl create clusterrolebinding tillerman-operator --clusterrole=cluster-admin --user=tillerman-operator >>"$STATE/log/apply.log"
until_ok 60 kubectl get node "$NODE"
kubectl wait --for=condition=Ready "node/$NODE" --timeout=90s >/dev/null
until_ok 60 node curl -sf http://127.0.0.1:8181/ready
until_ok 60 kubectl get serviceaccount default
until_ok 60 node curl -skf -m 2 "https://$API_SVC_IP/readyz" # kube-proxy's rules are in the kernel
say "node ready; export KUBECONFIG=$config"

# Functions of the local cluster's scripts. Source env.sh first.
# shellcheck shell=bash
T0=${T0:-$(date +%s.%N)}
say() { printf '%6.1fs %s\n' "$(awk -v a="$T0" -v b="$(date +%s.%N)" 'BEGIN{print b-a}')" "$*"; }
die() { echo "error: $*" >&2; exit 1; }

# need PROGRAM PACKAGE ...: installs the Debian packages of the programs that are missing (as root), or names them
need() {
	local missing=()
	while [ $# -gt 0 ]; do
		command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || missing+=("$2")
		shift 2
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "installing Debian packages: ${missing[*]}"
		# Parts of the tests run at the same time, and apt-get by two does not.
		{
			flock 9 && apt-get update -q 9>&- &&
				DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" 9>&-
		} 9>/tmp/tillerman-apt.lock >/tmp/tillerman-apt.log 2>&1 ||
			{ tail -5 /tmp/tillerman-apt.log >&2; die "could not install ${missing[*]}"; }
	else
		die "these programs are missing; install the packages: ${missing[*]}"
	fi
}

# need_protoc: the compiler of protocol buffers and its own files, with which the client of etcd is built
need_protoc() {
	! protoc_works || return 0
	need protoc protobuf-compiler 'google/protobuf/descriptor.proto' libprotobuf-dev
	protoc_works || die "protoc does not compile; the packages are protobuf-compiler and libprotobuf-dev"
}
protoc_works() {
	echo 'syntax = "proto3"; import "google/protobuf/descriptor.proto";' |
		"${PROTOC:-protoc}" -I /dev --descriptor_set_out=/dev/null /dev/stdin 2>/dev/null
}

# need_redis: redis-server, which its package would start at once outside of run level 1
need_redis() {
	RUNLEVEL=1 need redis-server redis-server
}

# need_php: PHP-FPM and nginx, which their packages would start at once outside of run level 1
need_php() {
	RUNLEVEL=1 need php-fpm8.2 php8.2-fpm nginx nginx-light setpriv util-linux
}

# need_mariadb: mariadbd and the programs that copy its data and read its logs. These packages start nothing
need_mariadb() {
	need mariadbd mariadb-server-core mariadb-backup mariadb-backup mariadb mariadb-client-core mariadb-binlog mariadb-client
}

# need_mariadb_11_8: MariaDB of the next Debian beside this one: sets ROOT_11_8 to a folder for chroot, of the image that a node runs
need_mariadb_11_8() {
	export ROOT_11_8=$CACHE/mariadb-11.8
	need_root mariadb-11.8 "$ROOT_11_8"
}

# need_mysql: MySQL of Debian's unstable suite: sets ROOT_MYSQL to a folder for chroot, of the image that a node runs
need_mysql() {
	export ROOT_MYSQL=$CACHE/mysql-9.7
	need_root mysql-9.7 "$ROOT_MYSQL"
}

# need_root IMAGE FOLDER: the files of an image of images.sh, if they are not there
need_root() {
	local new
	[ ! -e "$2" ] || return 0
	need jq jq tar tar
	"$(dirname "${BASH_SOURCE[0]}")/images.sh" "$1"
	new=$(mktemp -d -p "$CACHE")
	chmod 755 "$new"
	image_root "$IMAGES/$1.tar" "$new"
	mv "$new" "$2"
}

# image_root IMAGE.tar FOLDER: unpacks the layers of an image that pack.sh made
image_root() {
	local layer
	tar -xOf "$1" index.json | jq -r '.manifests[0].digest' | sed 's/:/\//' | while read -r layer; do tar -xOf "$1" "blobs/$layer"; done |
		jq -r '.layers[].digest' | sed 's/:/\//' | while read -r layer; do tar -xOf "$1" "blobs/$layer" | tar -x -C "$2"; done
}

# node_ctr FOLDER: puts a `ctr` of the node into a folder for PATH: containerd is reached from the node only
node_ctr() {
	local cluster
	cluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
	mkdir -p "$1"
	printf '#!/bin/sh\nexec "%s/node-in.sh" "%s" CONTAINERD_SNAPSHOTTER=overlayfs "%s" -a /run/containerd/containerd.sock "$@"\n' \
		"$cluster" "$(command -v env)" "$(command -v ctr)" >"$1/ctr"
	chmod +x "$1/ctr"
}

# blocks DOCUMENT: its blocks of commands that are run, with a line `#` and their heading before each
blocks() {
	awk '/^#/ && !code { title = $0 } /^<!-- not run/ { skip = 1 }
		/^```sh$/ { code = 1; if (!skip) print "#" title; next } /^```$/ && code { code = 0; skip = 0; next } code && !skip' "$1"
}

# need_corpus: unpacks the large corpus of charts, if it lies beside the checkout (set CORPUS), and sets CHARTS to where it is. Its
# conformance.py unpacks it to the same place.
need_corpus() {
	local corpus=${CORPUS:-../shared/corpus} base hash new part
	[ -e "$corpus/charts/charts.tar.zst" ] || return 0
	need zstd zstd tar tar
	hash=$(sha256sum "$corpus/charts/charts.tar.zst" | cut -c1-16)
	base=${CONFORMANCE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}}/chart-conformance
	if [ ! -d "$base/$hash/charts" ]; then
		mkdir -p "$base/$hash"
		new=$(mktemp -d -p "$base")
		zstd -qd --long=27 -c "$corpus/charts/charts.tar.zst" | tar x -C "$new"
		for part in "$new"/*; do [ -e "$base/$hash/${part##*/}" ] || mv "$part" "$base/$hash/"; done
		rm -rf "$new"
	fi
	CHARTS=$base/$hash
}

# until_ok SECONDS CMD...: runs CMD every 0.1 s until it succeeds
until_ok() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { echo "timed out: $*" >&2; return 1; }
		sleep 0.1
	done
}

# cert PKI NAME SUBJECT [SAN]: a key and a certificate signed by PKI/ca
cert() {
	local d=$1 n=$2 subject=$3 san=${4:-}
	[ ! -s "$d/$n.crt" ] || return 0
	openssl ecparam -name prime256v1 -genkey -noout -out "$d/$n.key"
	openssl req -new -key "$d/$n.key" -subj "$subject" -out "$d/$n.csr"
	{
		echo 'keyUsage=critical,digitalSignature,keyEncipherment'
		echo 'extendedKeyUsage=serverAuth,clientAuth'
		[ -z "$san" ] || echo "subjectAltName=$san"
	} >"$d/$n.ext"
	openssl x509 -req -in "$d/$n.csr" -CA "$d/ca.crt" -CAkey "$d/ca.key" -CAcreateserial \
		-days 3650 -extfile "$d/$n.ext" -out "$d/$n.crt" 2>/dev/null
	rm -f "$d/$n.csr" "$d/$n.ext"
}

# member_certs FOLDER SAN: an authority, a certificate for members of etcd and one for clients
member_certs() {
	openssl ecparam -name prime256v1 -genkey -noout -out "$1/ca.key"
	openssl req -x509 -new -key "$1/ca.key" -subj /CN=members -days 2 -out "$1/ca.crt"
	cert "$1" member /CN=member "$2"
	cert "$1" client /CN=nobody
}

# kubeconfig PKI NAME SERVER FILE: with the client certificate inlined
kubeconfig() {
	cat >"$4" <<EOF
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster: {server: "$3", certificate-authority-data: $(base64 -w0 "$1/ca.crt")}
users:
- name: $2
  user: {client-certificate-data: $(base64 -w0 "$1/$2.crt"), client-key-data: $(base64 -w0 "$1/$2.key")}
contexts:
- {name: local, context: {cluster: local, user: $2, namespace: default}}
current-context: local
EOF
	chmod 600 "$4"
}

# make_pki DIR SERVER_SAN: CA, service-account key and the API server's own pairs
make_pki() {
	local d=$1 san=$2
	mkdir -p "$d"
	if [ ! -s "$d/ca.crt" ]; then
		openssl ecparam -name prime256v1 -genkey -noout -out "$d/ca.key"
		openssl req -x509 -new -key "$d/ca.key" -subj /CN=tillerman-local-ca -days 3650 -out "$d/ca.crt" \
			-addext 'keyUsage=critical,keyCertSign,cRLSign,digitalSignature'
	fi
	[ -s "$d/sa.key" ] || openssl ecparam -name prime256v1 -genkey -noout -out "$d/sa.key"
	[ -s "$d/sa.pub" ] || openssl pkey -in "$d/sa.key" -pubout -out "$d/sa.pub"
	cert "$d" apiserver /CN=kube-apiserver "$san"
	cert "$d" apiserver-kubelet /O=system:masters/CN=apiserver-kubelet
	cert "$d" front-proxy-client /CN=front-proxy-client
	cert "$d" admin /O=system:masters/CN=admin
	cert "$d" kcm /CN=system:kube-controller-manager
	cert "$d" operator /CN=tillerman-operator
}

# apiserver_flags PKI PORT ETCD_URL BIND ADVERTISE AUDIT_DIR: printed one a line
apiserver_flags() {
	local p=$1
	cat >"$6/audit-policy.yaml" <<EOF
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
EOF
	cat <<EOF
--secure-port=$2
--etcd-servers=$3
--bind-address=$4
--advertise-address=$5
--client-ca-file=$p/ca.crt
--tls-cert-file=$p/apiserver.crt
--tls-private-key-file=$p/apiserver.key
--service-account-issuer=https://kubernetes.default.svc.cluster.local
--service-account-key-file=$p/sa.pub
--service-account-signing-key-file=$p/sa.key
--service-cluster-ip-range=$SVC_CIDR
--authorization-mode=Node,RBAC
--enable-admission-plugins=NodeRestriction
--kubelet-client-certificate=$p/apiserver-kubelet.crt
--kubelet-client-key=$p/apiserver-kubelet.key
--kubelet-certificate-authority=$p/ca.crt
--requestheader-client-ca-file=$p/ca.crt
--requestheader-allowed-names=front-proxy-client
--requestheader-extra-headers-prefix=X-Remote-Extra-
--requestheader-group-headers=X-Remote-Group
--requestheader-username-headers=X-Remote-User
--proxy-client-cert-file=$p/front-proxy-client.crt
--proxy-client-key-file=$p/front-proxy-client.key
--kubelet-preferred-address-types=InternalIP
--allow-privileged=true
--audit-policy-file=$6/audit-policy.yaml
--audit-log-path=$6/audit.log
--audit-log-maxsize=10000
--audit-log-mode=blocking
EOF
}

# kcm_flags PKI KUBECONFIG: with all controllers, or those of CONTROLLERS (a comma list). Tests make hooks of hundreds of releases at once:
# with five at a time, as by default, a Job waits for half a minute. Autoscalers scale down after 5 seconds instead of five
# minutes.
kcm_flags() {
	[ -z "${CONTROLLERS:-}" ] || echo "--controllers=$CONTROLLERS"
	cat <<EOF
--kubeconfig=$2
--leader-elect=false
--use-service-account-credentials=true
--kube-api-qps=200
--kube-api-burst=400
--concurrent-job-syncs=50
--horizontal-pod-autoscaler-downscale-stabilization=5s
--service-account-private-key-file=$1/sa.key
--root-ca-file=$1/ca.crt
--cluster-signing-cert-file=$1/ca.crt
--cluster-signing-key-file=$1/ca.key
--bind-address=127.0.0.1
EOF
}

# free_port COUNT: the first of COUNT neighbouring ports of 20000..29999 that nobody listens on
free_port() {
	local first p
	while :; do
		first=$((20000 + RANDOM % 9900))
		for ((p = first; p < first + $1; p++)); do
			! (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || continue 2
		done
		echo $first
		return
	done
}

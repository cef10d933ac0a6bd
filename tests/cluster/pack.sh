# Container images without Docker. Source env.sh and lib.sh first; $work is a folder for what is in the making.
# shellcheck shell=bash
need jq jq

# pack NAME:TAG OUT.tar CONFIG_JSON FOLDER...: an image with a layer of each folder. Layers stay uncompressed: no time is lost,
# and a layer's digest is its diff id.
pack() {
	local name=$1 out=$2 config=$3 w=$work/image layers= folder
	shift 3
	rm -rf "$w" && mkdir -p "$w/blobs/sha256"
	blob() { # blob FILE MEDIA_TYPE: stores it and prints its descriptor
		local digest
		digest=$(sha256sum "$1" | cut -d' ' -f1)
		mv "$1" "$w/blobs/sha256/$digest"
		jq -nc --arg type "$2" --arg digest "sha256:$digest" --argjson size "$(stat -c %s "$w/blobs/sha256/$digest")" \
			'{mediaType: $type, digest: $digest, size: $size}'
	}
	for folder in "$@"; do
		tar -C "$folder" --sort=name --numeric-owner --mtime=@0 -cf "$work/layer" .
		layers+=$(blob "$work/layer" application/vnd.oci.image.layer.v1.tar)
	done
	layers=$(jq -sc . <<<"$layers")
	jq -nc --argjson config "$config" --argjson layers "$layers" \
		'{architecture: "amd64", os: "linux", config: $config, rootfs: {type: "layers", diff_ids: [$layers[].digest]}}' >"$work/config"
	config=$(blob "$work/config" application/vnd.oci.image.config.v1+json)
	jq -nc --argjson config "$config" --argjson layers "$layers" \
		'{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config, layers: $layers}' >"$work/manifest"
	blob "$work/manifest" application/vnd.oci.image.manifest.v1+json | jq -c --arg name "$name" \
		'{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
		  manifests: [. + {platform: {architecture: "amd64", os: "linux"}, annotations: {"io.containerd.image.name": $name}}]}' >"$w/index.json"
	echo '{"imageLayoutVersion":"1.0.0"}' >"$w/oci-layout"
	tar -C "$w" --sort=name -cf "$out.new" oci-layout index.json blobs
	mv "$out.new" "$out"
}

# build_image DOCKERFILE TARGET CONTEXT NAME:TAG OUT.tar: what `docker build` makes of our Dockerfiles, whose stages follow upon each
# other. The public image that they begin with is stood in for by what we use of it.
build_image() {
	local file=$1 target=$2 context=$3 name=$4 out=$5 root=$work/root stage= user= folder=/ entry=[] verb line words pair key
	local -A env=()
	while read -r verb line; do
		for key in "${!env[@]}"; do line=${line//"\${$key}"/${env[$key]}}; done
		read -ra words <<<"$line"
		case $verb in
		'' | '#'*) ;;
		FROM)
			[ -z "$stage" ] || [ "$stage" != "$target" ] || break
			if [ "${words[0]}" = gcr.io/distroless/static-debian12 ]; then
				public_image "$root"
				env=([PATH]=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin [SSL_CERT_FILE]=/etc/ssl/certs/ca-certificates.crt)
			elif [ "${words[0]}" != "$stage" ]; then
				die "$file: there is no image ${words[0]}"
			fi
			stage=${words[2]:-last}
			;;
		COPY)
			mkdir -p "$root$(dirname "${words[1]}")"
			cp -r "$context/${words[0]}" "$root${words[1]}"
			;;
		ENV) for pair in "${words[@]}"; do env[${pair%%=*}]=${pair#*=}; done ;;
		USER) user=$line ;;
		WORKDIR) folder=$line && mkdir -p "$root$folder" ;;
		ENTRYPOINT) entry=$line ;;
		*) die "$file: $verb is not understood" ;;
		esac
	done <"$file"
	[ "$stage" = "$target" ] || die "$file: there is no stage $target"
	chmod -R a+rX "$root"
	words=()
	for key in "${!env[@]}"; do words+=("$key=${env[$key]}"); done
	pack "$name" "$out" "$(jq -nc --arg user "$user" --arg folder "$folder" --argjson entry "$entry" \
		'{User: $user, WorkingDir: $folder, Entrypoint: $entry, Env: $ARGS.positional}' --args "${words[@]}")" "$root"
}

# public_image FOLDER: what we use of distroless' static image
public_image() {
	rm -rf "$1" && mkdir -p "$1"/{etc/ssl/certs,home/nonroot,tmp,var/tmp}
	chmod 1777 "$1/tmp" "$1/var/tmp"
	printf '%s\n' root:x:0:0:root:/root:/sbin/nologin nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin \
		nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin >"$1/etc/passwd"
	[ ! -s /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
}

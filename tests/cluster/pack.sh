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

#!/bin/bash
# Writes an image of one static program as an OCI archive, for several architectures, without any
# engine: a layer with the program as /NAME, a configuration, a manifest for each architecture, and
# an index. The same programs make the same file.
#
#   scripts/image.sh FILE REFERENCE NAME ARCHITECTURE=PROGRAM ...
#
# "ctr images import", "skopeo copy oci-archive:FILE", "podman load" and "docker load" (25 or
# later) take it.
set -euo pipefail
file=$1 reference=$2 name=$3
shift 3
t=$(mktemp -d)
trap 'rm -r "$t"' EXIT
mkdir -p "$t/oci/blobs/sha256"

# blob FILE: puts it where its digest says, and prints digest and size.
blob() {
	local sum
	sum=$(sha256sum "$1" | cut -d' ' -f1)
	cp "$1" "$t/oci/blobs/sha256/$sum"
	echo "\"digest\": \"sha256:$sum\", \"size\": $(stat -c %s "$1")"
}

archive() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --format=ustar "$@"; }

manifests=
for of in "$@"; do
	arch=${of%%=*}
	mkdir -p "$t/root"
	install -m 755 "${of#*=}" "$t/root/$name"
	archive -C "$t/root" -cf "$t/layer" "$name"
	diff=$(sha256sum "$t/layer" | cut -d' ' -f1)
	gzip -n -c "$t/layer" >"$t/layer.gz"
	cat >"$t/config" <<-FILE
		{"architecture": "$arch", "os": "linux", "config": {"Entrypoint": ["/$name"]},
		 "rootfs": {"type": "layers", "diff_ids": ["sha256:$diff"]}, "history": [{"created_by": "scripts/image.sh"}]}
	FILE
	cat >"$t/manifest" <<-FILE
		{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		 "config": {"mediaType": "application/vnd.oci.image.config.v1+json", $(blob "$t/config")},
		 "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", $(blob "$t/layer.gz")}]}
	FILE
	manifests+="${manifests:+, }{\"mediaType\": \"application/vnd.oci.image.manifest.v1+json\", $(blob "$t/manifest"),
		\"platform\": {\"architecture\": \"$arch\", \"os\": \"linux\"}}"
done
cat >"$t/index" <<-FILE
	{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [$manifests]}
FILE
cat >"$t/oci/index.json" <<-FILE
	{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests":
	 [{"mediaType": "application/vnd.oci.image.index.v1+json", $(blob "$t/index"),
	   "annotations": {"io.containerd.image.name": "$reference", "org.opencontainers.image.ref.name": "${reference##*:}"}}]}
FILE
echo '{"imageLayoutVersion": "1.0.0"}' >"$t/oci/oci-layout"
archive -C "$t/oci" -cf "$file" oci-layout index.json blobs

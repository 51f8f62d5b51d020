#!/bin/bash
# Writes what is given away: for each architecture a Debian package with the programs, man pages and
# completion, and a list of what is in the program (CycloneDX); the Helm chart; and SHA256SUMS of all files there.
# The same programs make the same files.
#
#   scripts/dist.sh DIR VERSION NFPM MAN ARCHITECTURE=PROGRAMS ...
#
# PROGRAMS is a directory with pathwise and pathwise-cni, MAN one with man pages and NFPM the program
# that makes packages (tools/nfpm).
set -euo pipefail
command -v jq >/dev/null || { echo "dist: needs jq: apt-get install jq" >&2; exit 1; }
dir=$1 version=$2 nfpm=$3 man=$4
shift 4
t=$(mktemp -d)
trap 'rm -r "$t"' EXIT
# What dpkg sorts before any release: nothing was released yet.
[[ $version =~ ^v?[0-9]+\. ]] || version=0.0.0~git.$version
version=${version#v}
license=$(realpath "$(dirname "$0")/../LICENSE")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$(dirname "$0")" log -1 --format=%ct 2>/dev/null || echo 0)}

mkdir -p "$t/man" "$t/completion"
for page in "$man"/*.1; do gzip -n -9 -c "$page" >"$t/man/$(basename "$page").gz"; done
for of in "$@"; do # by the program that runs here
	if "${of#*=}/pathwise" completion bash >"$t/completion/pathwise" 2>/dev/null; then here=${of#*=}/pathwise && break; fi
done
[ -n "${here-}" ] || { echo "dist: no program of $* runs here" >&2; exit 1; }

# contents PROGRAM: its modules, as CycloneDX.
contents() {
	go version -m "$1" | jq -Rn --arg version "$version" '
		[inputs | split("\t") | select(.[1] == "dep" or .[1] == "=>")] as $all |
		[range($all | length) as $i | select($all[$i][1] == "dep") |
			if $all[$i + 1][1] == "=>" then $all[$i + 1] else $all[$i] end] |
		{bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
		 metadata: {component: {type: "application", name: "pathwise", version: $version}},
		 components: [.[] | {type: "library", name: .[2], version: .[3], purl: "pkg:golang/\(.[2])@\(.[3])"}]}'
}

mkdir -p "$dir"
rm -f "$dir"/*.deb "$dir"/*.cdx.json "$dir"/pathwise-*.tgz "$dir/SHA256SUMS"
# Helm wants three numbers, and what comes before a release behind a hyphen.
chart=${version//\~/-}
[[ $chart =~ ^[0-9]+\.[0-9]+\.[0-9]+([-+]|$) ]] || chart=0.0.0-$chart
"$here" kube chart "$t/chart/pathwise" --version "$chart"
tar -C "$t/chart" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - pathwise |
	gzip -n -9 >"$dir/pathwise-$chart.tgz"
for of in "$@"; do
	arch=${of%%=*} programs=${of#*=}
	cat >"$t/nfpm.yaml" <<-FILE
		name: pathwise
		arch: $arch
		version: "$version"
		version_schema: none
		section: net
		maintainer: Pathwise <pathwise@pathwise.dev>
		homepage: https://pathwise.dev
		description: |
		  finds the best container network, and keeps pods on it
		  Measures container networks under workloads, and moves live flows of pods
		  that are on several networks to the best one.
		contents:
		- {src: "$programs/pathwise", dst: /usr/bin/pathwise, file_info: {mode: 0755}}
		- {src: "$programs/pathwise-cni", dst: /usr/lib/cni/pathwise-cni, file_info: {mode: 0755}}
		- {src: pathwise, dst: /usr/bin/kubectl-pathwise, type: symlink}
		- {src: "$t/completion/pathwise", dst: /usr/share/bash-completion/completions/pathwise}
		- {src: "$t/man/*.gz", dst: /usr/share/man/man1/}
		- {src: "$license", dst: /usr/share/doc/pathwise/copyright}
		recommends: [iproute2, nftables]
	FILE
	"$nfpm" package --config "$t/nfpm.yaml" --packager deb --target "$dir/pathwise_${version}_$arch.deb" >"$t/said" || { cat "$t/said" >&2 && exit 1; }
	contents "$programs/pathwise" >"$dir/pathwise_${version}_$arch.cdx.json"
done
(cd "$dir" && sha256sum -- * >"$t/sums" && mv "$t/sums" SHA256SUMS)

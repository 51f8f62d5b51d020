#!/bin/bash
# Builds what a Kubernetes cluster for tests consists of into a directory, at low priority:
# kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy and kubelet as one
# program, and Multus. What is there of the same versions is kept. It takes ten minutes of two
# cores at first.
#
#   scripts/kube-tools.sh DIR
set -euo pipefail
dir=$(realpath -m "$1")
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false
mkdir -p "$dir/stamp"

# build MODULE PACKAGE PROGRAM [LDFLAGS]: builds the program where its module has changed.
build() {
	local stamp=$dir/stamp/$3
	if ! cat "$1"/go.mod "$1"/*.go | cmp -s - "$stamp"; then
		echo "kube-tools: build $3" >&2
		nice -n 19 go -C "$1" build -trimpath -ldflags "-s -w ${4-}" -o "$dir/$3" "$2"
		cat "$1"/go.mod "$1"/*.go >"$stamp"
	fi
}

release=$(awk '$1 == "k8s.io/kubernetes" {print $2}' tools/kube/go.mod)
minor=${release#v1.}
v=k8s.io/component-base/version
build tools/multus gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus multus
build tools/kube . hyperkube "-X $v.gitVersion=$release -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*}"
for program in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet; do
	ln -sf hyperkube "$dir/$program"
done

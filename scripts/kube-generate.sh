#!/bin/sh
# Makes the definitions of Pathwise's objects in Kubernetes, and their copying, from the Go types
# in internal/steer/kube/v1alpha1. "go generate ./internal/steer/kube/v1alpha1" runs it.
set -eu
cd "$(dirname "$0")/.."
gen=$(mktemp -d)
trap 'rm -r "$gen"' EXIT
GOFLAGS=-buildvcs=false go -C tools/controller-gen build -o "$gen/controller-gen" sigs.k8s.io/controller-tools/cmd/controller-gen
"$gen/controller-gen" object crd paths=./internal/steer/kube/v1alpha1 output:crd:dir=internal/steer/kube/manifest/crd

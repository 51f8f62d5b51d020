//go:build tools

// Package tools names Multus, which scripts/kube-tools.sh builds.
package tools

import _ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"

// Command pathwise-cni is a CNI plugin that attaches a pod to several networks.
package main

import (
	"github.com/containernetworking/cni/pkg/skel"

	"pathwise.dev/pathwise/internal/lab/cni"
)

func main() {
	skel.PluginMainFuncs(cni.Funcs(), cni.Versions(), "pathwise-cni: attaches a pod to several networks")
}

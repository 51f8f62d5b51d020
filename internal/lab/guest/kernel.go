package guest

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/lab/network"
)

// Kinds of guest kernels, in the order in which they are preferred.
const (
	// UML is User-mode Linux: a kernel that is a process.
	UML = "uml"
	// QEMU is a kernel on a virtual machine, emulated where there is no KVM.
	QEMU = "qemu"
)

// Host represents the host's own kernel where kernels are named.
const Host = "host"

// Names lists the kinds of guest kernels.
func Names() []string { return []string{UML, QEMU} }

// Kernel is a kernel that a guest is booted with.
type Kernel struct {
	// Name is its kind.
	Name string `json:"name"`
	// Release of the kernel, such as 6.1.176; "" where there is none.
	Release string `json:"release,omitempty"`
	// Image is the kernel, Modules the directory of its modules; "" where all
	// is built in.
	Image   string `json:"image,omitempty"`
	Modules string `json:"modules,omitempty"`
	// How says what runs the kernel.
	How string `json:"how,omitempty"`
	// Missing is what the machine lacks to boot it.
	Missing []network.Missing `json:"missing"`
}

// Label names the kernel in results: figures of kernels with different labels
// are never compared.
func (k Kernel) Label() string {
	if k.Emulated() {
		return k.Name + "-" + k.Release + "-emulated"
	}
	return k.Name + "-" + k.Release
}

// Emulated reports whether the guest's processor is a program, whose speed says
// nothing about any processor's.
func (k Kernel) Emulated() bool { return k.How == emulation }

// Works reports whether the kernel can be booted here.
func (k Kernel) Works() bool { return len(k.Missing) == 0 }

// Place is where kernels are looked for.
type Place struct {
	// Self is the pathwise executable; "make guest-kernel" puts kernels next to it.
	Self string
	// Getenv reads the variables that name other kernels; nil means none.
	Getenv func(string) string
}

func (p Place) getenv(name string) string {
	if p.Getenv == nil {
		return ""
	}
	return p.Getenv(name)
}

// Kernels lists all kinds of guest kernels, those that cannot be booted with what
// they lack.
func Kernels(p Place) []Kernel {
	out := []Kernel{findUML(p), findQEMU(p)}
	for i := range out {
		if out[i].Missing == nil {
			out[i].Missing = []network.Missing{}
		}
	}
	return out
}

// Find returns the guest kernel of a kind.
func Find(p Place, name string) (Kernel, error) {
	all := Kernels(p)
	i := slices.IndexFunc(all, func(k Kernel) bool { return k.Name == name })
	if i < 0 {
		return Kernel{}, fmt.Errorf("unknown guest kernel %q: expected one of %s", name, strings.Join(Names(), ", "))
	}
	return all[i], nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/guest"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/network/catalogue"
	"pathwise.dev/pathwise/internal/network/custom"
	"pathwise.dev/pathwise/internal/rootless"
)

// kernels knows on which kernel a network works: the host's, or that of a guest,
// which is asked once and only when it comes to that.
type kernels struct {
	env
	host   *network.Machine
	guests []guest.Kernel
	// lacks holds the guests' answers by kind.
	lacks map[string][]network.Missing
}

func (e env) kernels() *kernels {
	return &kernels{env: e, host: network.NewMachine(lab.DefaultCNIPath(e.self)), lacks: map[string][]network.Missing{}}
}

// place is where a network works.
type place struct {
	// Kernel is guest.Host, the kind of a guest, or "" for nowhere.
	Kernel string
	// Missing is what the host lacks, be it that a guest has it.
	Missing []network.Missing
}

// find looks for a kernel on which the network works, the host's first.
func (k *kernels) find(ctx context.Context, info network.Info) (place, error) {
	p := place{Missing: k.host.Missing(info.Needs)}
	if len(p.Missing) == 0 {
		p.Kernel = guest.Host
		return p, nil
	}
	if !network.OnlyKernel(p.Missing) {
		return p, nil
	}
	for _, g := range k.working() {
		lacks, err := k.without(ctx, g, info.Needs)
		if err != nil {
			return p, err
		}
		if len(lacks) == 0 {
			p.Kernel = g.Name
			return p, nil
		}
	}
	return p, nil
}

// working lists the guests that can be booted here.
func (k *kernels) working() []guest.Kernel {
	if k.guests == nil {
		k.guests = []guest.Kernel{}
		if rootless.Inside() {
			return k.guests // a guest takes the machine's root
		}
		for _, g := range guest.Kernels(k.guestPlace()) {
			if g.Works() {
				k.guests = append(k.guests, g)
			}
		}
	}
	return k.guests
}

// guest returns the guest of a kind, which must work.
func (k *kernels) guest(kind string) (guest.Kernel, error) {
	g, err := guest.Find(k.guestPlace(), kind)
	if err == nil && !g.Works() {
		err = missingError("guest kernel "+kind, g.Missing)
	}
	return g, err
}

// without lists those of the needs that the guest's kernel does not meet.
func (k *kernels) without(ctx context.Context, g guest.Kernel, needs []network.Need) ([]network.Missing, error) {
	lacks, ok := k.lacks[g.Name]
	if !ok {
		var err error
		if lacks, err = k.ask(ctx, g); err != nil {
			return nil, err
		}
		k.lacks[g.Name] = lacks
	}
	var out []network.Missing
	for _, n := range network.KernelNeeds(needs) {
		i := slices.IndexFunc(lacks, func(m network.Missing) bool { return m.Kind == n.Kind && m.Name == n.Name })
		if i >= 0 {
			out = append(out, lacks[i])
		}
	}
	return out, nil
}

// errNoRoot: a guest that was never asked cannot be asked by this user.
var errNoRoot = errors.New("a guest kernel might build it: run as root to find out")

// ask has the guest's kernel say what it lacks of all that the catalogue may
// need, so that one answer serves every question.
func (k *kernels) ask(ctx context.Context, g guest.Kernel) ([]network.Missing, error) {
	needs := catalogueNeeds()
	cache := k.cacheDir()
	if out, ok := guest.Cached(cache, g, needs); ok {
		return out, nil
	}
	if os.Geteuid() != 0 {
		return nil, errNoRoot
	}
	fmt.Fprintf(k.stderr, "asking guest kernel %s what it can build, once\n", g.Label())
	return guest.Ask(ctx, k.guestConfig(g), needs, cache)
}

// catalogueNeeds lists what the networks of the catalogue, and lists of reference
// plugins, need of a kernel.
func catalogueNeeds() []network.Need {
	var out []network.Need
	needs := custom.OfKernel()
	for _, n := range catalogue.All() {
		needs = append(needs, network.KernelNeeds(n.Info().Needs)...)
	}
	for _, need := range needs {
		if !slices.Contains(out, need) {
			out = append(out, need)
		}
	}
	return out
}

// cacheDir is where answers are kept; "" where the user has no home.
func (e env) cacheDir() string {
	if dir := e.getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "pathwise")
	}
	home := e.getenv("HOME")
	if st, err := os.Stat(home); err != nil || !st.IsDir() {
		return ""
	}
	return filepath.Join(home, ".cache", "pathwise")
}

// kernelNames are the values of --kernel.
func kernelNames() []string { return append([]string{kernelAuto, guest.Host}, guest.Names()...) }

// kernelAuto leaves the choice to Pathwise.
const kernelAuto = "auto"

// checkKernel returns an error for a name that is no kind of kernel.
func checkKernel(name string) error {
	if names := kernelNames()[1:]; !slices.Contains(names, name) {
		return fmt.Errorf("unknown kernel %q: expected one of %s", name, strings.Join(names, ", "))
	}
	return nil
}

// kinds shows what is missing in few words: "link ipvlan, link geneve".
func kinds(missing []network.Missing) string {
	var out []string
	for _, m := range missing {
		out = append(out, string(m.Kind)+" "+m.Name)
	}
	return strings.Join(out, ", ")
}

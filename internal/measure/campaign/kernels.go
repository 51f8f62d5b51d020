package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/lab/network/custom"
	"pathwise.dev/pathwise/internal/lab/rootless"
)

// Kernels knows on which kernel a network works: the host's, or that of a guest,
// which is asked once and only when it comes to that.
type Kernels struct {
	host *network.Machine
	boot Guests
	// guests are those that can be booted here; nil until they are looked for.
	guests []guest.Kernel
	// lacks holds the guests' answers by kind.
	lacks map[string][]network.Missing
}

// Guests is how guests are found and booted.
type Guests struct {
	// Place is where their kernels are looked for.
	Place guest.Place
	// Config describes a guest that runs this executable.
	Config func(guest.Kernel) guest.Config
	// Ready tells that a guest of a kernel has come up.
	Ready func(guest.Kernel) func(after time.Duration)
	// Cache is the directory where their answers are kept; "" for none.
	Cache string
	// Log takes what a user is told, in whole lines.
	Log io.Writer
}

// NewKernels returns what is known of the host's kernel, and of guests when it is asked for.
func NewKernels(host *network.Machine, boot Guests) *Kernels {
	return &Kernels{host: host, boot: boot, lacks: map[string][]network.Missing{}}
}

// Place is where a network works.
type Place struct {
	// Kernel is guest.Host, the kind of a guest, or "" for nowhere.
	Kernel string
	// Missing is what the host lacks, be it that a guest has it.
	Missing []network.Missing
}

// Find looks for a kernel on which the network works, the host's first.
func (k *Kernels) Find(ctx context.Context, info network.Info) (Place, error) {
	p := Place{Missing: k.host.Missing(info.Needs)}
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
func (k *Kernels) working() []guest.Kernel {
	if k.guests == nil {
		k.guests = []guest.Kernel{}
		if rootless.Inside() {
			return k.guests // a guest takes the machine's root
		}
		for _, g := range guest.Kernels(k.boot.Place) {
			if g.Works() {
				k.guests = append(k.guests, g)
			}
		}
	}
	return k.guests
}

// guest returns the guest of a kind, which must work.
func (k *Kernels) guest(kind string) (guest.Kernel, error) {
	g, err := guest.Find(k.boot.Place, kind)
	if err == nil && !g.Works() {
		err = network.CannotRun("guest kernel "+kind, g.Missing)
	}
	return g, err
}

// without lists those of the needs that the guest's kernel does not meet.
func (k *Kernels) without(ctx context.Context, g guest.Kernel, needs []network.Need) ([]network.Missing, error) {
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

// ErrNoRoot: a guest that was never asked cannot be asked by this user.
var ErrNoRoot = errors.New("a guest kernel might build it: run as root to find out")

// ask has the guest's kernel say what it lacks of all that the catalogue may
// need, so that one answer serves every question.
func (k *Kernels) ask(ctx context.Context, g guest.Kernel) ([]network.Missing, error) {
	needs := catalogueNeeds()
	if out, ok := guest.Cached(k.boot.Cache, g, needs); ok {
		return out, nil
	}
	if os.Geteuid() != 0 {
		return nil, ErrNoRoot
	}
	fmt.Fprintf(k.boot.Log, "asking guest kernel %s what it can build, once\n", g.Label())
	return guest.Ask(ctx, k.boot.Config(g), needs, k.boot.Cache)
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

// kinds shows what is missing in few words: "link ipvlan, link geneve".
func kinds(missing []network.Missing) string {
	var out []string
	for _, m := range missing {
		out = append(out, string(m.Kind)+" "+m.Name)
	}
	return strings.Join(out, ", ")
}

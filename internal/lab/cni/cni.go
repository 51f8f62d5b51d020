// Package cni is the plugin pathwise-cni: it attaches a pod to several networks
// at once, each by a CNI configuration list of its own. The first one is the
// pod's default network and gives the stable address; the others are further
// paths, whose routes must not compete with the first's.
//
// It attaches and detaches; choosing a path and steering traffic is not its
// business, and it links no Kubernetes client.
package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Config is the plugin's configuration.
type Config struct {
	types.NetConf
	// Attachments in order; the first is the default network.
	Attachments []Attachment `json:"attachments"`
	// CacheDir keeps what DEL needs; "" means /var/lib/cni/pathwise.
	CacheDir string `json:"cacheDir,omitempty"`
}

// Attachment is one interface on one network.
type Attachment struct {
	// IfName is the interface's name in the pod; the first takes the runtime's CNI_IFNAME.
	IfName string `json:"ifName,omitempty"`
	// Conflist is a CNI configuration list in place.
	Conflist json.RawMessage `json:"conflist"`
}

const defaultCache = "/var/lib/cni/pathwise"

// Funcs are the plugin's commands for skel.
func Funcs() skel.CNIFuncs { return skel.CNIFuncs{Add: add, Check: check, Del: del, Status: status} }

// Versions of the CNI specification that the plugin speaks.
func Versions() version.PluginInfo { return version.VersionsStartingFrom("0.3.1") }

// plan is a parsed call: what libcni is to do for each attachment.
type plan struct {
	conf  Config
	lists []*libcni.NetworkConfigList
	names []string
	cni   *libcni.CNIConfig
	args  *skel.CmdArgs
}

func parse(args *skel.CmdArgs) (*plan, error) {
	p := &plan{args: args}
	if err := json.Unmarshal(args.StdinData, &p.conf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "pathwise-cni: decode configuration", err.Error())
	}
	if len(p.conf.Attachments) == 0 {
		return nil, invalid("attachments: expected at least one network")
	}
	seen := map[string]bool{}
	for i, a := range p.conf.Attachments {
		name := a.IfName
		if i == 0 {
			name = args.IfName
		} else if name == "" {
			name = fmt.Sprintf("net%d", i)
		}
		if seen[name] {
			return nil, invalid(fmt.Sprintf("attachments[%d].ifName: %q is given twice", i, name))
		}
		seen[name] = true
		// libcni checks both with ADD alone, but makes files' names of them with DEL too.
		if err := utils.ValidateInterfaceName(name); err != nil {
			return nil, invalid(fmt.Sprintf("attachments[%d].ifName: %q: %v", i, name, err))
		}
		list, err := libcni.ConfListFromBytes(a.Conflist)
		if err != nil {
			return nil, invalid(fmt.Sprintf("attachments[%d].conflist: %v", i, err))
		}
		if err := utils.ValidateNetworkName(list.Name); err != nil {
			return nil, invalid(fmt.Sprintf("attachments[%d].conflist.name: %q: %v", i, list.Name, err))
		}
		if len(list.Plugins) == 0 {
			return nil, invalid(fmt.Sprintf("attachments[%d].conflist: no plugins", i))
		}
		p.lists, p.names = append(p.lists, list), append(p.names, name)
	}
	cache := p.conf.CacheDir
	if cache == "" {
		cache = defaultCache
	}
	p.cni = libcni.NewCNIConfigWithCacheDir(filepath.SplitList(args.Path), cache, nil)
	return p, nil
}

func invalid(msg string) error {
	return types.NewError(types.ErrInvalidNetworkConfig, "pathwise-cni: "+msg, "")
}

func (p *plan) runtime(i int) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: p.args.ContainerID, NetNS: p.args.Netns, IfName: p.names[i]}
}

// add attaches all networks or none. The result is the first attachment's, with
// the interfaces and addresses of the others behind it.
func add(args *skel.CmdArgs) (err error) {
	p, err := parse(args)
	if err != nil {
		return err
	}
	ctx := context.Background()
	var out *types100.Result
	for i, list := range p.lists {
		res, err := p.cni.AddNetworkList(ctx, list, p.runtime(i))
		if err != nil {
			return p.abandon(ctx, i, fmt.Errorf("attach %s to %s: %w", p.names[i], list.Name, err))
		}
		r, err := types100.NewResultFromResult(res)
		if err != nil {
			return p.abandon(ctx, i, fmt.Errorf("read result of %s: %w", list.Name, err))
		}
		out = merge(out, r)
	}
	if err := p.separate(); err != nil {
		return p.abandon(ctx, len(p.lists)-1, err)
	}
	return types.PrintResult(out, p.conf.CNIVersion)
}

// separate keeps the routes of the further networks apart from the first's.
func (p *plan) separate() error {
	if len(p.names) == 1 {
		return nil
	}
	nl, err := netns.NetlinkAt(p.args.Netns)
	if err != nil {
		return err
	}
	defer nl.Close()
	for i, name := range p.names[1:] {
		if err := Separate(nl, name, i+1); err != nil {
			return fmt.Errorf("attach %s to %s: %w", name, p.lists[i+1].Name, err)
		}
	}
	return nil
}

// rejoin undoes separate. A namespace that has gone has taken all of it along,
// which DEL must not mind (CNI specification 1.1, section 2).
func (p *plan) rejoin() error {
	nl, err := netns.NetlinkAt(p.args.Netns)
	if err != nil {
		return nil
	}
	defer nl.Close()
	var errs []error
	for i := range p.names[1:] {
		errs = append(errs, Rejoin(nl, i+1))
	}
	return errors.Join(errs...)
}

// abandon undoes attachments 0 to i because of err. skel prints only the
// innermost error object of a chain, so the whole text goes into one.
func (p *plan) abandon(ctx context.Context, i int, err error) error {
	code := types.ErrInternal
	var told *types.Error
	if errors.As(err, &told) {
		code = told.Code
	}
	return types.NewError(code, "pathwise-cni: "+errors.Join(err, p.undo(ctx, i)).Error(), "")
}

// undo detaches attachments 0 to i, the last of which may be half made.
func (p *plan) undo(ctx context.Context, i int) error {
	var errs []error
	for ; i >= 0; i-- {
		if err := p.cni.DelNetworkList(ctx, p.lists[i], p.runtime(i)); err != nil {
			errs = append(errs, fmt.Errorf("detach %s from %s: %w", p.names[i], p.lists[i].Name, err))
		}
	}
	return errors.Join(append(errs, p.rejoin())...)
}

// merge appends b's interfaces and addresses to a. Routes and DNS stay the
// default network's.
func merge(a, b *types100.Result) *types100.Result {
	if a == nil {
		return b
	}
	base := len(a.Interfaces)
	a.Interfaces = append(a.Interfaces, b.Interfaces...)
	for _, ip := range b.IPs {
		c := ip.Copy()
		if c.Interface != nil {
			n := *c.Interface + base
			c.Interface = &n
		}
		a.IPs = append(a.IPs, c)
	}
	return a
}

func check(args *skel.CmdArgs) error {
	p, err := parse(args)
	if err != nil {
		return err
	}
	for i, list := range p.lists {
		if err := p.cni.CheckNetworkList(context.Background(), list, p.runtime(i)); err != nil {
			return fmt.Errorf("check %s on %s: %w", p.names[i], list.Name, err)
		}
	}
	return nil
}

// del detaches every network, also after one that fails: DEL must release as
// much as it can (CNI specification 1.1, section 2).
func del(args *skel.CmdArgs) error {
	p, err := parse(args)
	if err != nil {
		return err
	}
	return p.undo(context.Background(), len(p.lists)-1)
}

// status asks every network; one that is not ready makes the pod's default path
// or a further one impossible, so the plugin is not ready either.
func status(args *skel.CmdArgs) error {
	if args.Path == "" {
		args.Path = os.Getenv("CNI_PATH")
	}
	p, err := parse(args)
	if err != nil {
		return err
	}
	for _, list := range p.lists {
		if err := p.cni.GetStatusNetworkList(context.Background(), list); err != nil {
			return fmt.Errorf("status of %s: %w", list.Name, err)
		}
	}
	return nil
}

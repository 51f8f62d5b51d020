package ovs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/device"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/topo"
)

// Needs are those of every network on Open vSwitch, whichever datapath it uses.
func Needs() []network.Need {
	return append(SwitchNeeds(), network.NeedPlugin("host-local"))
}

// SwitchNeeds are those of Open vSwitch itself, without a network on it.
func SwitchNeeds() []network.Need {
	return []network.Need{network.NeedRoot(),
		network.NeedProgram("ovs-vswitchd", "openvswitch-switch"), network.NeedProgram("ovsdb-server", "openvswitch-switch"),
		network.NeedProgram("ethtool", "ethtool"),
		{Kind: network.File, Name: schema, From: "apt-get install openvswitch-switch"},
		network.NeedLink("veth", "CONFIG_VETH"), network.NeedLink("tun", "CONFIG_TUN")}
}

const schema = "/usr/share/openvswitch/vswitch.ovsschema"

// Fabric is Open vSwitch on every host of a site: on each an ovsdb-server and an
// ovs-vswitchd. The networks of a lab share them, as on a host outside a lab:
// two ovs-vswitchd in one namespace would contend for their datapaths' devices.
type Fabric struct {
	site network.Site
	// Datapath of the bridges of this network.
	Datapath Datapath
	version  string
	links    map[int]*netlink.Handle
	supply   device.Supply
	plugged  map[int]map[string]string // pods' ports, by host index and pod
}

// Open starts Open vSwitch on the site's hosts, unless another network of the
// lab has. Bridges are made when the network gets ready.
func Open(ctx context.Context, site network.Site, d Datapath) (*Fabric, error) {
	f := &Fabric{site: site, Datapath: d, links: map[int]*netlink.Handle{}, supply: device.NewSupply(site),
		plugged: map[int]map[string]string{}}
	for _, h := range site.Hosts {
		nl, err := site.Netlink(h.Netns)
		if err != nil {
			return nil, err
		}
		f.links[h.Index], f.plugged[h.Index] = nl, map[string]string{}
	}
	if len(site.Hosts) == 0 {
		return f, nil // all are in other parts of the site
	}
	raw, err := site.Run(ctx, site.Hosts[0].Netns, "ovs-vswitchd", "--version")
	if err != nil {
		return nil, fmt.Errorf("ask for the version of Open vSwitch: %w", err)
	}
	f.version = Version(raw)
	err = os.Mkdir(f.dir(site.Hosts[0]), 0o755)
	if errors.Is(err, fs.ErrExist) {
		return f, nil
	} else if err != nil {
		return nil, fmt.Errorf("create directory: %w", err)
	}
	if err := f.start(ctx); err != nil {
		return nil, fmt.Errorf("start Open vSwitch: %w", err)
	}
	return f, nil
}

// Version is the last word of the first line of what a program of Open vSwitch
// or OVN says of itself: "ovs-vswitchd (Open vSwitch) 3.1.0".
func Version(raw []byte) string {
	line, _, _ := strings.Cut(string(raw), "\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		return "of unknown version"
	}
	return words[len(words)-1]
}

// Netlink returns the host's handle; calls for different hosts may run side by side.
func (f *Fabric) Netlink(h topo.Host) *netlink.Handle { return f.links[h.Index] }

// Note says what was built, for the result.
func (f *Fabric) Note() string {
	return fmt.Sprintf("Open vSwitch %s, %s", f.version, f.Datapath)
}

// dir is where a host's Open vSwitch keeps its database and sockets. A socket's
// path holds 107 bytes (unix(7)): it is short.
func (f *Fabric) dir(h topo.Host) string { return filepath.Join(f.site.Lab, "ovs-"+h.Name) }

// Env tells programs where the host's Open vSwitch is.
func (f *Fabric) Env(h topo.Host) []string {
	dir := f.dir(h)
	return []string{"OVS_RUNDIR=" + dir, "OVS_LOGDIR=" + dir, "OVS_DBDIR=" + dir, "OVS_SYSCONFDIR=" + dir}
}

// DB is the address of the host's database.
func (f *Fabric) DB(h topo.Host) string { return "unix:" + filepath.Join(f.dir(h), "db.sock") }

// start starts the daemons of all hosts. The switch follows its database, as it
// asks for it again only a second after it was refused (ovs, lib/reconnect.c).
func (f *Fabric) start(ctx context.Context) error {
	empty := filepath.Join(f.dir(f.site.Hosts[0]), "conf.db")
	if err := CreateDB(ctx, f.site, empty, schema); err != nil {
		return err
	}
	for i, h := range f.site.Hosts {
		db := filepath.Join(f.dir(h), "conf.db")
		if i > 0 {
			if err := os.Mkdir(f.dir(h), 0o755); err != nil {
				return fmt.Errorf("create directory: %w", err)
			}
			if err := duplicate(empty, db); err != nil {
				return err
			}
		}
		if err := ServeDB(ctx, f.site, network.Daemon{Name: "ovsdb-" + h.Name, Netns: h.Netns, Env: f.Env(h)}, db,
			"db"); err != nil {
			return err
		}
	}
	if err := awaitClock(ctx); err != nil {
		return err
	}
	for _, h := range f.site.Hosts {
		if err := AwaitDB(ctx, f.DB(h)); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
		dir := f.dir(h)
		err := f.site.Start(ctx, network.Daemon{Name: "ovs-vswitchd-" + h.Name, Netns: h.Netns, Env: f.Env(h), Argv: []string{
			"ovs-vswitchd", f.DB(h), "--unixctl=" + filepath.Join(dir, "vswitchd.ctl"),
			"--pidfile=" + filepath.Join(dir, "vswitchd.pid"), "-vsyslog:off", "-vconsole:warn"}})
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitClock waits until the kernel has run for ten seconds. Open vSwitch 3.1
// looks at the number of processors when ten seconds have passed since the last
// time, counted from the clock's 0 (lib/ovs-thread.c, count_cpu_cores): younger
// than that, as in a guest just booted, it finds none, starts no thread to answer
// the kernel's datapath, and all packets are lost.
func awaitClock(ctx context.Context) error {
	const enough = 10*time.Second + 100*time.Millisecond
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(enough - program.Kernel()):
		return nil
	}
}

// CreateDB makes an empty database of the schema.
func CreateDB(ctx context.Context, site network.Site, path, schema string) error {
	if _, err := site.Run(ctx, site.Hosts[0].Netns, "ovsdb-tool", "create", path, schema); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	return nil
}

// duplicate copies a database that nobody has open.
func duplicate(from, to string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	if err := os.WriteFile(to, raw, 0o644); err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	return nil
}

// ServeDB starts an ovsdb-server for the database. It listens at name.sock alongside
// it, and at the remotes given.
func ServeDB(ctx context.Context, site network.Site, d network.Daemon, path, name string, remotes ...string) error {
	base := filepath.Join(filepath.Dir(path), name)
	d.Argv = []string{"ovsdb-server", path, "--remote=punix:" + base + ".sock", "--unixctl=" + base + ".ctl",
		"--pidfile=" + base + ".pid", "-vsyslog:off", "-vconsole:warn"}
	for _, r := range remotes {
		d.Argv = append(d.Argv, "--remote="+r)
	}
	return site.Start(ctx, d)
}

// AwaitDB waits until a database server takes connections at "unix:FILE". On a busy machine
// one whose processor is a program (QEMU without KVM) takes over 10 s to begin.
func AwaitDB(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := network.Poll(ctx, time.Millisecond, func() error {
		conn, err := net.Dial("unix", strings.TrimPrefix(address, "unix:"))
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		return fmt.Errorf("wait for ovsdb-server: %w", err)
	}
	return nil
}

// Each calls fn for every host, side by side.
func (f *Fabric) Each(fn func(h topo.Host) error) error {
	errs := make([]error, len(f.site.Hosts))
	var wg sync.WaitGroup
	for i, h := range f.site.Hosts {
		wg.Go(func() {
			if err := fn(h); err != nil {
				errs[i] = fmt.Errorf("configure host %s: %w", h.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// patience bounds a program that waits for a daemon; the lab's own limit on the
// network's start-up is shorter, this one keeps programs from staying behind.
const patience = "--timeout=150"

// database runs ovs-vsctl on the host.
func (f *Fabric) database(ctx context.Context, h topo.Host, args ...string) (string, error) {
	raw, err := f.site.Run(ctx, h.Netns, append([]string{"ovs-vsctl", "--db=" + f.DB(h), patience}, args...)...)
	return strings.TrimSpace(string(raw)), err
}

// Configure changes the host's configuration by ovs-vsctl, and returns when
// ovs-vswitchd has done so.
func (f *Fabric) Configure(ctx context.Context, h topo.Host, args ...string) error {
	if _, err := f.database(ctx, h, args...); err != nil {
		return err
	}
	return f.Sound(ctx, h)
}

// Sound wants every port to be one that ovs-vswitchd could make: what it could
// not, it notes in the database, and nobody fails.
func (f *Fabric) Sound(ctx context.Context, h topo.Host) error {
	bad, err := f.database(ctx, h, "--format=csv", "--no-headings", "--columns=name,error", "find", "Interface",
		"error!=[]")
	if err != nil {
		return fmt.Errorf("look for ports in error: %w", err)
	}
	if bad != "" {
		return fmt.Errorf("ovs-vswitchd could not make its ports: %s", strings.ReplaceAll(bad, "\n", "; "))
	}
	return nil
}

// Record changes the host's configuration without waiting for ovs-vswitchd.
func (f *Fabric) Record(ctx context.Context, h topo.Host, args ...string) error {
	_, err := f.database(ctx, h, append([]string{"--no-wait"}, args...)...)
	return err
}

// Control asks the host's ovs-vswitchd by ovs-appctl.
func (f *Fabric) Control(ctx context.Context, h topo.Host, args ...string) ([]byte, error) {
	return f.site.Run(ctx, h.Netns, append([]string{"ovs-appctl", "-t", filepath.Join(f.dir(h), "vswitchd.ctl"), patience},
		args...)...)
}

// AddFlows adds OpenFlow rules to a bridge of the host in one transaction. The
// file that they are handed over in stays for readers.
func (f *Fabric) AddFlows(ctx context.Context, h topo.Host, bridge, name string, rules []string) error {
	return f.flows(ctx, h, "add-flows", bridge, name, rules)
}

// ReplaceFlows has a bridge of the host have these rules and no others, in one transaction.
func (f *Fabric) ReplaceFlows(ctx context.Context, h topo.Host, bridge, name string, rules []string) error {
	return f.flows(ctx, h, "replace-flows", bridge, name, rules)
}

func (f *Fabric) flows(ctx context.Context, h topo.Host, how, bridge, name string, rules []string) error {
	file := filepath.Join(f.site.Dir, h.Name+"-"+name+".flows")
	if err := os.WriteFile(file, []byte(strings.Join(rules, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("write flows: %w", err)
	}
	_, err := f.site.Run(ctx, h.Netns, "ovs-ofctl", "-OOpenFlow14", "--bundle", patience, how,
		"unix:"+f.management(h, bridge), file)
	return err
}

// Flows lists the OpenFlow rules of a bridge of the host.
func (f *Fabric) Flows(ctx context.Context, h topo.Host, bridge string) ([]byte, error) {
	return f.site.Run(ctx, h.Netns, "ovs-ofctl", "-OOpenFlow14", patience, "--no-stats", "dump-flows",
		"unix:"+f.management(h, bridge))
}

func (f *Fabric) management(h topo.Host, bridge string) string {
	return filepath.Join(f.dir(h), bridge+".mgmt")
}

// Host returns the host of that index.
func (f *Fabric) Host(index int) (topo.Host, error) {
	for _, h := range f.site.Hosts {
		if h.Index == index {
			return h, nil
		}
	}
	return topo.Host{}, fmt.Errorf("no host %d", index)
}

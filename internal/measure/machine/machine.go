// Package machine records what a result was measured on: the configuration that
// RFC 8172 section 3.2 and draft-ietf-bmwg-containerized-infra ask a benchmark of
// container networks to report. It only reads; it tunes nothing.
package machine

import (
	"context"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/rootless"
)

// Record describes a machine. What could not be read is left out.
type Record struct {
	Recorded   time.Time         `json:"recorded"`
	Hostname   string            `json:"hostname"`
	OS         string            `json:"os"`
	Kernel     Kernel            `json:"kernel"`
	CPU        CPU               `json:"cpu"`
	Memory     Memory            `json:"memory"`
	Virtual    string            `json:"virtualisation,omitempty"`
	Storage    string            `json:"storage,omitempty"`
	Sysctls    map[string]string `json:"sysctls"`
	Interfaces []Interface       `json:"interfaces"`
	// Components are the versions of every program that a run may use.
	Components map[string]string `json:"components"`
	Pathwise   string            `json:"pathwise"`
	Go         string            `json:"go"`
	// Rootless: measured by the root of a user namespace, not the machine's.
	Rootless bool `json:"rootless,omitempty"`
	// Load is the load average of the last minute when the record was made.
	Load float64 `json:"load_average"`
}

// Kernel is the running kernel.
type Kernel struct {
	Release string `json:"release"`
	Version string `json:"version"`
	// Cmdline holds isolcpus, mitigations and the like.
	Cmdline string `json:"cmdline"`
	// Modules says whether the kernel can load modules.
	Modules     bool   `json:"modules"`
	ClockSource string `json:"clock_source,omitempty"`
}

// CPU is the machine's processors.
type CPU struct {
	Model       string            `json:"model"`
	Online      string            `json:"online"`
	Isolated    string            `json:"isolated,omitempty"`
	MHz         string            `json:"mhz,omitempty"`
	Cache       string            `json:"cache,omitempty"`
	Microcode   string            `json:"microcode,omitempty"`
	Governor    string            `json:"governor,omitempty"`
	Turbo       string            `json:"turbo,omitempty"`
	NUMANodes   int               `json:"numa_nodes"`
	Threads     string            `json:"threads_per_core,omitempty"`
	Mitigations map[string]string `json:"mitigations,omitempty"`
}

// Memory in kB, as /proc/meminfo gives it.
type Memory struct {
	TotalKB     string `json:"total_kb"`
	HugePages   string `json:"huge_pages"`
	HugePageKB  string `json:"huge_page_kb"`
	Transparent string `json:"transparent_huge_pages,omitempty"`
}

// Interface is one device of the machine itself.
type Interface struct {
	Name   string `json:"name"`
	MTU    string `json:"mtu"`
	Driver string `json:"driver,omitempty"`
	Speed  string `json:"speed_mbit,omitempty"`
	NUMA   string `json:"numa_node,omitempty"`
}

// Read describes this machine; cniPath is where CNI plugins are looked for.
func Read(ctx context.Context, cniPath []string) Record {
	host, _ := os.Hostname() // left out where unknown
	r := Record{
		Recorded: time.Now().UTC(), Hostname: host, OS: osName(), Kernel: kernel(), CPU: processors(), Memory: memory(),
		Virtual: virtualisation(), Storage: storage(), Sysctls: sysctls(), Interfaces: interfaces(),
		Components: components(ctx, cniPath), Pathwise: Version(), Go: runtime.Version(), Rootless: rootless.Inside(),
	}
	if load, err := proc().LoadAvg(); err == nil {
		r.Load = load.Load1
	}
	return r
}

// Version is this build's, as the Go tool recorded it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			version += " " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			version += " (modified)"
		}
	}
	return version
}

// proc is what the kernel says at /proc. Where that is not mounted, what is read of it stays empty.
func proc() procfs.FS {
	fs, _ := procfs.NewDefaultFS()
	return fs
}

func read(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

func osName() string {
	for line := range strings.Lines(read("/etc/os-release")) {
		if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(v), `"`)
		}
	}
	return runtime.GOOS
}

func kernel() Kernel {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return Kernel{}
	}
	cmdline, _ := proc().CmdLine() // left out where it cannot be read
	_, err := os.Stat("/proc/modules")
	return Kernel{Release: unix.ByteSliceToString(u.Release[:]), Version: unix.ByteSliceToString(u.Version[:]),
		Cmdline: strings.Join(cmdline, " "), Modules: err == nil,
		ClockSource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource")}
}

// processor is the first one, as others are like it.
func processor() procfs.CPUInfo {
	all, err := proc().CPUInfo()
	if err != nil || len(all) == 0 {
		return procfs.CPUInfo{}
	}
	return all[0]
}

func processors() CPU {
	info, mhz := processor(), ""
	if info.CPUMHz > 0 { // ARM does not tell it
		mhz = strconv.FormatFloat(info.CPUMHz, 'f', 3, 64)
	}
	const sys = "/sys/devices/system/"
	nodes, _ := filepath.Glob(sys + "node/node[0-9]*") // the pattern is well formed
	c := CPU{Model: info.ModelName, Online: read(sys + "cpu/online"), Isolated: read(sys + "cpu/isolated"),
		MHz: mhz, Cache: info.CacheSize, Microcode: info.Microcode,
		Governor: read(sys + "cpu/cpu0/cpufreq/scaling_governor"), Turbo: read(sys + "cpu/intel_pstate/no_turbo"),
		NUMANodes: len(nodes), Threads: read(sys + "cpu/cpu0/topology/thread_siblings_list"),
		Mitigations: map[string]string{}}
	files, _ := filepath.Glob(sys + "cpu/vulnerabilities/*")
	for _, f := range files {
		c.Mitigations[filepath.Base(f)] = read(f)
	}
	return c
}

func memory() Memory {
	info, _ := proc().Meminfo() // left out where it cannot be read
	figure := func(n *uint64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatUint(*n, 10)
	}
	return Memory{TotalKB: figure(info.MemTotal),
		HugePages: figure(info.HugePagesTotal), HugePageKB: figure(info.Hugepagesize),
		Transparent: read("/sys/kernel/mm/transparent_hugepage/enabled")}
}

// virtualisation names the hypervisor, where the machine shows one.
func virtualisation() string {
	var parts []string
	if slices.Contains(processor().Flags, "hypervisor") {
		parts = append(parts, "hypervisor")
	}
	for _, f := range []string{"/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name", "/sys/hypervisor/type"} {
		if v := read(f); v != "" {
			parts = append(parts, v)
		}
	}
	return strings.Join(parts, ", ")
}

func storage() string {
	for line := range strings.Lines(read("/proc/mounts")) {
		f := strings.Fields(line)
		if len(f) > 3 && f[1] == "/" {
			return f[0] + " " + f[2] + " " + f[3]
		}
	}
	return ""
}

// sysctls that move network figures.
func sysctls() map[string]string {
	out := map[string]string{}
	for _, key := range []string{
		"net/core/rmem_max", "net/core/wmem_max", "net/core/rmem_default", "net/core/wmem_default",
		"net/core/netdev_max_backlog", "net/core/netdev_budget", "net/core/somaxconn", "net/core/default_qdisc",
		"net/core/bpf_jit_enable", "net/core/busy_poll", "net/core/gro_normal_batch",
		"net/ipv4/tcp_congestion_control", "net/ipv4/tcp_available_congestion_control", "net/ipv4/tcp_rmem",
		"net/ipv4/tcp_wmem", "net/ipv4/tcp_mtu_probing", "net/ipv4/tcp_timestamps", "net/ipv4/tcp_sack", "net/ipv4/tcp_ecn",
		"net/ipv4/ip_local_port_range", "net/ipv4/udp_mem", "net/bridge/bridge-nf-call-iptables", "kernel/numa_balancing",
	} {
		if v := read("/proc/sys/" + key); v != "" {
			out[strings.ReplaceAll(key, "/", ".")] = strings.Join(strings.Fields(v), " ")
		}
	}
	return out
}

func interfaces() []Interface {
	devs, _ := filepath.Glob("/sys/class/net/*")
	var out []Interface
	for _, d := range devs {
		driver, _ := os.Readlink(filepath.Join(d, "device/driver")) // virtual devices have none
		i := Interface{Name: filepath.Base(d), MTU: read(filepath.Join(d, "mtu")), Speed: read(filepath.Join(d, "speed")),
			NUMA: read(filepath.Join(d, "device/numa_node"))}
		if driver != "" {
			i.Driver = filepath.Base(driver)
		}
		out = append(out, i)
	}
	return out
}

// components asks every program for its version.
func components(ctx context.Context, cniPath []string) map[string]string {
	out := map[string]string{}
	for name, args := range map[string][]string{
		"iperf3": {"--version"}, "sockperf": {"--version"}, "bird": {"--version"}, "etcd": {"--version"},
		"runc": {"--version"}, "flanneld": {"--version"}, "nft": {"--version"}, "iptables": {"--version"}, "ip": {"-V"},
		"docker": {"--version"}, "containerd": {"--version"}, "ovs-vswitchd": {"--version"},
	} {
		path, err := network.FindProgram(name)
		if err != nil {
			path = network.FindPlugin(name, cniPath)
		}
		if path != "" {
			out[name] = version(ctx, path, args)
		}
	}
	for _, name := range []string{"bridge", "ptp", "macvlan", "host-local", "portmap", "flannel"} {
		if path := network.FindPlugin(name, cniPath); path != "" {
			out["cni/"+name] = pluginVersion(path)
		}
	}
	return out
}

func version(ctx context.Context, path string, args []string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil && len(out) == 0 {
		return "unknown: " + err.Error()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// pluginVersion reads the module version that Go put into the executable:
// plugins print one only when they are spoken to in the CNI protocol.
func pluginVersion(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return path
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/containernetworking/plugins" {
			return m.Version
		}
	}
	return info.Main.Version
}

// Command flanneld is flannel's daemon with the backends that Pathwise's lab
// runs: vxlan, host-gw, udp and extension, with subnets kept in etcd.
//
// Everything that moves packets is flannel's own code. This main replaces
// flannel's because that one also imports the Tencent Cloud backend, whose
// dependency cannot be fetched. It differs in two ways: it waits for etcd and
// for the network's configuration instead of asking once a second, and it does
// not remove the rules of an earlier run, as the lab's hosts are always new.
// It speaks neither to Kubernetes nor to etcd over TLS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	opts, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil && opts.version {
		fmt.Println("flanneld", flannelVersion())
		return
	}
	if err == nil {
		err = run(ctx, opts)
	}
	stop()
	klog.Flush()
	if err != nil {
		fmt.Fprintf(os.Stderr, "flanneld: %v\n", err)
		os.Exit(1)
	}
}

// options are the command line. Names and meanings are those of flannel's daemon.
type options struct {
	endpoints  []string
	prefix     string
	iface      string
	publicIP   string
	subnetFile string
	masquerade bool
	version    bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	fs := flag.NewFlagSet("flanneld", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the error is printed once, by main
	endpoints := fs.String("etcd-endpoints", "http://127.0.0.1:2379", "comma-separated `URLs` of etcd")
	fs.StringVar(&opts.prefix, "etcd-prefix", "/coreos.com/network",
		"`key` in etcd under which the network's configuration and subnets are")
	fs.StringVar(&opts.iface, "iface", "", "`interface` (name or address) to the other hosts; by default that of the default route")
	fs.StringVar(&opts.publicIP, "public-ip", "", "`address` at which the other hosts reach this one; by default that of the interface")
	fs.StringVar(&opts.subnetFile, "subnet-file", "/run/flannel/subnet.env",
		"`file` that takes this host's subnet; a subnet that it names already is used if it is free")
	fs.BoolVar(&opts.masquerade, "ip-masq", false, "masquerade traffic that leaves the network")
	fs.BoolVar(&opts.version, "version", false, "print the version of flannel and exit")
	// klog has flags for logs in files as well; the daemon's go to standard error.
	logging := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(logging)
	fs.Var(logging.Lookup("v").Value, "v", "`level` of detail in the log")

	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(stderr)
		fs.Usage()
		return opts, err
	}
	if err != nil {
		return opts, fmt.Errorf("read arguments: %w", err)
	}
	if fs.NArg() > 0 {
		return opts, fmt.Errorf("read arguments: unexpected %q", fs.Arg(0))
	}
	opts.endpoints = strings.Split(*endpoints, ",")
	return opts, nil
}

// flannelVersion is the version of flannel that this program was built from.
func flannelVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == "github.com/flannel-io/flannel" })
	if i < 0 {
		return "unknown"
	}
	return info.Deps[i].Version
}

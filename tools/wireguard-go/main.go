// Command pathwise-wireguard-go runs one device of wireguard-go in the foreground,
// configured from a file.
//
// Everything that handles packets is wireguard-go's own code. This main replaces
// wireguard-go's, which takes its configuration by a socket in
// /var/run/wireguard that is named after the device: all labs of a machine, and
// all hosts of a lab, would share it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	opts, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, opts)
	}
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "pathwise-wireguard-go: %v\n", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	device string
	config string
	mtu    int
}

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	fs := flag.NewFlagSet("pathwise-wireguard-go", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the error is printed once, by main
	fs.StringVar(&opts.config, "config", "", "`file` with the lines of a set operation (https://www.wireguard.com/xplatform/)")
	fs.IntVar(&opts.mtu, "mtu", device.DefaultMTU, "the device's MTU in `bytes`")
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(stderr)
		fs.Usage()
		return opts, err
	}
	if err != nil {
		return opts, fmt.Errorf("read arguments: %w", err)
	}
	if fs.NArg() != 1 || opts.config == "" {
		return opts, errors.New("read arguments: expected --config FILE and the name of the device")
	}
	opts.device = fs.Arg(0)
	return opts, nil
}

// run makes the device and keeps it until ctx ends or the device does.
func run(ctx context.Context, opts options) error {
	config, err := os.Open(opts.config)
	if err != nil {
		return fmt.Errorf("open configuration: %w", err)
	}
	defer config.Close()
	link, err := tun.CreateTUN(opts.device, opts.mtu)
	if err != nil {
		return fmt.Errorf("create device %s: %w", opts.device, err)
	}
	dev := device.NewDevice(link, conn.NewDefaultBind(), device.NewLogger(device.LogLevelError, opts.device+": "))
	defer dev.Close()
	if err := dev.IpcSetOperation(config); err != nil {
		return fmt.Errorf("configure device %s: %w", opts.device, err)
	}
	// Not only when the link is set up, as otherwise: its peers may send before.
	if err := dev.Up(); err != nil {
		return fmt.Errorf("start device %s: %w", opts.device, err)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-dev.Wait():
		return fmt.Errorf("device %s ended", opts.device)
	}
}

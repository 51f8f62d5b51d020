package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
)

// Paths at which a machine answers.
const (
	sharePath  = "/share/"
	attachPath = "/attach"
)

// mostBody bounds what is asked and answered, in bytes: what a program printed is
// the longest part of it (see lab).
const mostBody = 512 << 20

// Serve answers the host, at this machine's address, until ctx ends.
func Serve(ctx context.Context, addr netip.Prefix, s *lab.Share) error {
	if err := openControl(addr); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", netip.AddrPortFrom(addr.Addr(), port).String())
	if err != nil {
		return fmt.Errorf("listen for the host: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+sharePath+"{op}", func(w http.ResponseWriter, r *http.Request) { answer(w, r, s) })
	mux.HandleFunc("POST "+attachPath, attach)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the host: %w", err)
	}
	return nil
}

// openControl gives the interface to the host its address.
func openControl(addr netip.Prefix) error {
	// The kernel loads drivers of devices by itself only where udev asks it to.
	if path, err := network.FindProgram("modprobe"); err == nil {
		_ = exec.Command(path, "-q", "virtio_net").Run() // built in, or not needed
	}
	nl, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer nl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return network.Poll(ctx, 10*time.Millisecond, func() error {
		links, err := netns.Whole(nl.LinkList)
		if err != nil {
			return fmt.Errorf("list interfaces: %w", err)
		}
		for _, l := range links {
			if l.Attrs().HardwareAddr.String() == controlMAC {
				return setAddress(nl, l.Attrs().Name, addr)
			}
		}
		return errors.New("the virtual machine has no interface to its host")
	})
}

// answer does one operation of the share. A client that goes away cancels it.
func answer(w http.ResponseWriter, r *http.Request, s *lab.Share) {
	in, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := s.Serve(r.Context(), r.PathValue("op"), in)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	// An error here is the client's, which has gone.
	_ = json.NewEncoder(w).Encode(out)
}

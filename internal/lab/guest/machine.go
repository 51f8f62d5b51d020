package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// NIC is a network interface of a guest.
type NIC struct {
	// Tap is the host's end, which is there when the guest boots.
	Tap string
	MAC net.HardwareAddr
	// MTU in bytes, also the most that the interface will ever take.
	MTU int
}

// Machine is a guest that Start has booted.
type Machine struct {
	dir  string
	done <-chan struct{}
	exit func() error
}

// Start boots a guest whose command speaks to the host over one of its NICs, and
// returns when that command is about to start. The guest's files lie in the
// directory in, whose owner ends its processes by their mark and removes the files:
// Start records nothing.
func Start(ctx context.Context, c Config, in interface {
	Dir() string
	Mark() string
}) (*Machine, error) {
	c.Alone = true
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := prepare(in.Dir(), c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := boot(ctx, c, in)
	if err != nil {
		return nil, err
	}
	m := &Machine{dir: in.Dir(), done: p.done, exit: func() error { return p.err }}
	ready := watchBoot(c, filepath.Join(in.Dir(), readyFile), time.Now(), p.done, cancel)
	select {
	case up := <-ready:
		if cause := context.Cause(ctx); cause != nil {
			return nil, fmt.Errorf("%w%s", cause, lastWords(in.Dir()))
		}
		if !up {
			return nil, fmt.Errorf("%w: %s%s", ErrBoot, ended(p.err), lastWords(in.Dir()))
		}
		return m, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Failed says why the guest has ended; nil while it runs.
func (m *Machine) Failed() error {
	select {
	case <-m.done:
		_, err := conclude(m.dir, true, m.exit())
		return errors.Join(ErrDied, err)
	default:
		return nil
	}
}

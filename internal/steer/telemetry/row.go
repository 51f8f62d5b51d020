package telemetry

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// SetRow has what is reported of a connection from now on belong to its bucket in a row; until it
// is said, that is the first one. Of more connections than there is room for those that were
// not reported for longest are in the first one again.
func (c *Collector) SetRow(p Pair, local, remote uint16, row flow.Row) error {
	key := telemetryRowKey{Netns: p.Netns, Remote: p.Remote.As16(), LocalPort: local, RemotePort: remote}
	m := c.maps[telemetryMapPwTcpRows]
	var err error
	if row == 0 {
		if err = m.Delete(key); errors.Is(err, ebpf.ErrKeyNotExist) {
			err = nil
		}
	} else {
		err = m.Put(key, uint32(row))
	}
	if err != nil {
		return fmt.Errorf("set row of a connection with %s: %w", p.Remote, err)
	}
	return nil
}

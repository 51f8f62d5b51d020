package telemetry

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Connection is one of a pair, by the ports of its socket.
type Connection struct {
	Pair
	Local, Remote uint16
}

// key is that of the program.
func (c Connection) key() telemetryPlaceKey {
	return telemetryPlaceKey{Netns: c.Netns, Remote: c.Pair.Remote.As16(), LocalPort: c.Local, RemotePort: c.Remote}
}

// SetBucket has what is reported of a connection from now on belong to that bucket; until it is
// said, that is the one by its ports, of the first row, as if this end had opened it. Of more
// connections than there is room for those that were not reported for longest are there again.
func (c *Collector) SetBucket(conn Connection, bucket uint8, theirEnd bool) error {
	place := uint32(bucket % theirs)
	if theirEnd {
		place |= theirs
	}
	if err := c.maps[telemetryMapPwTcpPlaces].Put(conn.key(), place); err != nil {
		return fmt.Errorf("set bucket of a connection with %s: %w", conn.Pair.Remote, err)
	}
	return nil
}

// ForgetBucket has a connection, or another one that uses its ports later, be reported as before
// SetBucket.
func (c *Collector) ForgetBucket(conn Connection) error {
	err := c.maps[telemetryMapPwTcpPlaces].Delete(conn.key())
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget bucket of a connection with %s: %w", conn.Pair.Remote, err)
	}
	return nil
}

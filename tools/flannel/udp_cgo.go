//go:build cgo || !amd64

package main

import (
	"github.com/flannel-io/flannel/pkg/backend"
	"github.com/flannel-io/flannel/pkg/backend/udp"
)

// registerUDP registers flannel's UDP backend, part of which is C. For other
// processors than amd64 flannel's own says that it is not supported.
func registerUDP() { backend.Register("udp", udp.New) }

//go:build !cgo && amd64

package main

import (
	"errors"

	"github.com/flannel-io/flannel/pkg/backend"
	"github.com/flannel-io/flannel/pkg/subnet"
)

// registerUDP replaces flannel's UDP backend, which needs cgo.
func registerUDP() {
	backend.Register("udp", func(subnet.Manager, *backend.ExternalInterface) (backend.Backend, error) {
		return nil, errors.New("this flanneld was built without a C compiler: install gcc and libc6-dev and build it again")
	})
}

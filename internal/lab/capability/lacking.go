package capability

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Grant tells how root in a container comes by what Lacking names. Docker's profile
// of AppArmor refuses mounts, and its masked paths a sysfs of one's own, also to
// CAP_SYS_ADMIN.
const Grant = "a container has them with --privileged, or with --cap-add NET_ADMIN --cap-add SYS_ADMIN " +
	"--security-opt apparmor=unconfined --security-opt seccomp=unconfined"

// Lacking names what the calling thread lacks of the capabilities by which labs are
// made: CAP_NET_ADMIN for devices, routes and rules, CAP_SYS_ADMIN for namespaces and
// mounts; "" where it has both, or where that cannot be told.
func Lacking() string {
	s, err := Read()
	if err != nil {
		return ""
	}
	return lacking(s.Effective)
}

func lacking(have Set) string {
	var out []string
	if have&Of(unix.CAP_NET_ADMIN) == 0 {
		out = append(out, "CAP_NET_ADMIN")
	}
	if have&Of(unix.CAP_SYS_ADMIN) == 0 {
		out = append(out, "CAP_SYS_ADMIN")
	}
	return strings.Join(out, " and ")
}

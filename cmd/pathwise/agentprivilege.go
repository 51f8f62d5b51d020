package main

import (
	"os"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/capability"
)

// agentCapabilities are what an agent keeps; docs/reference/agent.md says what for.
// CAP_PERFMON is not among them, as the kernel takes CAP_SYS_ADMIN for it
// (perfmon_capable, Linux 5.8).
func agentCapabilities() capability.Set {
	return capability.Of(unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_SYS_ADMIN, unix.CAP_NET_BIND_SERVICE,
		unix.CAP_SYS_NICE)
}

// leastPrivilege leaves root's process, all its threads, an agent's capabilities,
// before it reads what others have written. An agent that is begun by one has no more.
func leastPrivilege(e env) error {
	if os.Geteuid() != 0 {
		return nil // it is told that it has to be root
	}
	return capability.Keep(agentCapabilities(), capability.Program{Path: e.self, Args: os.Args, Env: os.Environ()})
}

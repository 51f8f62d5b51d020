package main

import (
	"errors"
	"fmt"
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
//
// The agent of a node also opens its host's network namespace, which takes CAP_SYS_PTRACE.
func leastPrivilege(e env, hostNetns string) error {
	if os.Geteuid() != 0 {
		return nil // it is told that it has to be root
	}
	keep := agentCapabilities()
	if hostNetns != "" {
		keep |= capability.Of(unix.CAP_SYS_PTRACE)
	}
	if err := capability.Keep(keep, capability.Program{Path: e.self, Args: os.Args, Env: os.Environ()}); err != nil {
		return err
	}
	return opens(hostNetns)
}

// opens returns an error where the file of the host's namespace cannot be opened, as it is to be
// whenever connections have moved.
func opens(hostNetns string) error {
	if hostNetns == "" {
		return nil
	}
	fd, err := unix.Open(hostNetns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return fmt.Errorf("an agent needs CAP_SYS_PTRACE, by which it opens its node's network namespace %s: %w: %s",
			hostNetns, err, capability.Grant)
	} else if err != nil {
		return fmt.Errorf("open the node's network namespace %s: %w", hostNetns, err)
	}
	return unix.Close(fd)
}

// privilege is a capability of an agent, and what it is for.
type privilege struct {
	number    int
	name, use string
	// needed: there is no agent without it.
	needed bool
}

func privileges() []privilege {
	return []privilege{
		{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "it enters the pods' namespaces", true},
		{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "it attaches programs and sets routes in pods", true},
		{unix.CAP_NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE", "it answers probes on port 862", true},
		{unix.CAP_NET_RAW, "CAP_NET_RAW",
			"a pair's own paths are not asked and connections not woken: failures of one pair alone are seen later", false},
		{unix.CAP_SYS_NICE, "CAP_SYS_NICE", "failures are seen later while the CPUs are busy", false},
	}
}

// missing says what an agent with these capabilities lacks: an error where there is none, and else
// what it does less well.
func missing(have capability.Set) (less []string, err error) {
	for _, p := range privileges() {
		switch lacks := have&capability.Of(p.number) == 0; {
		case lacks && p.needed:
			return nil, fmt.Errorf("an agent needs %s, by which %s: %s", p.name, p.use, capability.Grant)
		case lacks:
			less = append(less, fmt.Sprintf("%s is missing: %s", p.name, p.use))
		}
	}
	return less, nil
}

// tellMissing tells of capabilities that root's agent has not.
func tellMissing(e env) error {
	if os.Geteuid() != 0 {
		return nil // it is told that it has to be root
	}
	have, err := capability.Read()
	if err != nil {
		return err
	}
	less, err := missing(have.Effective)
	for _, said := range less {
		fmt.Fprintf(e.stderr, "pathwise: agent: %s\n", said)
	}
	return err
}

package agent

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab"
)

// TestDownloadsTranslated: a server is behind a REDIRECT of its pod, as the sidecar of a service mesh has it, so that
// its sockets have another port than their packets. That its connection alone does not get through on the default
// network its own agent finds, as it does without.
func TestDownloadsTranslated(t *testing.T) {
	t.Parallel()
	b := newBedOf(t, lab.Spec{Name: "t-mesh", Agents: true, Pods: []lab.PodSpec{{Name: "a0", Host: 1},
		{Name: "b", Host: 2}}}, "vxlan", "routed-bgp", "macvlan")
	b.start("h1", nil)
	b.start("h2", nil)
	addr := b.pod("b").Addr().String()
	dir := b.nginx(addr)
	b.run(b.pod("b"), "iptables", "-t", "nat", "-A", "PREROUTING", "-p", "tcp", "--dport", "80", "-j", "REDIRECT",
		"--to-ports", "8080")
	server := strings.Fields("nginx -p " + dir + " -c " + dir + "/nginx.conf")
	client := strings.Fields("wget -qO /dev/null http://" + addr + "/f")
	since := b.agents["h2"].journal.last().ID
	b.downloads("a0", server, client, "tcp")
	b.agents["h2"].event(b, since, "the server's agent to find that it does not get through", func(e Event) bool {
		return e.Kind == EventSuspect && strings.HasPrefix(e.Reason, "the connection from port 8080")
	})
}

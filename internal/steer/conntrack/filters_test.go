package conntrack

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// TestStateful: whether filters treat packets by what is tracked is read from the rules, also as they change.
func TestStateful(t *testing.T) {
	const nft, iptables, legacy = "nft", "iptables", "iptables-legacy"
	for n, tc := range []struct {
		name     string
		rules    [][]string // after which it is looked each time
		stateful []bool
	}{
		{"none", nil, nil},
		{"a chain without rules", [][]string{{nft, "add table ip t; add chain ip t c { type filter hook forward priority 0; }"}},
			[]bool{false}},
		{"other rules", [][]string{{nft, "add table inet t; add chain inet t c { type filter hook forward priority 0; }; " +
			"add rule inet t c tcp dport 7 counter drop; add rule inet t c ct mark set 7"}}, []bool{false}},
		{"masquerading", [][]string{{iptables, "-t", "nat", "-A", "POSTROUTING", "-s", "10.0.0.0/8", "-m", "comment",
			"--comment", "state", "-j", "MASQUERADE"}}, []bool{false}},
		{"a state of nft", [][]string{{nft, "add table ip6 t; add chain ip6 t c; add rule ip6 t c tcp dport 7 ct state new accept"}},
			[]bool{true}},
		{"a map of states", [][]string{{nft, "add table ip t; add chain ip t c; add rule ip t c ct state vmap { invalid : drop }"}},
			[]bool{true}},
		{"iptables", [][]string{{iptables, "-A", "FORWARD", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP"}},
			[]bool{true}},
		{"ip6tables", [][]string{{"ip6tables", "-A", "FORWARD", "-m", "state", "--state", "RELATED", "-j", "ACCEPT"}},
			[]bool{true}},
		{"iptables-legacy", [][]string{{legacy, "-A", "FORWARD", "-j", "ACCEPT"}}, []bool{true}},
		{"it comes and goes", [][]string{
			{nft, "add table ip t; add chain ip t c; add rule ip t c tcp dport 7 drop"},
			{nft, "add rule ip t c ct state invalid drop"},
			{nft, "flush chain ip t c"},
			{iptables, "-A", "FORWARD", "-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT"},
			{iptables, "-F", "FORWARD"},
		}, []bool{false, true, false, true, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := create(t, fmt.Sprintf("cts-%d", n))
			var f Filters
			look := func(what string, want bool) {
				t.Helper()
				for range 2 {
					if got, err := f.Stateful(ns); got != want || err != nil {
						t.Errorf("%s: %v, %v, expected %v", what, got, err, want)
					}
				}
			}
			look("without rules", false)
			for i, argv := range tc.rules {
				if argv[0] == legacy && !hasLegacy(t, ns) {
					t.Log("this kernel has no older tables")
					return
				}
				run(t, ns, argv...)
				look(fmt.Sprint(argv), tc.stateful[i])
			}
		})
	}
	var f Filters
	if got, err := f.Stateful("pw-t-no-such"); !got || err == nil {
		t.Errorf("a namespace that is not there: %v, %v", got, err)
	}
}

// hasLegacy reports whether the kernel has the older tables (CONFIG_NETFILTER_XTABLES_LEGACY, since Linux 6.17).
func hasLegacy(t *testing.T, ns string) bool {
	t.Helper()
	cmd := exec.Command("iptables-legacy", "-nL")
	if err := netns.Start(ns, cmd); err != nil {
		t.Fatal(err)
	}
	return cmd.Wait() == nil
}

// BenchmarkStateful: what a look costs on a host with 10,000 rules of others, that are as they were, and that change.
func BenchmarkStateful(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root: network namespaces")
	}
	ns := fmt.Sprintf("pw-t-ctsb-%d", os.Getpid())
	if err := netns.Create(ns); err != nil {
		b.Fatal(err)
	}
	defer netns.Delete(ns)
	file := b.TempDir() + "/rules"
	text := "add table ip t\nadd chain ip t c\n"
	for i := range 10000 {
		text += fmt.Sprintf("add rule ip t c tcp dport %d counter accept\n", 1+i)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("nft", "-f", file)
	if err := netns.Start(ns, cmd); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	var f Filters
	for name, again := range map[string]bool{"same": true, "other": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f.read = f.read && again
				if _, err := f.Stateful(ns); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

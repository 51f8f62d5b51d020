package uperf

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// shapes are the profiles of testdata/profiles.txtar.
func shapes(t testing.TB) []txtar.File {
	t.Helper()
	a, err := txtar.ParseFile("testdata/profiles.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return a.Files
}

// TestProfiles: of the shapes of the 24 profiles that come with uperf, and of those
// that k8s-netperf and benchmark-operator write, each is taken, or refused by line
// and name. internal/measure/workload/catalogue plays those that are taken.
func TestProfiles(t *testing.T) {
	refused := map[string]string{
		"oraclerac.xml":                ":4: options: protocol=udapl: not supported (it needs hardware): expected tcp or udp",
		"rdstest.xml":                  ":4: options: protocol=rds: not supported (RDS needs a kernel module and addresses of its own): expected tcp or udp",
		"sctp-over-udp.xml":            ":6: options: protocol=sctp: not supported (SCTP): expected tcp or udp",
		"sctp.xml":                     ":4: options: protocol=sctp: not supported (SCTP): expected tcp or udp",
		"sctp_flowop_test.xml":         ":7: options: sctp_nodelay: not supported: it is an option of SCTP",
		"ssl.xml":                      ":4: options: protocol=ssl: not supported (SSL): expected tcp or udp",
		"tcp-freebsd-change-stack.xml": ":5: options: stack=fastack: not supported: only FreeBSD has it",
		"vsock.xml":                    ":4: options: protocol=vsock: not supported (it goes between a virtual machine and its host, not over a network): expected tcp or udp",
	}
	env := map[string]string{"nthr": "2", "iter": "10", "conn": "2", "proto": "udp", "nth": "2"}
	files := shapes(t)
	for _, f := range files {
		want := refused[f.Name]
		if want != "" {
			want = f.Name + want
		}
		delete(refused, f.Name)
		_, err := Parse(f.Name, strings.NewReader(string(f.Data)), func(n string) string { return env[n] })
		if err != nil && err.Error() != want || err == nil && want != "" {
			t.Errorf("%s:\ngot  %v\nwant %s", f.Name, err, want)
		}
	}
	if len(files) != 24+6 || len(refused) > 0 {
		t.Errorf("%d profiles, and none of %v", len(files), refused)
	}
}

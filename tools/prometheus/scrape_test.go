package prometheus

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/util/teststorage"
)

// inside is set where the test is run once more, in the network namespace of a host of the lab.
const inside = "PATHWISE_TEST_SCRAPE"

// TestScrape: Prometheus takes in what an agent of a lab tells, and every line of the dashboard has a value.
func TestScrape(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	if bin := os.Getenv(inside); bin != "" {
		scraped(t, bin)
		return
	}
	bin := program(t)
	plugins, err := filepath.Abs("../../bin/cni")
	if err != nil {
		t.Fatal(err)
	}
	const lab = "t-prom"
	state := t.TempDir()
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(bin, args...)
		cmd.Env = append(os.Environ(), "PATHWISE_STATE="+state, "CNI_PATH="+plugins)
		return cmd
	}
	must := func(cmd *exec.Cmd) {
		t.Helper()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	must(run("lab", "up", "--network", "vxlan,macvlan", "--name", lab))
	t.Cleanup(func() { must(run("lab", "down", lab)) })
	for host, flags := range map[string][]string{"h1": {"--metrics", "127.0.0.1:9477"}, "h2": nil} {
		agent := run(append([]string{"agent", "--lab", lab, "--host", host}, flags...)...)
		agent.Args = append([]string{"ip", "netns", "exec", "pw-" + lab + "-" + host, bin}, agent.Args[1:]...)
		ip, err := exec.LookPath("ip")
		if err != nil {
			t.Fatal(err)
		}
		agent.Path = ip
		agent.Stderr = os.Stderr
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = agent.Process.Signal(os.Interrupt); _ = agent.Wait() })
	}
	ping := run("lab", "exec", "p1", "--", "ping", "-q", "-i", "0.01", "-c", "2000", "10.77.2.1")
	if err := ping.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ping.Process.Kill(); _ = ping.Wait() })
	again := exec.Command("ip", "netns", "exec", "pw-"+lab+"-h1", os.Args[0], "-test.run", "^TestScrape$", "-test.v")
	again.Env = append(os.Environ(), inside+"="+bin)
	must(again)
}

// scraped takes in what the agent tells that listens there, until every line has a value.
func scraped(t *testing.T, bin string) {
	_, dashboard := monitoring(t, bin)
	db := teststorage.New(t)
	m, err := scrape.NewManager(&scrape.Options{DiscoveryReloadInterval: model.Duration(100 * time.Millisecond)}, quiet(),
		nil, nil, db, client.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: net/pathwise-agent\n",
		quiet())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.ApplyConfig(cfg); err != nil {
		t.Fatal(err)
	}
	targets := make(chan map[string][]*targetgroup.Group)
	done := make(chan error, 1)
	go func() { done <- m.Run(targets) }()
	defer func() { m.Stop(); <-done }()
	targets <- map[string][]*targetgroup.Group{"net/pathwise-agent": {{Source: "lab", Labels: model.LabelSet{"node": "h1"},
		Targets: []model.LabelSet{{model.AddressLabel: "127.0.0.1:9477"}}}}}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: 10 * time.Second, Logger: quiet()})
	missing := append(expressions(t, dashboard), `up{job="net/pathwise-agent"} == 1`)
	for end := time.Now().Add(60 * time.Second); len(missing) > 0; time.Sleep(500 * time.Millisecond) {
		var still []string
		for _, x := range missing {
			if empty(t, engine, db, x) {
				still = append(still, x)
			}
		}
		if missing = still; time.Now().After(end) && len(missing) > 0 {
			t.Fatalf("no value: %q", missing)
		}
	}
}

// empty reports whether an expression has no value now.
func empty(t *testing.T, engine *promql.Engine, db *teststorage.TestStorage, expr string) bool {
	t.Helper()
	q, err := engine.NewInstantQuery(context.Background(), db, nil, expr, time.Now())
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	res := q.Exec(context.Background())
	if res.Err != nil {
		t.Fatalf("%s: %v", expr, res.Err)
	}
	v, err := res.Vector()
	return err != nil || len(v) == 0
}

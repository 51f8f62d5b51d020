package helm

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/strvals"
)

// TestOnCluster does what "helm install" or "helm uninstall" does with the chart, as
// PATHWISE_KUBE_HELM says, on the cluster of the kubeconfig: the part helm of scripts/kube-test.sh asks for it.
func TestOnCluster(t *testing.T) {
	what := os.Getenv("PATHWISE_KUBE_HELM")
	if what == "" {
		return // that part holds it
	}
	var cfg action.Configuration
	settings := cli.New()
	settings.SetNamespace("default")
	if err := cfg.Init(settings.RESTClientGetter(), "default", "secret", t.Logf); err != nil {
		t.Fatal(err)
	}
	if what == "uninstall" {
		u := action.NewUninstall(&cfg)
		u.Wait, u.Timeout = true, time.Minute
		if _, err := u.Run("pathwise"); err != nil {
			t.Fatal(err)
		}
		return
	}
	bin, dir := program(t), filepath.Join(t.TempDir(), "pathwise")
	run(t, bin, "kube", "chart", dir, "--version", "1.2.3")
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	vals, err := strvals.Parse(os.Getenv("PATHWISE_KUBE_VALUES"))
	if err != nil {
		t.Fatal(err)
	}
	i := action.NewInstall(&cfg)
	i.ReleaseName, i.Namespace = "pathwise", "default"
	if _, err := i.Run(c, vals); err != nil {
		t.Fatal(err)
	}
}

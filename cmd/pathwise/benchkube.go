package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/measure/campaign"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/steer/kube/admin"
	"pathwise.dev/pathwise/internal/steer/kube/manifest"
	"pathwise.dev/pathwise/internal/steer/kube/trial"
)

// benchKube are the flags of a bench on a cluster.
type benchKube struct {
	kubeFlag
	on    bool
	nodes []string
	image string
}

// clusterExperiment is what is measured where nothing is named.
const clusterExperiment = "cluster"

func (k *benchKube) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&k.on, "kube", false, "measure the networks of a Kubernetes cluster, by pods on two of its nodes")
	fl.StringSliceVar(&k.nodes, "nodes", nil, "with --kube: two nodes, the clients' first")
	fl.StringVar(&k.image, "image", "", "with --kube: image with the program as /pathwise (default: that of the agents)")
	k.agentsFlags(cmd)
}

// check returns an error for flags that do not go together.
func (k *benchKube) check(f benchFlags) error {
	if !k.on {
		if len(k.nodes) > 0 || k.image != "" || k.Kubeconfig != "" || k.Context != "" {
			return errors.New("bench: --nodes, --image, --kubeconfig and --context need --kube")
		}
		return nil
	}
	switch {
	case len(k.nodes) != 2 || k.nodes[0] == k.nodes[1]:
		return errors.New("bench --kube: expected --nodes A,B: the clients' node and the servers'")
	case len(f.networks) == 0 && !f.resume:
		return errors.New("bench --kube: expected --networks with some of default, host and NAMESPACE/NAME")
	case f.kernel != campaign.Auto || f.explain || len(f.drills) > 0 || len(f.families) > 0 || f.server != "":
		return errors.New("bench --kube: --kernel, --explain, --drills, --family and --server are for labs")
	}
	for _, name := range f.networks {
		if err := trial.Check(name); err != nil {
			return fmt.Errorf("bench --kube: %w", err)
		}
	}
	return nil
}

// readKube reads the experiment, with the networks of the cluster in place of its own.
func readKube(e env, f benchFlags) (experiment.Experiment, error) {
	if !f.named && !f.resume {
		f.experiment = clusterExperiment
	}
	if err := f.read(); err != nil {
		return experiment.Experiment{}, err
	}
	known := e.catalogue()
	known.Network = func(string) error { return nil } // those of the file are for labs
	if f.resume {
		known.Network = trial.Check
	}
	exp, err := experiment.Parse(f.experiment, bytes.NewReader(f.text), known)
	if err != nil {
		return exp, err
	}
	if !f.resume {
		exp.Networks = nil // Only takes those that are asked for
	}
	if exp, err = exp.Only(f.networks, f.workloads); err != nil {
		return exp, usageError{err}
	}
	if err := f.adjust(e, &exp); err != nil {
		return exp, err
	}
	if err := trial.Fits(exp, e.workload); err != nil {
		return exp, usageError{fmt.Errorf("bench --kube: %w", err)}
	}
	return exp, nil
}

// runKubeBench measures on a cluster. What it has made there it removes, also after Ctrl-C.
func runKubeBench(ctx context.Context, e env, f benchFlags) (err error) {
	exp, err := readKube(e, f)
	if err != nil {
		return err
	}
	c, err := admin.Open(f.kube.Place)
	if err != nil {
		return fmt.Errorf("bench --kube: %w", err)
	}
	c.Say = e.remark
	on := &admin.Bench{Cluster: c}
	var names []string
	for _, n := range exp.Networks {
		names = append(names, n.Name)
	}
	image, nodes, err := on.Places(ctx, f.kube.image, f.kube.nodes, names)
	if err != nil {
		return fmt.Errorf("bench --kube: %w", err)
	}
	camp := e.campaign(exp, false)
	camp.Network = trial.Network
	if f.resume {
		err = camp.Continue(ctx)
	} else {
		err = camp.Plan(ctx, guest.Host)
	}
	if err != nil {
		return err
	}
	if f.dry {
		return printCampaign(e.stdout, camp, e.reportOptions())
	}
	dir, err := os.MkdirTemp("", "pathwise-bench-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintf(e.stderr, "pods in namespace %s of the cluster, clients on node %s, servers on node %s, image %s\n",
		manifest.BenchNamespace, nodes[0], nodes[1], image)
	// What a bench has left that was killed goes, and another at the same time is refused.
	if ctx, err = on.Claim(ctx); err != nil {
		return fmt.Errorf("bench --kube: %w", err)
	}
	defer func() { err = release(context.WithoutCancel(ctx), on, err) }()
	site, err := trial.Open(ctx, on, trial.Plan{Nodes: nodes, Image: image, Self: e.self, Dir: dir})
	if err != nil {
		return fmt.Errorf("bench --kube: %w", err)
	}
	defer func() { err = errors.Join(err, site.Close(context.WithoutCancel(ctx))) }()
	camp.Site = site
	result, err := e.measure(ctx, camp, f, "every finished trial is kept: go on with \"pathwise bench --kube --nodes "+
		strings.Join(nodes[:], ",")+" --resume --out %s\"")
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("bench --kube: %w", cause)
	}
	if err == nil {
		err = e.conclude(result)
	}
	return err
}

// release gives the namespace of a bench back that has failed with err, or has not. Where it has failed as
// somebody has taken the namespace away, that is why, and nothing else.
func release(ctx context.Context, on *admin.Bench, err error) error {
	const answering = 10 * time.Second
	if err != nil {
		asking, stop := context.WithTimeout(ctx, answering)
		defer stop()
		if why := on.Removed(asking); why != nil {
			return fmt.Errorf("bench --kube: %w", why)
		}
	}
	return errors.Join(err, on.Release(ctx))
}

// remark tells on stderr what a command waits for.
func (e env) remark(what string) { fmt.Fprintln(e.stderr, what) }

// tellCluster gives the agents of a cluster what a result promises.
func tellCluster(cmd *cobra.Command, e env, k kubeFlag, dir string) error {
	raw, err := encodePrior(dir)
	if err != nil {
		return fmt.Errorf("recommend: %w", err)
	}
	c, err := admin.Open(k.Place)
	if err == nil {
		err = c.Tell(cmd.Context(), raw)
	}
	if err != nil {
		return fmt.Errorf("recommend --to-cluster: %w", err)
	}
	_, err = fmt.Fprintf(e.stdout, "configmap/%s applied; agents begin again with it, one node after another\n%s\n",
		manifest.PriorMap, raw)
	return err
}

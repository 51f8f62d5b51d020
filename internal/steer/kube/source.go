package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// Config is what a source works with.
type Config struct {
	// Kubeconfig is a file; "" is for an agent that is a pod.
	Kubeconfig string
	// Node is the agent's own, and Pod the UID of its own pod, from which it probes.
	Node, Pod string
	Version   string
	// Quiet writes nothing: of an agent that takes away what others have left.
	Quiet bool
	Log   *slog.Logger
	Now   func() time.Time
}

// Source tells an agent of the cluster. Run keeps it up to date.
type Source struct {
	cfg                   Config
	clients               clients
	pods, nodes, networks cache.SharedInformer
	pathPolicies          cache.SharedInformer
	finder                finder
	composer              composer
	composing             composing
	writer                writer
	policies              *policies
	announcer             announcer
	teller                teller
	news                  chan struct{}
	warned                map[string]bool // warnings, as they hold now
	changed               chan struct{}   // something of other nodes
	urgent                chan struct{}   // something else

	here atomic.Bool // something has changed on this node
	seen struct {    // of this node, when it was last looked at
		at     time.Time
		all    []sandbox.Sandbox
		faults []error
	}

	mu      sync.Mutex // of what follows, which agents read while Run composes
	cluster agent.Cluster
	ready   bool
}

// Pace of looking at namespaces.
const (
	// least is the time between two looks, and hasty that while a pod's namespace is
	// looked for, which is told after the file was made; steady is how often one looks unasked.
	least, hasty, steady = 200 * time.Millisecond, time.Second, 10 * time.Second
	// slowest is the most between two looks while something changes on other nodes.
	slowest = 3 * time.Second
)

// restAfter is the time between two looks for what changes on other nodes, where one takes so long:
// in a large cluster something does all the time, and looking is not to take more than a small
// part of a core: the agent looks at what has changed after that, which takes as long again. What is of
// this node, or a policy, does not wait for it.
func restAfter(took time.Duration) time.Duration { return min(max(least, 500*took), slowest) }

// composing is how long the latest two looks took to compose the cluster: not what they wrote, as the API server
// takes its time, and the lesser one counts, as a look may have lost the processor. What another node's agent writes
// of a policy would wait for seconds for that.
type composing [2]time.Duration

func (c *composing) add(took time.Duration) { c[0], c[1] = c[1], took }

func (c composing) rest() time.Duration { return restAfter(min(c[0], c[1])) }

// Open prepares a source; Run has it speak to the server.
func Open(cfg Config) (*Source, error) {
	c, err := connect(cfg.Kubeconfig)
	if err != nil {
		return nil, err
	}
	s := &Source{cfg: cfg, clients: c, finder: finder{self: cfg.Pod}, composer: newComposer(cfg.Node),
		warned:  map[string]bool{},
		changed: make(chan struct{}, 1), urgent: make(chan struct{}, 1), news: make(chan struct{}, 1),
		writer: writer{clients: c, node: cfg.Node, now: cfg.Now}}
	s.policies = newPolicies(c.cfg, s.listen)
	s.announcer = announcer{clients: c, node: cfg.Node, now: cfg.Now, announced: map[string]time.Time{}}
	s.teller = newTeller(c, cfg.Node, cfg.Now)
	apart, err := Client(batching(c.cfg, cfg.Now), "/apis", v1alpha1.Version(), v1alpha1.Register)
	if err != nil {
		return nil, err
	}
	for _, of := range []struct {
		at *cache.SharedInformer
		do func() (cache.SharedInformer, error)
	}{
		{&s.pods, func() (cache.SharedInformer, error) {
			return informer(c.core, "pods", &corev1.Pod{}, fields.OneTermEqualSelector("spec.nodeName", cfg.Node), trimPod)
		}},
		{&s.nodes, func() (cache.SharedInformer, error) {
			return nodeInformer(apart), nil
		}},
		{&s.networks, func() (cache.SharedInformer, error) {
			return informer(c.paths, "pathnetworks", &v1alpha1.PathNetwork{}, fields.Everything(), trimObject)
		}},
		{&s.pathPolicies, func() (cache.SharedInformer, error) {
			return informer(c.paths, "pathpolicies", &v1alpha1.PathPolicy{}, fields.Everything(), trimObject)
		}},
	} {
		if *of.at, err = of.do(); err != nil {
			return nil, err
		}
		switch of.at {
		case &s.pods:
			err = s.follow(*of.at, s.urgent, &s.here)
		case &s.nodes:
			err = s.follow(*of.at, s.changed, nil)
		default:
			err = s.follow(*of.at, s.urgent, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	s.here.Store(true)
	return s, nil
}

// listen has what the informer learns be looked at soon.
func (s *Source) listen(i cache.SharedInformer) error { return s.follow(i, s.urgent, nil) }

// follow has what the informer learns be told, and noted before that if note is not nil.
func (s *Source) follow(i cache.SharedInformer, tell chan<- struct{}, note *atomic.Bool) error {
	ring := func() {
		if note != nil {
			note.Store(true)
		}
		select {
		case tell <- struct{}{}:
		default:
		}
	}
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { ring() },
		UpdateFunc: func(_, _ any) { ring() }, DeleteFunc: func(any) { ring() }})
	if err == nil {
		err = i.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
			s.cfg.Log.Warn("read from the API server: it is tried again", "error", err)
		})
	}
	if err != nil {
		return fmt.Errorf("prepare watch: %w", err)
	}
	return nil
}

// errUnread is returned until the cluster was read for the first time.
var errUnread = errors.New("nothing was read from the API server yet")

// Cluster is the latest that was read: the same memory until it is another.
func (s *Source) Cluster() (agent.Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		return agent.Cluster{}, errUnread
	}
	return s.cluster, nil
}

// News says that the cluster is another than it was.
func (s *Source) News() <-chan struct{} { return s.news }

// Ready waits until the cluster was read.
func (s *Source) Ready(ctx context.Context) error {
	tick := time.NewTicker(least)
	defer tick.Stop()
	for {
		if _, err := s.Cluster(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// policiesWithin is how long an agent waits for policies before it begins. A kind that was not read by then keeps pods
// on their default network, as one does that may not be read.
const policiesWithin = 10 * time.Second

// Run reads and writes until ctx ends.
func (s *Source) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, i := range []cache.SharedInformer{s.pods, s.nodes, s.networks, s.pathPolicies} {
		wg.Go(func() { i.Run(ctx.Done()) })
	}
	if err := s.policies.run(ctx, &wg); err != nil {
		s.cfg.Log.Error("no policy can be read: nothing is steered", "error", err)
		return
	}
	begin := s.cfg.Now()
	settled := func() bool {
		s.policies.follow(ctx, &wg)
		return s.policies.settled() || s.cfg.Now().Sub(begin) >= policiesWithin
	}
	if !cache.WaitForCacheSync(ctx.Done(), s.pods.HasSynced, s.nodes.HasSynced, s.networks.HasSynced,
		s.pathPolicies.HasSynced, settled) {
		return // told to end
	}
	debug.FreeOSMemory() // reading a large cluster took several times what is kept
	made := make(chan struct{}, 1)
	if err := watchNamespaces(ctx, &wg, made); err != nil {
		s.cfg.Log.Warn("namespaces are looked for every ten seconds alone", "error", err)
	}
	for {
		s.policies.follow(ctx, &wg)
		began := s.cfg.Now()
		wait := s.look(ctx)
		urgent := false
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		case <-s.urgent:
			urgent = true
		case <-made:
			urgent = true
			s.here.Store(true)
		case <-time.After(wait):
			continue
		}
		// What comes at once is looked at once; after some rest one looks at once, as a policy
		// that comes is not to wait.
		s.rest(ctx, least-s.cfg.Now().Sub(began), nil)
		if !urgent {
			s.rest(ctx, s.composing.rest()-s.cfg.Now().Sub(began), s.urgent)
		}
	}
}

// rest waits, but no longer than until something is urgent.
func (s *Source) rest(ctx context.Context, d time.Duration, urgent <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-urgent:
	case <-time.After(d):
	}
}

// boxes are the namespaces of this node. They are looked at where something has changed here, or a
// pod's is missing, and now and then: not for every change of another node.
func (s *Source) boxes(now time.Time) ([]sandbox.Sandbox, []error, error) {
	var err error
	if s.here.Swap(false) || len(s.finder.missing) > 0 || now.Sub(s.seen.at) >= steady {
		s.seen.all, s.seen.faults, err = sandbox.Look()
		if s.seen.at = now; err != nil {
			s.here.Store(true)
		}
	}
	return s.seen.all, s.seen.faults, err
}

// look finds the node's pods, writes of them, and composes the cluster. It returns when to
// look again, unless something happens before.
func (s *Source) look(ctx context.Context) time.Duration {
	warnings, now := map[string]bool{}, s.cfg.Now()
	all, faults, err := s.boxes(now)
	for _, f := range append(faults, err) {
		if f != nil {
			warnings[f.Error()] = true
		}
	}
	if err != nil {
		s.warn(warnings)
		return hasty
	}
	listed := objects[*corev1.Pod](s.pods)
	pods, refused := s.finder.find(listed, all, now)
	for _, r := range refused {
		warnings[fmt.Sprintf("%s is not steered: %s", r.Pod, r.Reason)] = true
	}
	need, odd := needs(listed)
	for _, o := range odd {
		warnings[o.Pod+": "+o.Reason] = true
	}
	networks := objects[*v1alpha1.PathNetwork](s.networks)
	labels, declared := labelsOf(listed), objects[*v1alpha1.PathPolicy](s.pathPolicies)
	known := s.policies.known()
	pods = judge(ask(pods, labels, pathPolicies(declared), need), labels, networks, known)
	begun, nodes := s.cfg.Now(), objects[*view](s.nodes)
	c, faulty := s.composer.compose(pods, nodes, networks, known.None())
	s.composing.add(s.cfg.Now().Sub(begun))
	for _, f := range faulty {
		warnings[f.Error()] = true
	}
	s.mu.Lock()
	if !s.ready || &c.Hosts[0] != &s.cluster.Hosts[0] { // another memory: it is another
		s.cluster, s.ready = c, true
		select {
		case s.news <- struct{}{}:
		default: // it is said already
		}
	}
	s.mu.Unlock()
	spec, status := node(s.cfg.Version, pods, refused)
	again, err := steady, error(nil)
	if !s.cfg.Quiet {
		again, err = s.writer.write(ctx, spec, status)
		later, failed := s.teller.tell(ctx, declared, nodes, networks)
		again, err = min(again, later), errors.Join(err, failed)
	}
	if err == nil && !s.cfg.Quiet {
		err = errors.Join(s.announcer.tell(ctx, listed, refused, refusedReason),
			s.announcer.tell(ctx, listed, odd, needReason))
	}
	if err != nil && ctx.Err() == nil {
		warnings[err.Error()] = true
	}
	s.warn(warnings)
	if len(s.finder.missing) > 0 || s.policies.hasty() {
		again = min(again, hasty)
	}
	return min(again, steady)
}

// warn tells what is new of what holds now.
func (s *Source) warn(now map[string]bool) {
	for _, w := range slices.Sorted(maps.Keys(now)) {
		if !s.warned[w] {
			s.cfg.Log.Warn(w)
		}
	}
	s.warned = now
}

// objects are those that an informer has.
func objects[T any](i cache.SharedInformer) []T {
	var out []T
	for _, o := range i.GetStore().List() {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

package agent

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// No timer of the kernel tells of datagrams that are not answered, as TCP's does. The data plane counts them, flow
// by flow, and a flow that misses its usual answers is asked like a connection: on another path.

// repliesEvery is how often flows of datagrams are looked at, for so many flows of a pod.
const repliesEvery, repliesFlows = 50 * time.Millisecond, 1024

// replyWatcher watches flows of datagrams that go both ways.
type replyWatcher struct {
	*journal
	members  *members
	inquirer *inquirer
	// bell rings when there are some.
	bell bell
}

// watchReplies looks at them until ctx ends, apart from the loop.
func (rw *replyWatcher) watchReplies(ctx context.Context) error {
	for ctx.Err() == nil {
		pods := rw.members.some(func(l *pod) bool { return l.census.Asked > 0 && !l.DryRun })
		if len(pods) == 0 {
			select {
			case <-rw.bell:
			case <-ctx.Done():
			}
			continue
		}
		flows := 0
		for _, l := range pods {
			flows = max(flows, rw.lookAt(l))
		}
		select {
		case <-time.After(repliesEvery * time.Duration(1+flows/repliesFlows)):
		case <-ctx.Done():
		}
	}
	return nil
}

// lookAt looks at a pod's, and returns how many flows it has.
func (rw *replyWatcher) lookAt(l *pod) int {
	rw.members.Lock()
	if rw.members.pods[l.UID] != l {
		rw.members.Unlock()
		return 0 // it has just gone
	}
	flows, err := l.plane.Flows()
	read := rw.cfg.Now() // others may count later, and take the lock before
	rw.members.Unlock()
	var found []dataplane.Asked
	if err == nil {
		found, err = flows.Asked()
		_ = flows.Close() // a handle of ours
	}
	rw.members.Lock()
	defer rw.members.Unlock()
	rw.fault("pod "+l.Name, err)
	if rw.members.pods[l.UID] == l {
		rw.count(l, found, read)
	}
	return l.census.Flows
}

// datagramFlow is a flow of datagrams of a pod.
type datagramFlow struct {
	uid string // the peer's
	ports
}

// count takes what was found of a pod's flows, and asks about those that miss their answers.
func (rw *replyWatcher) count(l *pod, found []dataplane.Asked, now time.Time) {
	was := l.replies
	l.replies = make(map[datagramFlow]*detect.Replies, len(found))
	looks := looks{}
	for _, f := range found {
		p, name := l.pairs[f.UID], datagramFlow{f.UID, ports{f.Local, f.Remote}}
		if p == nil {
			continue
		}
		r := was[name]
		if r == nil {
			looks.add(p, f)
			r = &detect.Replies{}
		}
		if f.Begins {
			continue
		}
		l.replies[name] = r
		r.Counted(rw.inquirer.params, f.Unanswered, now)
		if r.Missing(rw.inquirer.params, now) && !rw.cfg.DryRun {
			rw.inquirer.inquiries.take(&inquiry{pair: p, ports: name.ports, about: aboutDatagrams, replies: r,
				bucket: flow.Bucket(f.Local, f.Remote, unix.IPPROTO_UDP)})
		}
	}
	for _, p := range l.pairs {
		rw.inquirer.lookAtRequests(p, looks[p], now)
	}
}

// countReplies takes how flows of datagrams are answered that are asked about.
func (iq *inquirer) countReplies() {
	now := iq.cfg.Now()
	for _, q := range iq.inquiries.open {
		if q.about != aboutDatagrams || !q.pending() || !iq.members.knows(q.pair) {
			continue
		}
		n, ok, err := q.pair.local.plane.Unanswered(q.pair.remote.UID, q.ports[0], q.ports[1])
		if iq.fault(q.pair.name, err); err == nil {
			q.replies.Counted(iq.params, n, now)
			iq.answer(q, detect.Progress{Open: ok, Waiting: q.replies.Waits(), Acked: q.replies.Answers(),
				Timer: q.replies.Timer(iq.params, now), LastSent: q.replies.Sent()}, now)
		}
	}
}

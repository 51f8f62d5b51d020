package agent

import (
	"fmt"
	"time"
)

// opensElsewhere is in the number of noticeOpen and of its answer, next to takesDSCP: this end lets
// flows of the pair begin on another network while the default one is known to fail. Earlier
// versions take none.
const opensElsewhere = 4

// opening is what is said of that.
func (c Cluster) opening() uint64 {
	if c.OpenElsewhere {
		return opensElsewhere
	}
	return 0
}

// opener has flows begin on another network while the default one is known to fail. Each end
// does so by what it knows itself, and where the other end says that it may.
type opener struct {
	*journal
	members *members
}

// judge tells the data plane whether flows of the pair may begin elsewhere.
func (o *opener) judge(p *pair, now time.Time) {
	may := o.mayOpen(p)
	if may == !p.opening.IsZero() {
		return
	}
	if err := p.local.plane.OpenElsewhere(p.remote.UID, may); err != nil {
		o.fault(p.name, err)
		return
	}
	e := Event{Kind: EventElsewhere, Pair: p.name, By: byPolicy}
	if may {
		p.opening = now
		e.From, e.To = p.routes[0].Network, p.routes[p.routes.at(p.otherPaths(0)[0])].Network
		e.Reason = fmt.Sprintf("%s fails: new flows begin on %s", e.From, e.To)
	} else {
		e.To = p.routes[0].Network
		e.Reason = fmt.Sprintf("new flows begin on %s again, after %v", e.To, now.Sub(p.opening).Round(time.Millisecond))
		p.opening = time.Time{}
	}
	o.note(e)
}

// mayOpen reports whether they may. Where nothing answers on any network, none is known to be
// better.
func (o *opener) mayOpen(p *pair) bool {
	agreed := o.members.Cluster.OpenElsewhere && p.takesOpening && (p.taken || !p.opened.IsZero())
	return agreed && !o.cfg.DryRun && !p.local.DryRun && p.fails(0) && len(p.otherPaths(0)) > 0
}

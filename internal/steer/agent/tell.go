package agent

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
)

// teller says to other agents what they are to know of pairs' flows.
type teller struct {
	*journal
	members *members
	wires   *wires
}

// announce tells where the pair's own flows are.
func (t *teller) announce(p *pair) {
	choices, err := p.local.plane.Choices(p.remote.UID)
	number, numberErr := p.local.plane.Number(p.remote.UID)
	if err != nil || numberErr != nil {
		return
	}
	n := notice{kind: noticeMoved, from: idOf(p.local.Pod), to: idOf(p.remote), names: t.members.dialect(), number: number}
	for b, c := range choices {
		n.choices[b] = noChoice
		for _, r := range p.routes {
			if r.Index == c.Path {
				n.choices[b] = t.number(r.Network)
			}
		}
	}
	p.noticed = t.cfg.Now()
	t.wires.tell(p.host, n, "")
}

// remind is how often the other agent is told again where flows are that are not on
// the default network, or were lately: whatever happened to what was said, both ends
// agree again within that time.
const remind, lately = 500 * time.Millisecond, 10 * time.Second

// settle repeats an announcement until it is confirmed, and then now and then.
func (t *teller) settle(p *pair, now time.Time) {
	if p.assigned != (decide.Assignment{Active: p.routes[0].Network}) {
		p.away = now
	}
	if p.unsettled && now.Sub(p.noticed) >= epoch || now.Sub(p.away) < lately && now.Sub(p.noticed) >= remind {
		t.announce(p)
	}
}

// tellUnpassed tells the agent that decides about the flow's bucket that it does not pass.
func (t *teller) tellUnpassed(p *pair, q *inquiry) {
	i, to := p.lineOf(q.From), p.lineOf(q.On)
	n := notice{kind: noticeUnpassed, from: idOf(p.local.Pod), to: idOf(p.remote), names: t.members.dialect(),
		network: t.number(p.routes[i].Network)}
	for b := range n.choices {
		n.choices[b] = noChoice
	}
	n.choices[q.bucket] = t.number(p.routes[to].Network)
	t.wires.tell(p.host, n, "")
}

// mute says that nothing of the pair arrives over path i.
func (t *teller) mute(p *pair, i int) {
	t.wires.tell(p.host, notice{kind: noticeMute, from: idOf(p.local.Pod), to: idOf(p.remote),
		network: t.number(p.routes[i].Network), names: t.members.dialect()}, "")
}

// failed says that nothing arrives over a path, over the others.
func (t *teller) failed(hp *hostPath) {
	t.wires.tell(hp.host, notice{kind: noticeFailed, from: t.wires.self, to: hp.host.pod, network: t.number(hp.network),
		names: t.members.dialect()}, hp.network)
}

// number is a network's in notices.
func (t *teller) number(network string) uint8 { return uint8(indexOf(t.members.names, network)) }

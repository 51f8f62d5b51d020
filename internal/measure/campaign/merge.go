package campaign

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/explain/limit"
	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/measure/machine"
	"pathwise.dev/pathwise/internal/sample"
)

// message is one line that the part of a run inside a guest tells the outside.
// One field is set, and Stacks together with Profile.
type message struct {
	Machine *machine.Record `json:"machine,omitempty"`
	Event   *bench.Event    `json:"event,omitempty"`
	Footer  *sample.Footer  `json:"footer,omitempty"`
	// Profile and its packed Stacks come before the end of their trial.
	Profile *explain.Record `json:"profile,omitempty"`
	Stacks  []byte          `json:"stacks,omitempty"`
}

// teller writes messages to w.
func teller(w io.Writer) func(message) error {
	enc := json.NewEncoder(w)
	return func(m message) error {
		if err := enc.Encode(m); err != nil {
			return fmt.Errorf("tell the host: %w", err)
		}
		return nil
	}
}

// keeper keeps what a guest tells of its machine and of the insides of its trials, as a
// result does.
type keeper interface {
	Guest(name string, record machine.Record) error
	Profile(p explain.Profile) error
}

// merger takes what the part of a run inside a guest tells into the result.
type merger struct {
	out   keeper
	trial func(sample.Trial) error
	// look reads how the processors of the host's machine are used.
	look  func() (limit.Host, error)
	label string
	watch func(bench.Event)
	fail  context.CancelCauseFunc
	// order is that of the run's last trial.
	order *int

	partial []byte
	// running is the trial in flight, and host the machine when it began; merged counts
	// those that have ended.
	running *sample.Trial
	host    limit.Host
	merged  int
	footer  *sample.Footer
}

// Write implements io.Writer; an error ends the guest too.
func (m *merger) Write(p []byte) (int, error) {
	m.partial = append(m.partial, p...)
	for {
		line, rest, ok := bytes.Cut(m.partial, []byte{'\n'})
		if !ok {
			return len(p), nil
		}
		if err := m.line(line); err != nil {
			m.fail(err)
			return 0, err
		}
		m.partial = rest
	}
}

func (m *merger) line(line []byte) error {
	var msg message
	if err := json.Unmarshal(line, &msg); err != nil {
		return fmt.Errorf("decode what guest %s tells: %w", m.label, err)
	}
	switch {
	case msg.Machine != nil:
		return m.out.Guest(m.label, *msg.Machine)
	case msg.Footer != nil:
		m.footer = msg.Footer
	case msg.Profile != nil:
		return m.profile(msg)
	case msg.Event != nil && msg.Event.Ended:
		m.running = nil
		m.merged++
		if err := m.log(&msg.Event.Trial); err != nil {
			return err
		}
		m.watch(*msg.Event)
	case msg.Event != nil:
		m.running = &msg.Event.Trial
		var err error
		if m.host, err = m.look(); err != nil {
			return err
		}
		m.watch(*msg.Event)
	}
	return nil
}

// log adds a trial that the guest ran, numbered after those of the whole run.
func (m *merger) log(t *sample.Trial) error {
	*m.order++
	t.Order = *m.order
	return m.trial(*t)
}

// profile keeps what was seen inside the trial that is about to end, under the
// number that it will have.
func (m *merger) profile(msg message) error {
	p := explain.Profile{Record: *msg.Profile}
	p.Order = *m.order + 1
	now, err := m.look()
	if err != nil {
		return err
	}
	if p.Limits != nil {
		p.Limits.Host = m.host.Until(now)
	}
	if p.Stacks, err = explain.Unpack("stacks of guest "+m.label, msg.Stacks); err != nil {
		return err
	}
	return m.out.Profile(p)
}

// lost records the trial that a guest took with it when it died.
func (m *merger) lost(why error) error {
	if m.running == nil {
		return nil
	}
	t := *m.running
	t.Status, t.Reason = sample.Failed, bench.Reason(why)
	return m.log(&t)
}

package agent

import (
	"context"
	"io"

	"pathwise.dev/pathwise/internal/steer/decide"
)

// recorder writes down what decisions were made on, apart from who decides: a disk may be
// slow.
type recorder struct {
	*journal
	out  io.Writer // nil: nobody wants it
	todo chan decide.Record
}

// recordsMost is how many records wait to be written. Further ones are lost.
const recordsMost = 4096

func newRecorder(j *journal) *recorder {
	return &recorder{journal: j, out: j.cfg.Evidence, todo: make(chan decide.Record, recordsMost)}
}

// add hands over a record.
func (r *recorder) add(rec decide.Record) {
	if r.out == nil {
		return
	}
	select {
	case r.todo <- rec:
	default:
		r.warn("record evidence: the disk is too slow: some is lost")
	}
}

// run writes until ctx ends, and what is left by then; or until one cannot be written.
func (r *recorder) run(ctx context.Context) error {
	var err error
	write := func(rec decide.Record) {
		if err != nil {
			return
		}
		if err = decide.WriteRecord(r.out, rec); err != nil {
			r.warn("record evidence: %v", err)
		}
	}
	for {
		select {
		case rec := <-r.todo:
			write(rec)
		case <-ctx.Done():
			for len(r.todo) > 0 {
				write(<-r.todo)
			}
			return nil
		}
	}
}

package main

import (
	"fmt"

	"pathwise.dev/pathwise/internal/measure/experiment"
)

// chooseServer sets the server of --server in all entries that have a choice.
func chooseServer(e env, exp *experiment.Experiment, server string) error {
	chosen := false
	for i := range exp.Entries {
		w, err := e.workload(exp.Entries[i].Find())
		if err != nil {
			return err
		}
		if w.Info().Server != "" {
			exp.Entries[i].Server, chosen = server, true
		}
	}
	if !chosen {
		return usageError{fmt.Errorf("--server: no workload of experiment %s has a choice of one", exp.Name)}
	}
	return nil
}

// adjust lets flags replace what the experiment says.
func (f benchFlags) adjust(e env, exp *experiment.Experiment) error {
	if f.repetitions < 0 || f.repetitions > experiment.MostRepetitions {
		return usageError{fmt.Errorf("--repetitions %d: expected 1 to %d", f.repetitions, experiment.MostRepetitions)}
	}
	if f.repetitions > 0 {
		exp.Repeat.Exactly(f.repetitions)
	}
	if len(f.families) > 0 {
		var err error
		if *exp, err = exp.Over(f.families); err != nil {
			return usageError{fmt.Errorf("--family: %w", err)}
		}
	}
	if f.server == "" {
		return nil
	}
	return chooseServer(e, exp, f.server)
}

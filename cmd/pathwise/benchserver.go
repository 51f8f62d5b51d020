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
	if err := f.adjustTimes(e, exp); err != nil {
		return usageError{err}
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

// adjustTimes sets the time that each trial measures, and what the run may take.
func (f benchFlags) adjustTimes(e env, exp *experiment.Experiment) error {
	if f.budget != 0 {
		if f.budget < experiment.LeastBudget || f.budget > experiment.MostBudget {
			return fmt.Errorf("--budget %v: expected %v to %v", f.budget, experiment.LeastBudget, experiment.MostBudget)
		}
		exp.Budget = f.budget
	}
	if f.duration == 0 {
		return nil
	}
	if f.duration < experiment.LeastDuration || f.duration > experiment.MostDuration {
		return fmt.Errorf("--duration %v: expected %v to %v", f.duration, experiment.LeastDuration, experiment.MostDuration)
	}
	for i := range exp.Entries {
		w, err := e.workload(exp.Entries[i].Find())
		if err != nil {
			return err
		}
		if least := w.Info().MinDuration; f.duration < least {
			return fmt.Errorf("--duration %v: workload %s needs %v at least", f.duration, exp.Entries[i].Workload, least)
		}
		exp.Entries[i].Window.Duration = f.duration
	}
	return nil
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pathwise.dev/pathwise/experiments"
	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/measure/workload"
)

// read reads the experiment's file once: it may be a pipe. Where a result goes on, it is
// the result's.
func (f *benchFlags) read() error {
	if f.text != nil {
		return nil
	}
	if f.resume {
		if f.out == "" {
			return usageError{errors.New("bench --resume: expected --out DIR alone: the result says what to run")}
		}
		f.experiment = filepath.Join(f.out, result.ExperimentFile)
		if err := begun("bench", f.out, f.experiment); err != nil {
			return err
		}
	}
	var err error
	f.text, err = readFile(f.experiment)
	return err
}

// begun refuses to go on in a directory without the file that says what is run.
func begun(command, dir, file string) error {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return usageError{fmt.Errorf("%s --resume: %s holds no result: expected the --out DIR of a run that was begun",
			command, dir)}
	}
	return nil
}

// readFile reads an experiment's file, or a shipped one of that name.
func readFile(name string) ([]byte, error) {
	file, err := openExperiment(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostExperiment))
	if err != nil {
		return nil, fmt.Errorf("read experiment: %w", err)
	}
	return text, nil
}

// mostExperiment bounds what is read of an experiment's file, in bytes: more than any parser
// takes, so that it says so.
const mostExperiment = 2 << 20

// readExperiment reads the experiment that the flags name.
func readExperiment(e env, f benchFlags) (experiment.Experiment, error) {
	if err := f.read(); err != nil {
		return experiment.Experiment{}, err
	}
	exp, err := experiment.Parse(f.experiment, bytes.NewReader(f.text), e.catalogue())
	if err != nil {
		return exp, err
	}
	for _, name := range f.networks {
		if _, err := catalogue.Find(name); err != nil {
			return exp, usageError{fmt.Errorf("--networks: %w", err)}
		}
	}
	for _, name := range f.workloads {
		if _, err := e.workload(name); err != nil {
			return exp, usageError{fmt.Errorf("--workloads: %w", err)}
		}
	}
	if exp, err = exp.Only(f.networks, f.workloads); err != nil {
		return exp, usageError{err}
	}
	err = f.adjust(e, &exp)
	return exp, err
}

// catalogue answers an experiment's file what there is to measure.
func (e env) catalogue() experiment.Catalogue {
	return experiment.Catalogue{
		Network: func(name string) error { _, err := catalogue.Find(name); return err },
		Kernel:  checkKernel,
		Workload: func(name string) (workload.Info, error) {
			w, err := e.workload(name)
			if err != nil {
				return workload.Info{}, err
			}
			return w.Info(), nil
		},
	}
}

// openExperiment opens a file, or a shipped experiment of that name.
func openExperiment(name string) (fs.File, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "/.") {
		if near := config.Nearest(name, experiments.Names()); near != "" && !slices.Contains(experiments.Names(), name) {
			return nil, fmt.Errorf("no file and no shipped experiment %q: did you mean %q? \"pathwise experiments\" lists all",
				name, near)
		}
		return experiments.Open(name)
	}
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	return f, nil
}

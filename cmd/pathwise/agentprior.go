package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"pathwise.dev/pathwise/internal/steer/kube/trial"
	"pathwise.dev/pathwise/internal/steer/prior"
)

// readPrior reads what a bench promises, where flags name one. A file of a cluster that is not there says nothing.
func readPrior(f agentFlags) (p prior.Prior, err error) {
	if f.prior != "" {
		raw, err := os.ReadFile(f.prior)
		if errors.Is(err, os.ErrNotExist) {
			return p, nil
		} else if err != nil {
			return p, fmt.Errorf("read prior: %w", err)
		}
		if p, err = prior.Decode(raw); err != nil {
			return p, fmt.Errorf("read prior %s: %w", f.prior, err)
		}
		return p, nil
	}
	if f.table == "" {
		if f.policy == "table" {
			return p, usageError{errors.New("agent: --policy table needs --table DIR, the result of a bench")}
		}
		return p, nil
	}
	return priorOf(f.table)
}

// priorOf is what the result of a bench promises.
func priorOf(dir string) (p prior.Prior, err error) {
	in, err := openResult(dir)
	if err != nil {
		return p, err
	}
	if p, err = prior.Of(in.Results.Trials); err != nil {
		return p, fmt.Errorf("%s: %w", dir, err)
	}
	return p, nil
}

// encodePrior writes what the result of a bench on a cluster promises for its agents.
func encodePrior(dir string) ([]byte, error) {
	p, err := priorOf(dir)
	if err != nil {
		return nil, err
	}
	raw, err := p.Encode(func(network string) bool { return network == trial.Default || strings.Contains(network, "/") })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return raw, nil
}

func randomSeed() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("draw seed: %w", err)
	}
	return binary.NativeEndian.Uint64(b[:])>>1 | 1, nil
}

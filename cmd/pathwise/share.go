package main

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/steer/decide"
)

// onOff are the values of --share.
func onOff() []string { return []string{"on", "off"} }

// checkShare checks --share.
func checkShare(value string) error {
	if !slices.Contains(onOff(), value) {
		return usageError{fmt.Errorf("--share %q: expected on or off", value)}
	}
	return nil
}

// sharing is the policy as --share has it: only that which agents use knows of it.
func sharing(p decide.Policy, value string) decide.Policy {
	if c, ok := p.(decide.CostAware); ok {
		return c.WithShare(value == "on")
	}
	return p
}

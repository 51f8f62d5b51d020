package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/campaign"
)

// kernels knows on which kernel a network works here.
func (e env) kernels() *campaign.Kernels {
	return campaign.NewKernels(network.NewMachine(lab.DefaultCNIPath(e.self)), campaign.Guests{
		Place: e.guestPlace(), Config: e.guestConfig, Ready: e.guestReady, Cache: e.cacheDir(), Log: e.stderr,
	})
}

// cacheDir is where answers are kept; "" where the user has no home.
func (e env) cacheDir() string {
	if dir := e.getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "pathwise")
	}
	home := e.getenv("HOME")
	if st, err := os.Stat(home); err != nil || !st.IsDir() {
		return ""
	}
	return filepath.Join(home, ".cache", "pathwise")
}

// kernelNames are the values of --kernel.
func kernelNames() []string { return append([]string{campaign.Auto, guest.Host}, guest.Names()...) }

// checkKernel returns an error for a name that is no kind of kernel.
func checkKernel(name string) error {
	if names := kernelNames()[1:]; !slices.Contains(names, name) {
		return fmt.Errorf("unknown kernel %q: expected one of %s", name, strings.Join(names, ", "))
	}
	return nil
}

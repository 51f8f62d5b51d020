package main

import (
	"fmt"
	"os"

	"pathwise.dev/pathwise/internal/lab/capability"
)

// needRoot returns why this process may not do what; why says what root is for.
func needRoot(what, why string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s root %s: run as root, for example with sudo", what, why)
	}
	if lacks := capability.Lacking(); lacks != "" {
		return fmt.Errorf("%s root %s, and root lacks %s here: %s", what, why, lacks, capability.Grant)
	}
	return nil
}

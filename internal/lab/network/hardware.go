package network

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// PhysicalFunctions returns, by name, the network devices whose card can be split
// into virtual functions, as sysfs at root (/sys) shows them. It shows those of
// the namespace in which it was mounted.
func PhysicalFunctions(root string) []string {
	files, err := filepath.Glob(filepath.Join(root, "class/net/*/device/sriov_totalvfs"))
	if err != nil {
		return nil // the pattern is a constant that is well formed
	}
	var out []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // the device has just gone
		}
		if n, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil && n > 0 {
			out = append(out, filepath.Base(filepath.Dir(filepath.Dir(file))))
		}
	}
	return out
}

package guest

import (
	"path/filepath"
	"strings"

	"pathwise.dev/pathwise/internal/lab"
)

// mostConsole is how much of a console's end is looked at, in bytes: a panic's call
// trace is some kB.
const mostConsole = 1 << 20

// lastWords is what the guest's console said at its end, as a clause for an
// error; "" where it said nothing.
func lastWords(dir string) string {
	raw, err := lab.EndOf(filepath.Join(dir, consoleFile), mostConsole)
	if err != nil {
		return ""
	}
	var lines []string
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" && !noise(line) {
			lines = append(lines, line)
		}
	}
	// A panic's reason is above its call trace.
	for i, line := range lines {
		if strings.Contains(line, "Kernel panic") {
			lines = lines[max(0, i-1) : i+1]
			break
		}
	}
	const most = 3
	text := strings.Join(lines[max(0, len(lines)-most):], "; ")
	if text == "" {
		return ""
	}
	const long = 400
	if len(text) > long {
		text = "..." + text[len(text)-long:]
	}
	return "; its console says: " + text
}

// noise is what every boot of User-mode Linux 6.1 says.
func noise(line string) bool {
	for _, s := range []string{"SELinux: ", "mmapper_init", "Failed to initialize ubd device", "Core dump limits",
		"Checking ", "reboot: "} {
		if strings.HasPrefix(line, s) {
			return true
		}
	}
	return false
}

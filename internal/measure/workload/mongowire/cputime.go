package mongowire

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used.
func cpuTime() (user, system time.Duration) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0 // it fails for a wrong pointer alone
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
}

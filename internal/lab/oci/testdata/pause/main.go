// Command pause replaces pathwise in the tests of package oci: it answers
// to "generate pause" alone.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != "generate" || os.Args[2] != "pause" {
		os.Exit(2)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
}

// Package drawn gives tests the random numbers from which they draw pipelines and packets,
// new ones in each run, and the same again where one is told to. It is for tests alone:
// what users draw from is given by --seed.
package drawn

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Random are numbers from the seed PATHWISE_SEED, or from a new one, which is logged.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("PATHWISE_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("PATHWISE_SEED=%s: expected a number", v)
		}
		seed = n
	}
	t.Logf("PATHWISE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// Number is how many of something a test draws: that of the environment, or the usual one.
func Number(t testing.TB, name string, usual int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return usual
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: expected a number above 0", name, v)
	}
	return n
}

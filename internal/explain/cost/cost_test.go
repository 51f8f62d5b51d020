package cost

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

const stat = `cpu  100 20 30 4000 50 6 70 8 9 1
cpu0 50 10 15 2000 25 3 35 4 4 0
cpu1 50 10 15 2000 25 3 35 4 5 1
intr 12345 0 0
`

// snapshot reads the text of a /proc/stat.
func snapshot(t *testing.T, text string) (Snapshot, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := read(dir)
	s.At = time.Time{}
	return s, err
}

func TestReadsModes(t *testing.T) {
	s, err := snapshot(t, stat)
	core := Snapshot{User: 0.6, System: 0.15, Idle: 20.25, IRQ: 0.03, SoftIRQ: 0.35, Steal: 0.04, Cores: 1}
	want := Snapshot{User: 1.2, System: 0.3, Idle: 40.5, IRQ: 0.06, SoftIRQ: 0.7, Steal: 0.08, Cores: 2,
		PerCore: []Snapshot{core, core}}
	if err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, bad := range []string{"", strings.Replace(stat, "100", "x", 1),
		strings.Replace(stat, "cpu ", "xpu ", 1)} {
		if _, err := snapshot(t, bad); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestPerCore(t *testing.T) {
	before, err := snapshot(t, stat)
	if err != nil {
		t.Fatal(err)
	}
	after, err := snapshot(t, strings.Replace(stat, "cpu1 50", "cpu1 150", 1))
	if err != nil {
		t.Fatal(err)
	}
	got, err := PerCore(before, after)
	if want := []sample.CPU{{Cores: 1}, {User: 1, Cores: 1}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := PerCore(Snapshot{}, after); err == nil {
		t.Error("compared machines of different size")
	}
}

func TestNetSubtractsTheIdleMachine(t *testing.T) {
	used := sample.CPU{User: 1, System: 2, SoftIRQ: 0.1, Idle: 3, Cores: 2}
	idle := sample.CPU{User: 0.1, SoftIRQ: 0.1, Idle: 1.8, Cores: 2}
	got := Net(used, 4*time.Second, idle, time.Second)
	if math.Abs(got.User-0.6) > 1e-12 || got.SoftIRQ != 0 || got.System != 2 || got.Idle != 3 {
		t.Errorf("got %+v", got)
	}
	if Net(used, time.Second, idle, 0) != used {
		t.Error("without an idle window nothing is subtracted")
	}
}

func TestReadCountsABusyCore(t *testing.T) {
	a, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
	}
	b, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	used := Between(a, b)
	if used.Busy() < 0.2 || used.Cores < 1 {
		t.Errorf("300 ms of work cost %+v", used)
	}
}

package explain

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestFoldedRoundTrip(t *testing.T) {
	in := []Stack{
		{CPU: 0, Context: SoftIRQ, Place: ServerHost, Process: "iperf3", Frames: []string{"handle_softirqs", "net_rx_action"},
			Count: 12},
		{CPU: 3, Context: User, Place: Client, Process: "iperf3", Count: 1},
	}
	packed, err := Pack(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Unpack("x", packed); err != nil || !reflect.DeepEqual(got, in) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := Unpack("x", []byte("plain text")); err == nil {
		t.Error("unpacked what is no gzip")
	}
}

// TestFoldedNames: a process may call itself anything.
func TestFoldedNames(t *testing.T) {
	var out bytes.Buffer
	if err := WriteFolded(&out, []Stack{{Context: User, Place: Outside, Process: "a b;c\n\xff", Count: 2},
		{Context: User, Place: Outside, Count: 1}}); err != nil {
		t.Fatal(err)
	}
	if want := "cpu0;user;outside;a_b_c__ 2\ncpu0;user;outside;_ 1\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	if err := WriteFoldedUnder(&out, "vxlan;q",
		[]Stack{{CPU: 1, Context: System, Place: Client, Process: "p", Frames: []string{"f"}, Count: 3}}); err != nil {
		t.Fatal(err)
	}
	if want := "vxlan;q;system;client;p;f 3\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestReadFoldedRefuses(t *testing.T) {
	for _, bad := range []string{
		"cpu0;user;client;p", "cpu0;user;client 1", "cpu0;user;client;p 0", "cpu0;user;client;p -1", "cpu0;user;client;p x",
		"cpu;user;client;p 1", "0;user;client;p 1", "cpu0;nap;client;p 1", "cpu0;user;mars;p 1",
		"cpu0;user;client;p;;f 1", "",
	} {
		_, err := ReadFolded("x", strings.NewReader("cpu0;user;client;p 1\n"+bad+"\n"))
		if err == nil || !strings.HasPrefix(err.Error(), "x:2: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzReadFolded(f *testing.F) {
	f.Add("cpu0;softirq;server-host;iperf3;handle_softirqs;net_rx_action 12\ncpu1;user;client;iperf3 1\n")
	f.Add("cpu0;idle;outside;swapper/0;do_idle 5")
	f.Fuzz(func(t *testing.T, text string) {
		stacks, err := ReadFolded("x", strings.NewReader(text))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteFolded(&out, stacks); err != nil {
			t.Fatal(err)
		}
		again, err := ReadFolded("x", &out)
		if err != nil || len(again) != len(stacks) {
			t.Errorf("%q: wrote what cannot be read: %v", text, err)
		}
	})
}

// FuzzUnpack: what a small file unpacks to is bounded, and errors name the file.
func FuzzUnpack(f *testing.F) {
	packed, err := Pack([]Stack{{Context: SoftIRQ, Place: Server, Process: "p", Frames: []string{"f", "g"}, Count: 7}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add(packed[:len(packed)/2])
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, packed []byte) {
		stacks, err := Unpack("f", packed)
		if err != nil {
			if !strings.Contains(err.Error(), "f:") {
				t.Errorf("error without a place: %v", err)
			}
			return
		}
		again, err := Pack(stacks)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := Unpack("f", again); err != nil || len(same) != len(stacks) {
			t.Errorf("%d stacks came back as %d: %v", len(stacks), len(same), err)
		}
	})
}

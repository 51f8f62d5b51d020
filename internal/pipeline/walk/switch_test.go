package walk_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ports of a switch's bridge, numbered from 1.
const ports = 9

// aSwitch is a real ovs-vswitchd with a dummy datapath, which touches no interface of the
// machine, and its bridge br0 with the ports 1 to 9.
type aSwitch struct {
	t      *testing.T
	dir    string
	socket string
	// bridge is the one that ofctl is about.
	bridge string
	// control is where commands are given, answers what comes back.
	control net.Conn
	answers *json.Decoder
	// lenient: that the switch comes to its end is told by a panic with ended.
	lenient bool
}

// ended is that a switch has come to its end, with the last that it wrote to its log.
type ended struct{ log string }

// newSwitch starts one, or skips the test where there is no Open vSwitch.
func newSwitch(t *testing.T) *aSwitch {
	t.Helper()
	for _, name := range []string{"ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s", name)
		}
	}
	const schema = "/usr/share/openvswitch/vswitch.ovsschema"
	if _, err := os.Stat(schema); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "walk") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	s := &aSwitch{t: t, dir: dir, socket: filepath.Join(dir, "ctl"), bridge: "br0"}
	t.Cleanup(func() { os.RemoveAll(dir) })
	db := "unix:" + filepath.Join(dir, "db.sock")
	s.run("ovsdb-tool", "create", filepath.Join(dir, "conf.db"), schema)
	s.start("ovsdb-server", filepath.Join(dir, "conf.db"), "--remote=p"+db, "--unixctl="+filepath.Join(dir, "dbctl"))
	s.run("ovs-vsctl", "--db="+db, "--no-wait", "init")
	s.start("ovs-vswitchd", db, "--enable-dummy", "--disable-system", "--disable-system-route", "--unixctl="+s.socket)
	args := []string{"--db=" + db, "--timeout=20", "add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=dummy",
		"fail_mode=secure", "protocols=[OpenFlow10,OpenFlow13,OpenFlow15]"}
	for i := 1; i <= ports; i++ {
		port := fmt.Sprintf("p%d", i)
		args = append(args, "--", "add-port", "br0", port, "--", "set", "Interface", port, "type=dummy",
			fmt.Sprintf("ofport_request=%d", i))
	}
	s.run("ovs-vsctl", args...)
	return s
}

func (s *aSwitch) env() []string {
	return append(os.Environ(), "OVS_RUNDIR="+s.dir, "OVS_LOGDIR="+s.dir, "OVS_DBDIR="+s.dir)
}

func (s *aSwitch) run(name string, args ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), name, args...)
	cmd.Env = s.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// start runs a daemon until the test is over, and waits for its socket.
func (s *aSwitch) start(name string, args ...string) {
	s.t.Helper()
	// A trace has no limit of passes: one that is never done with ends here, not when the machine's memory does.
	const limit = `ulimit -v 6000000; exec "$@"`
	args = append(args, "--log-file="+filepath.Join(s.dir, name+".log"), "-vconsole:off")
	cmd := exec.Command("sh", append([]string{"-c", limit, "sh", name}, args...)...)
	cmd.Env = s.env()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	socket := s.socket
	if name == "ovsdb-server" {
		socket = filepath.Join(s.dir, "db.sock")
	}
	for {
		if _, err := os.Stat(socket); err == nil {
			return
		}
		select {
		case <-s.t.Context().Done():
			s.t.Fatalf("%s does not come up", name)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ofctl runs ovs-ofctl with lines as its file.
func (s *aSwitch) ofctl(command string, lines []string) {
	s.t.Helper()
	s.speak("OpenFlow15", command, lines)
}

// speak is ofctl by a version of the protocol.
func (s *aSwitch) speak(version, command string, lines []string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "lines")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), "ovs-ofctl", "-O", version, command,
		"unix:"+filepath.Join(s.dir, s.bridge+".mgmt"), file)
	cmd.Env = s.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("ovs-ofctl %s: %v: %s %s of:\n%s", command, err, out, s.log(), strings.Join(lines, "\n"))
	}
}

// log is the end of the switch's.
func (s *aSwitch) log() []byte {
	log, _ := os.ReadFile(filepath.Join(s.dir, "ovs-vswitchd.log"))
	return log[max(0, len(log)-1500):]
}

// trace is what ofproto/trace says.
func (s *aSwitch) trace(args ...string) string {
	s.t.Helper()
	return s.appctl("ofproto/trace", append([]string{"br0"}, args...)...)
}

// appctl is what the switch answers to a command.
func (s *aSwitch) appctl(command string, args ...string) string {
	s.t.Helper()
	result, failure, err := s.ask(command, args)
	if err != nil { // the switch may have come to its end
		if s.lenient && s.t.Context().Err() == nil {
			panic(ended{string(s.log())})
		}
		s.t.Fatalf("%s %q: %v: %s", command, args, err, s.log())
	}
	if failure != nil {
		s.t.Fatalf("%s %q: %v", command, args, failure)
	}
	return result
}

// ask gives the switch a command by the connection that is kept for all of them, as a new one for each
// takes as long as a trace.
func (s *aSwitch) ask(command string, args []string) (result string, failure any, err error) {
	if s.control == nil {
		if s.control, err = net.Dial("unix", s.socket); err != nil {
			return "", nil, err
		}
		s.t.Cleanup(func() { s.control.Close() })
		s.answers = json.NewDecoder(s.control)
	}
	ask := map[string]any{"id": 0, "method": command, "params": append([]string{}, args...)}
	if err := json.NewEncoder(s.control).Encode(ask); err != nil {
		return "", nil, err
	}
	var answer struct {
		Result string
		Error  any
	}
	err = s.answers.Decode(&answer)
	return answer.Result, answer.Error, err
}

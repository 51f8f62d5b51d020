package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// TestOpenSSH: ssh, scp and rsync set a DSCP once they are logged in (ssh_config(5),
// IPQoS): what they carry goes where the pair is, and nothing but handshakes by its default
// network.
func TestOpenSSH(t *testing.T) {
	b := newBed(t, "t-ssh", "routed-bgp", "vxlan")
	b.start("h1", nil)
	b.start("h2", nil)
	b.carried("routed-bgp")
	b.await("the pair to open", func() bool { return b.agents["h1"].opened("a", "b") })
	b.move("vxlan")
	dir, to := b.sshd("b"), b.pod("b").Addr().String()
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 30<<20)); err != nil {
		t.Fatal(err)
	}
	how := fmt.Sprintf("-oPort=2222 -oIdentityFile=%s/key -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -oLogLevel=ERROR", dir)
	for name, script := range map[string]string{
		"ssh":        fmt.Sprintf("ssh %s root@%s 'cat > /dev/null' < %s", how, to, file),
		"ssh, back":  fmt.Sprintf("ssh %s root@%s 'cat %s' | cmp - %s", how, to, file, file),
		"scp":        fmt.Sprintf("scp -q %s %s root@%s:%s.scp", how, file, to, file),
		"rsync":      fmt.Sprintf("rsync -e 'ssh %s' --inplace --whole-file %s root@%s:%s.rsync", how, file, to, file),
		"scp, DSCP":  fmt.Sprintf("scp -q %s -oIPQoS=cs2 root@%s:%s %s.back", how, to, file, file),
		"ssh, lower": fmt.Sprintf("ssh %s '-oIPQoS=af11 af12' root@%s 'cat > /dev/null' < %s", how, to, file),
	} {
		b.within(name, func() {
			a, z := b.agents["h1"], b.agents["h2"]
			var before, after [4]uint64
			count := func(n *[4]uint64) {
				n[0], n[1] = a.tallies("a", "b", "vxlan")
				n[2], _ = a.tallies("a", "b", "routed-bgp")
				n[3], _ = z.tallies("b", "a", "routed-bgp")
			}
			count(&before)
			b.run(b.pod("a"), "sh", "-c", script)
			count(&after)
			there, native := after[0]-before[0]+after[1]-before[1], after[2]-before[2]+after[3]-before[3]
			if there < 10_000 || native > 200 {
				b.t.Errorf("%d packets over vxlan, %d over the default network; %+v", there, native,
					a.pair("a", "b").local.plane.Events())
			}
			b.t.Logf("%d packets over vxlan, %d over the default network", there, native)
		})
	}
}

// sshd runs OpenSSH's server in a pod, and returns where its key for root is.
func (b *bed) sshd(pod string) (dir string) {
	b.t.Helper()
	dir = b.t.TempDir()
	for _, key := range []string{"host", "key"} {
		cmd := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key))
		if out, err := cmd.CombinedOutput(); err != nil {
			b.t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.Mkdir("/run/sshd", 0o755); err == nil {
		b.t.Cleanup(func() { os.Remove("/run/sshd") })
	} else if !errors.Is(err, fs.ErrExist) {
		b.t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-p", "2222", "-h", dir+"/host",
		"-oStrictModes=no",
		"-oAuthorizedKeysFile="+dir+"/key.pub", "-oPermitRootLogin=yes", "-oPidFile=none", "-oUsePAM=no",
		"-oSubsystem=sftp internal-sftp",
		"-oListenAddress="+b.pod(pod).Addr().String())
	cmd.Stderr, cmd.SysProcAttr = &said, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := netns.Start(b.pod(pod).Netns, cmd); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			b.t.Error(err)
		}
		_ = cmd.Wait() // it says how it was ended
		if b.t.Failed() {
			b.t.Log(said.String())
		}
	})
	time.Sleep(300 * time.Millisecond) // it listens
	return dir
}

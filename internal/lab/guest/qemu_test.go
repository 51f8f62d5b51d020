package guest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestQEMUArguments(t *testing.T) {
	c := Config{Self: "/x/pathwise", Memory: 1 << 30, Kernel: Kernel{Name: QEMU, How: emulation, Image: "/k/vmlinuz-6"}}
	got := strings.Join(qemuArguments(c, []string{"control", "root"}), " ")
	for _, want := range []string{"-accel tcg", "-m 1024M", "size=1024M,share=on", "path=root.sock", "tag=control",
		"-kernel /k/vmlinuz-6",
		"PATHWISE_GUEST=virtiofs,control " + InitArgument} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	c.Kernel.How = "KVM"
	if got := strings.Join(qemuArguments(c, nil), " "); !strings.Contains(got, "-accel kvm -cpu host") {
		t.Errorf("with KVM: %s", got)
	}
}

// TestListenInAnyDirectory: the path of a guest's directory may be too long for a
// socket's.
func TestListenInAnyDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := listenIn(dir, "root.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if st, err := os.Stat(filepath.Join(dir, "root.sock")); err != nil || st.Mode()&os.ModeSocket == 0 {
		t.Errorf("got %v %v", st, err)
	}
}

func TestLabel(t *testing.T) {
	for want, k := range map[string]Kernel{
		"uml-6.1.176":         {Name: UML, Release: "6.1.176", How: "a process"},
		"qemu-6.1.0":          {Name: QEMU, Release: "6.1.0", How: "KVM"},
		"qemu-6.1.0-emulated": {Name: QEMU, Release: "6.1.0", How: emulation},
	} {
		if got := k.Label(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestLoadOrder(t *testing.T) {
	dir := t.TempDir()
	dep := "kernel/fs/fuse/virtiofs.ko: kernel/fs/fuse/fuse.ko kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko\n" +
		"kernel/fs/fuse/fuse.ko:\nkernel/drivers/virtio/virtio-ring.ko: kernel/drivers/virtio/virtio.ko\nkernel/fs/overlayfs/overlay.ko.xz:\n"
	if err := os.WriteFile(filepath.Join(dir, "modules.dep"), []byte(dep), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := loadOrder(dir, []string{"virtio_pci", "virtiofs", "overlay"})
	want := []string{"kernel/drivers/virtio/virtio.ko", "kernel/drivers/virtio/virtio_ring.ko", "kernel/fs/fuse/fuse.ko",
		"kernel/fs/fuse/virtiofs.ko", "kernel/fs/overlayfs/overlay.ko.xz"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := loadOrder(t.TempDir(), nil); err == nil {
		t.Error("modules without modules.dep")
	}
}

// TestInitramfs reads back what was packed.
func TestInitramfs(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "overlay.ko")
	for name, text := range map[string]string{"modules.dep": "overlay.ko:\n", "overlay.ko": "module"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := initramfs(&bytes.Buffer{}, self, dir); err == nil {
		t.Error("an init that is no program")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := initramfs(&out, exe, dir); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, out.Bytes())
	if want, _ := os.ReadFile(exe); !bytes.Equal(files["init"], want) {
		t.Errorf("init has %d bytes, want %d", len(files["init"]), len(want))
	}
	if string(files["overlay.ko"]) != "module" || string(files["pathwise-modules"]) != "/overlay.ko\n" {
		t.Errorf("modules: %q %q", files["overlay.ko"], files["pathwise-modules"])
	}
	if _, ok := files["TRAILER!!!"]; !ok {
		t.Error("no end")
	}
}

// unpack reads a cpio archive.
func unpack(t *testing.T, raw []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	number := func(at int) int {
		n, err := strconv.ParseInt(string(raw[at:at+8]), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	for len(raw) > 110 {
		if string(raw[:6]) != "070701" {
			t.Fatalf("bad magic %q", raw[:6])
		}
		size, name := number(6+6*8), number(6+11*8)
		body := (110 + name + 3) &^ 3
		out[string(raw[110:110+name-1])] = raw[body : body+size]
		raw = raw[(body+size+3)&^3:]
	}
	return out
}

func TestFindKernelWantsItsModules(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "pathwise")
	image := filepath.Join(dir, "guest/boot/vmlinuz-6.1.0-1-test")
	modules := filepath.Join(dir, "guest/lib/modules/6.1.0-1-test")
	for _, d := range []string{filepath.Dir(image), modules} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(image, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := findKernel(Place{Self: self}); got == image {
		t.Error("a kernel without modules")
	}
	if err := os.WriteFile(filepath.Join(modules, "modules.dep"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got, release, at := findKernel(Place{Self: self})
	if got != image || release != "6.1.0-1-test" || at != modules {
		t.Errorf("got %s %s %s", got, release, at)
	}
	other := func(name string) string { return map[string]string{kernelVariable: image}[name] }
	if got, _, _ := findKernel(Place{Self: "/nowhere/pathwise", Getenv: other}); got != image {
		t.Errorf("got %s", got)
	}
}

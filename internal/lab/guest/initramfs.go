package guest

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// moduleList is where an initramfs lists the modules to load, in this order.
const moduleList = "/pathwise-modules"

// initramfs writes the file system that a virtual machine's kernel starts with:
// the executable as init, and the modules without which it cannot reach the
// host's files.
func initramfs(w io.Writer, self, modules string) error {
	a := &archive{w: w, made: map[string]bool{}}
	if err := a.copy("/init", self); err != nil {
		return err
	}
	libraries, err := librariesOf(self)
	if err != nil {
		return err
	}
	for _, path := range libraries {
		if err := a.copy(path, path); err != nil {
			return err
		}
	}
	var list strings.Builder
	files, err := loadOrder(modules, []string{"virtio_pci", "virtiofs", "overlay"})
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := a.copy("/"+filepath.Base(f), filepath.Join(modules, f)); err != nil {
			return err
		}
		fmt.Fprintln(&list, "/"+filepath.Base(f))
	}
	if err := a.file(moduleList, 0o644, []byte(list.String())); err != nil {
		return err
	}
	return a.end()
}

// archive is a cpio archive in the format "newc" of the kernel's
// driver-api/early-userspace/buffer-format.rst.
type archive struct {
	w     io.Writer
	inode int
	made  map[string]bool
}

func (a *archive) copy(at, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("build initramfs: %w", err)
	}
	return a.file(at, 0o755, content)
}

// file adds a file, and the directories that it needs.
func (a *archive) file(path string, mode uint32, content []byte) error {
	for i := 1; i < len(path); i++ {
		if dir := path[:i]; path[i] == '/' && !a.made[dir] {
			a.made[dir] = true
			if err := a.entry(dir, unix.S_IFDIR|0o755, nil); err != nil {
				return err
			}
		}
	}
	return a.entry(path, unix.S_IFREG|mode, content)
}

func (a *archive) end() error { return a.entry("/TRAILER!!!", 0, nil) }

func (a *archive) entry(path string, mode uint32, content []byte) error {
	a.inode++
	name := strings.TrimPrefix(path, "/")
	var b bytes.Buffer
	b.WriteString("070701")
	for _, v := range []int{a.inode, int(mode), 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0} {
		fmt.Fprintf(&b, "%08X", v)
	}
	b.WriteString(name + "\x00")
	pad(&b)
	b.Write(content)
	pad(&b)
	if _, err := a.w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write initramfs: %w", err)
	}
	return nil
}

func pad(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}

// librariesOf lists the files that a program which is not static cannot start
// without: its loader, and libraries where Debian keeps them.
func librariesOf(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close()
	var out []string
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			raw, err := io.ReadAll(p.Open())
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", path, err)
			}
			out = append(out, strings.TrimRight(string(raw), "\x00"))
		}
	}
	names, err := f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	for _, name := range names {
		for _, dir := range []string{"/lib/x86_64-linux-gnu", "/lib64", "/lib"} {
			if lib := filepath.Join(dir, name); exists(lib) {
				out = append(out, lib)
				break
			}
		}
	}
	return out, nil
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// loadOrder lists the files of modules and of what they depend on, in the order
// in which they can be loaded. One that is not among the kernel's modules is
// taken for built in.
func loadOrder(modules string, names []string) ([]string, error) {
	raw, err := os.ReadFile(filepath.Join(modules, "modules.dep"))
	if err != nil {
		return nil, fmt.Errorf("read the order of modules: %w", err)
	}
	var out []string
	seen := map[string]bool{}
	for _, name := range names {
		for line := range strings.Lines(string(raw)) {
			file, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
			if moduleName(file) != name {
				continue
			}
			// modules.dep(5): what is last is needed first.
			needs := append([]string{file}, strings.Fields(rest)...)
			for i := len(needs) - 1; i >= 0; i-- {
				if !seen[needs[i]] {
					seen[needs[i]] = true
					out = append(out, needs[i])
				}
			}
		}
	}
	return out, nil
}

// moduleName is virtio_pci for kernel/drivers/virtio/virtio_pci.ko.xz.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// leaveInitramfs loads the initramfs's modules and makes the host's root the
// root; it does nothing where there is no initramfs.
func leaveInitramfs() error {
	raw, err := os.ReadFile(moduleList)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read list of modules: %w", err)
	}
	for _, path := range strings.Fields(string(raw)) {
		if err := loadFile(path); err != nil {
			return err
		}
	}
	const root = "/host"
	if err := try(mount{Source: rootTag, Target: root, Type: "virtiofs", Flags: unix.MS_RDONLY}); err != nil {
		return err
	}
	// The first root cannot be left by pivot_root(2): see its notes on initramfs.
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	return os.Chdir("/")
}

func loadFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("load module: %w", err)
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(path, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE // Linux 5.17
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load module %s: %w", path, err)
	}
	return nil
}

package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Mark is the variable, as NAME=VALUE, in whose environment a process is the
// lab's, and ends with it.
func (s Store) Mark(lab string) string { return labEnv + "=" + s.dir(lab) }

// Dir is the lab's directory: its record, its networks' files, its agents' sockets.
func (s Store) Dir(lab string) string { return s.dir(lab) }

// StateFile is the file that Load reads: it is replaced when the lab changes.
func (s Store) StateFile(lab string) string { return filepath.Join(s.dir(lab), stateFile) }

// BPFDir is where programs that work on the lab pin their BPF maps and links,
// once MountBPF has made it a BPF file system.
func (s Store) BPFDir(lab string) string { return filepath.Join(s.dir(lab), "bpf") }

// MountBPF makes the lab's BPFDir a BPF file system and returns it; one that is
// there already stays as it is. Down unmounts it, by which all that is pinned
// there goes.
func (s Store) MountBPF(lab string) (string, error) {
	if err := CheckName(lab); err != nil {
		return "", fmt.Errorf("lab name %w", err)
	}
	dir := s.BPFDir(lab)
	if isBPF(dir) {
		return dir, nil
	}
	if _, err := os.Stat(s.dir(lab)); errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("lab %q: %w", lab, ErrNoLab)
	}
	journal, err := os.OpenFile(filepath.Join(s.dir(lab), "journal.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return "", fmt.Errorf("record mount: %w", err)
	}
	defer journal.Close()
	// The agents of all hosts come at once: one of them mounts, as a second mount
	// would hide what the others have made on the first.
	if err := unix.Flock(int(journal.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock journal: %w", err)
	}
	if isBPF(dir) {
		return dir, nil
	}
	if err := (&record{journal: journal}).intend(kindMount, dir); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("create %s: %w", dir, err)
	}
	if err := unix.Mount("bpf", dir, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return "", fmt.Errorf("mount BPF file system on %s: %w", dir, err)
	}
	return dir, nil
}

func isBPF(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.BPF_FS_MAGIC
}

// unmount takes a recorded mount away, and what others have stacked on it; one that
// is not there is no error.
func unmount(dir string) error {
	for isBPF(dir) {
		// Detached, as a reader of the directory would keep the lab up.
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
	}
	return nil
}

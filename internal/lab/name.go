package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"pathwise.dev/pathwise/internal/lab/oci"
)

// nameForm is what labs, hosts and pods may be called: their names are parts of
// paths, of namespaces' names and of command lines.
const nameForm = "1 to 24 lower-case letters, digits and inner hyphens"

// CheckName wants a lab's, host's or pod's name to be one: every name from a user or
// a file passes here before it is part of a path.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,22}[a-z0-9])?$`).MatchString(name) {
		return fmt.Errorf("%q: expected %s", name, nameForm)
	}
	return nil
}

// ErrNoRecord: a directory among the labs' is none of theirs.
var ErrNoRecord = errors.New("no lab's record")

// find returns the directory of the lab called name, which is there and is one.
func (s Store) find(name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", fmt.Errorf("lab name %w", err)
	}
	dir := s.dir(name)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("lab %q: %w", name, ErrNoLab)
	}
	return dir, isRecord(dir)
}

// isRecord wants dir to be what create makes: a directory, no link to one, that
// holds the owner's lock, or nothing yet.
func isRecord(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	if !st.IsDir() {
		return fmt.Errorf("%s: %w: it is no directory", dir, ErrNoRecord)
	}
	if st, err := os.Lstat(filepath.Join(dir, lockFile)); err == nil && st.Mode().IsRegular() {
		return nil
	}
	// A process that was killed may have come no further than the directory.
	if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w: it holds other files", dir, ErrNoRecord)
}

// removeRecord removes a lab's directory. The lock goes last: what is left of a
// removal that was interrupted is a record still.
func removeRecord(dir string) error {
	if err := isRecord(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list record: %w", err)
	}
	for _, e := range entries {
		if e.Name() == lockFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove record: %w", err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove record: %w", err)
	}
	return nil
}

// netnsOf reports whether a namespace's name is one that the lab called name gives.
func netnsOf(name, ns string) bool {
	part, ok := strings.CutPrefix(ns, Spec{Name: name}.netns(""))
	return ok && part != "" && !strings.ContainsAny(part, "/\x00")
}

// cgroupOf is the cgroup of all containers of the lab called name.
func cgroupOf(name string) string { return "/pathwise-" + name }

// own sorts out of a journal what the lab called name can have made. The rest is
// told, and left alone: a journal is a file, and others' things are not ours.
func (s Store) own(name string, made []resource) (out []resource, err error) {
	for _, r := range made {
		mine := false
		switch r.Kind {
		case kindNetns:
			mine = netnsOf(name, r.Name)
		case kindCgroup:
			mine = r.Name == cgroupOf(name)
		case kindMount:
			mine = r.Name == s.BPFDir(name)
		case kindDir:
			mine = r.Name == oci.ShimDir
		}
		if mine {
			out = append(out, r)
		} else {
			err = errors.Join(err, fmt.Errorf("lab %s has recorded %s %q, which no lab of that name makes: left alone", name,
				r.Kind, r.Name))
		}
	}
	return out, err
}

// check wants the record to be that of the lab called name, and all names in it to be
// such as a lab gives: they become paths.
func (st State) check(name string) error {
	if st.Spec.Name != name {
		return fmt.Errorf("it is of a lab called %q", st.Spec.Name)
	}
	for _, h := range st.Hosts {
		if err := CheckName(h.Name); err != nil {
			return fmt.Errorf("host name %w", err)
		}
		if !netnsOf(name, h.Netns) {
			return fmt.Errorf("host %s: network namespace %q is not the lab's", h.Name, h.Netns)
		}
	}
	for _, p := range st.Pods {
		if p.Name == "" && p.Netns == "" {
			continue // not made yet
		}
		if err := CheckName(p.Name); err != nil {
			return fmt.Errorf("pod name %w", err)
		}
		if !netnsOf(name, p.Netns) {
			return fmt.Errorf("pod %s: network namespace %q is not the lab's", p.Name, p.Netns)
		}
		if p.Host < 1 || p.Host > len(st.Hosts) {
			return fmt.Errorf("pod %s: host %d: expected 1 to %d", p.Name, p.Host, len(st.Hosts))
		}
	}
	for _, d := range st.Delete {
		if !netnsOf(name, d.Netns) || d.Host != "" && !netnsOf(name, d.Host) { // "" is the machine's own
			return fmt.Errorf("CNI attachment of %s: network namespaces %q and %q: expected the lab's", d.Pod, d.Netns, d.Host)
		}
	}
	return nil
}

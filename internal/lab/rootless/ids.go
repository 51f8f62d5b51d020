package rootless

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
)

// span is a range of ids that a file such as /etc/subuid gives to a user.
type span struct{ first, count uint32 }

// spans reads the ranges of the user from a file in the format of subuid(5), where
// users stand by name or number. Lines that are no range are skipped, as newuidmap
// does.
func spans(r io.Reader, name, id string) []span {
	var out []span
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(f) != 3 || f[0] != name && f[0] != id {
			continue
		}
		first, firstErr := strconv.ParseUint(f[1], 10, 32)
		count, countErr := strconv.ParseUint(f[2], 10, 32)
		if firstErr == nil && countErr == nil && count > 0 && first > 0 && first+count < 1<<32 {
			out = append(out, span{uint32(first), uint32(count)})
		}
	}
	return out
}

// mapIDs maps the user to root in the process's user namespace, and his subordinate
// ids to those from 1 on, where he has some and newuidmap and newgidmap give them to
// him: daemons such as nginx and BIRD change to a user of their own.
func mapIDs(ctx context.Context, pid int) error {
	if runMap(ctx, "newuidmap", pid, os.Geteuid(), subordinate("/etc/subuid")) &&
		runMap(ctx, "newgidmap", pid, os.Getegid(), subordinate("/etc/subgid")) {
		return nil
	}
	dir := fmt.Sprintf("/proc/%d/", pid)
	if raw, err := os.ReadFile(dir + "uid_map"); err == nil && len(raw) == 0 {
		if err := os.WriteFile(dir+"uid_map", fmt.Appendf(nil, "0 %d 1", os.Geteuid()), 0); err != nil {
			return fmt.Errorf("map user: %w", err)
		}
	}
	// Without privileges a group is mapped only where setgroups(2) is off (Linux 3.19).
	if err := os.WriteFile(dir+"setgroups", []byte("deny"), 0); err != nil {
		return fmt.Errorf("map group: %w", err)
	}
	if err := os.WriteFile(dir+"gid_map", fmt.Appendf(nil, "0 %d 1", os.Getegid()), 0); err != nil {
		return fmt.Errorf("map group: %w", err)
	}
	return nil
}

// subordinate lists this user's ranges in file; none where there is no such file.
func subordinate(file string) []span {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	id, name := strconv.Itoa(os.Geteuid()), ""
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	return spans(f, name, id)
}

// runMap has program map id to 0 and the ranges to what follows, and reports whether
// it did. It refuses a user without a name or without the right to the ranges, and
// fails where it is not setuid; one id is mapped then.
func runMap(ctx context.Context, program string, pid, id int, more []span) bool {
	if len(more) == 0 {
		return false
	}
	args := []string{strconv.Itoa(pid), "0", strconv.Itoa(id), "1"}
	next := uint64(1)
	for _, s := range more {
		args = append(args, strconv.FormatUint(next, 10), strconv.FormatUint(uint64(s.first), 10),
			strconv.FormatUint(uint64(s.count), 10))
		next += uint64(s.count)
	}
	return exec.CommandContext(ctx, program, args...).Run() == nil
}

package sockperf

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// trip is one finished round trip, by the kernel's monotonic clock.
type trip struct{ sent, received time.Duration }

// remarks is what sockperf says in its log besides the round trips.
type remarks struct {
	// Dropped, Duplicated and Disordered messages. A message that is lost in
	// ping-pong mode is not among the dropped: see parseLog.
	Dropped, Duplicated, Disordered int
	// Trips that the log holds.
	Trips int
}

// parseLog reads the file that sockperf writes with --full-log and gives each
// round trip to each.
//
// What is not in the log: sockperf leaves out its own warm-up and cool-down;
// and in ping-pong mode it waits for the answer to the last message until its
// time is over, so after one lost datagram there is nothing more in the log,
// and the count of dropped messages is 0 (seen with 3.7).
func parseLog(r io.Reader, each func(trip)) (remarks, error) {
	var out remarks
	scan := bufio.NewScanner(r)
	table := false
	for n := 1; scan.Scan(); n++ {
		line := scan.Bytes()
		switch {
		case bytes.HasPrefix(line, []byte("packet, txTime(sec), rxTime(sec), rtt(usec)")):
			table = true
		case table && bytes.HasPrefix(line, []byte("---")):
			table = false
		case table:
			t, err := parseTrip(string(line))
			if err != nil {
				return out, fmt.Errorf("read sockperf's log: line %d: %w", n, err)
			}
			out.Trips++
			each(t)
		case bytes.Contains(line, []byte("# dropped messages")):
			if err := parseCounts(string(line), &out); err != nil {
				return out, fmt.Errorf("read sockperf's log: line %d: %w", n, err)
			}
		}
	}
	if err := scan.Err(); err != nil {
		return out, fmt.Errorf("read sockperf's log: %w", err)
	}
	if table {
		return out, fmt.Errorf("read sockperf's log: the table of round trips does not end")
	}
	return out, nil
}

// parseTrip reads "NUMBER, SENT, RECEIVED, RTT". The round-trip time is taken
// from the two moments, which have nanoseconds.
func parseTrip(line string) (trip, error) {
	f := strings.Split(line, ", ")
	if len(f) != 4 {
		return trip{}, fmt.Errorf("%d fields in %q, expected 4", len(f), line)
	}
	sent, err := parseSeconds(f[1])
	if err != nil {
		return trip{}, err
	}
	received, err := parseSeconds(f[2])
	if err != nil {
		return trip{}, err
	}
	if received < sent {
		return trip{}, fmt.Errorf("answer before its message in %q", line)
	}
	return trip{sent, received}, nil
}

// parseSeconds reads seconds with exactly nine decimals. A float would do no
// better: sockperf prints one, which is exact to the nanosecond for some 50 days.
func parseSeconds(s string) (time.Duration, error) {
	whole, part, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseUint(whole, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("seconds: %w", err)
	}
	nano, err := strconv.ParseUint(part, 10, 30)
	if err != nil || len(part) != 9 {
		return 0, fmt.Errorf("seconds: %q has not nine decimals", s)
	}
	return time.Duration(sec)*time.Second + time.Duration(nano), nil
}

// parseCounts reads "# dropped messages = A; # duplicated messages = B; #
// out-of-order messages = C" somewhere in a line that may carry colours.
func parseCounts(line string, out *remarks) error {
	from := strings.Index(line, "# dropped messages")
	if _, err := fmt.Sscanf(line[from:], "# dropped messages = %d; # duplicated messages = %d; # out-of-order messages = %d",
		&out.Dropped, &out.Duplicated, &out.Disordered); err != nil {
		return fmt.Errorf("counts: %w", err)
	}
	return nil
}

// complaint is what sockperf says went wrong, "" if nothing: it often exits
// with 0 nevertheless.
func complaint(stdout []byte) string {
	for line := range strings.Lines(string(stdout)) {
		line = strings.TrimSpace(line)
		for _, mark := range []string{"ERROR: ", "No messages were received", "No valid observations", "Invalid "} {
			if i := strings.Index(line, mark); i >= 0 {
				return strings.TrimPrefix(line[i:], "ERROR: ")
			}
		}
	}
	return ""
}

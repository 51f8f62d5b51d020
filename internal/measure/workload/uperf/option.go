package uperf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/measure/workload"
)

// setKind takes the type of a flowop. send and recv are what write and read are here.
func (f *Flowop) setKind(v string) error {
	switch f.Kind = Kind(strings.ToLower(v)); f.Kind {
	case "send":
		f.Kind = Write
	case "recv":
		f.Kind = Read
	case "sendfilev":
		return errors.New("not supported: Linux has no sendfilev")
	}
	known := []Kind{Connect, Accept, Read, Write, Disconnect, Think, Nop}
	if !slices.Contains(known, f.Kind) {
		return errors.New("not supported: expected connect, accept, read, write, send, recv, disconnect, think or nop")
	}
	return nil
}

// options takes what is in a flowop's options, apart by space.
func (p *parser) options(f *Flowop, a attribute) error {
	seen := map[string]bool{}
	line := a.line
	for _, text := range strings.SplitAfter(joinRanges(a.value), "\n") {
		for _, word := range strings.Fields(text) {
			key, value, has := strings.Cut(word, "=")
			key = strings.ToLower(key)
			if seen[key] {
				return wrong(line, "options: %s is given twice", key)
			}
			seen[key] = true
			if err := p.option(f, key, value, has); err != nil {
				return wrong(line, "options: %s: %v", word, err)
			}
		}
		line += strings.Count(text, "\n")
	}
	return nil
}

// joinRanges takes the spaces out of rand(1, 8k).
func joinRanges(text string) string {
	var b strings.Builder
	depth := 0
	for _, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth > 0 && (r == ' ' || r == '\t'):
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// option takes one option. Where the traffic goes is the trial's business: it is the
// server's pod and its port, whatever the file says.
func (p *parser) option(f *Flowop, key, value string, has bool) error {
	if why, ok := foreign()[key]; ok {
		return fmt.Errorf("not supported: %s", why)
	}
	if strings.HasPrefix(key, "sctp_") {
		return errors.New("not supported: it is an option of SCTP")
	}
	if !has {
		return f.flag(key)
	}
	if slices.Contains([]string{"remotehost", "localhost", "port"}, key) {
		return nil
	}
	value, err := p.value(value)
	if err != nil {
		return err
	}
	return f.option(key, strings.ToLower(value))
}

// foreign is uperf's options that are refused, and why.
func foreign() map[string]string {
	const ssl, freebsd, file = "it is an option of SSL", "only FreeBSD has it", "it belongs to sendfile"
	return map[string]string{
		"engine": ssl, "cipher": ssl, "method": ssl, "stack": freebsd, "bblog": freebsd, "encaps": freebsd,
		"dir": file, "nfiles": file, "batch_size": "it is an option of SCTP",
		"non_blocking": "flowops wait until they are done", "async": "flowops wait until they are done",
	}
}

// flag takes an option without a value.
func (f *Flowop) flag(key string) error {
	switch key {
	case "tcp_nodelay":
		f.NoDelay = true
	case "busy":
		f.Busy = true
	case "canfail":
		f.CanFail = true
	case "idle":
	default:
		return errUnsupported
	}
	return nil
}

// option takes one with a value.
func (f *Flowop) option(key, value string) (err error) {
	switch key {
	case "size":
		f.Size, f.Max, err = size(value)
	case "rsize":
		f.Chunk, err = number(value, 1, maxSize)
	case "count":
		f.Count, err = number(value, 1, maxIterations)
	case "repeat":
		f.repeat, err = number(value, 1, 1<<16)
	case "conn":
		if f.Conn, err = strconv.Atoi(value); err != nil || f.Conn < 1 {
			err = errors.New("expected a number above 0")
		}
	case "wndsz":
		f.Window, err = number(value, 1, maxWindow)
	case "duration":
		f.Pause, err = span(value)
	case "timeout":
		f.Timeout, err = span(value)
	case "cc":
		f.Congestion = value
		if value == "" || len(value) > maxCongestion {
			err = fmt.Errorf("expected the name of a congestion control, such as %s", workload.Congestion)
		}
	case "protocol":
		f.Proto, err = protocol(value)
	default:
		err = errUnsupported
	}
	return err
}

// maxCongestion is TCP_CA_NAME_MAX of net/tcp.h, less the end of the string.
const maxCongestion = 15

var errUnsupported = errors.New("not supported")

// protocol takes one of uperf's.
func protocol(v string) (workload.Proto, error) {
	const hardware = "it needs hardware"
	why := map[string]string{
		"sctp": "SCTP", "ssl": "SSL", "udapl": hardware, "rds": "RDS needs a kernel module and addresses of its own",
		"vsock": "it goes between a virtual machine and its host, not over a network",
	}
	switch {
	case v == "tcp" || v == "udp":
		return workload.Proto(v), nil
	case why[v] != "":
		return "", fmt.Errorf("not supported (%s): expected tcp or udp", why[v])
	}
	return "", fmt.Errorf("no protocol of uperf's (those are tcp, udp, %s): expected tcp or udp",
		strings.Join(slices.Sorted(maps.Keys(why)), ", "))
}

// size reads a number of bytes or rand(LEAST,MOST).
func size(v string) (least, most int, err error) {
	inner, ok := strings.CutPrefix(v, "rand(")
	if !ok {
		least, err = number(v, 1, maxSize)
		return least, 0, err
	}
	inner, ok = strings.CutSuffix(inner, ")")
	low, high, comma := strings.Cut(inner, ",")
	if !ok || !comma {
		return 0, 0, errors.New("expected rand(LEAST,MOST)")
	}
	if least, err = number(low, 1, maxSize); err != nil {
		return 0, 0, err
	}
	if most, err = number(high, least, maxSize); err != nil {
		return 0, 0, err
	}
	return least, most, nil
}

// settle drops what uperf passes over for the flowop's kind: a duration is that of
// think alone.
func (f *Flowop) settle() {
	if f.Kind != Think {
		f.Pause = 0
	}
	if f.Proto == workload.TCP || !f.opens() {
		f.Proto = ""
	}
}

// check returns an error for a flowop that lacks what its kind needs, or has
// what means nothing to it.
func (f Flowop) check() error {
	switch {
	case f.Kind == "":
		return wrong(f.Line, "<flowop>: expected a type")
	case f.moves() && f.Size == 0:
		return wrong(f.Line, "%s: expected a size", f.Kind)
	case !f.moves() && f.Size > 0:
		return wrong(f.Line, "%s has no size", f.Kind)
	case !f.moves() && f.Kind != Nop && f.Kind != Think && f.Count > 1:
		return wrong(f.Line, "%s cannot have a count", f.Kind)
	case f.Kind == Think && f.Pause == 0:
		return wrong(f.Line, "think: expected a duration")
	case f.Timeout > maxPause:
		return wrong(f.Line, "%s: expected a timeout of at most %v", f.Kind, maxPause)
	}
	return nil
}

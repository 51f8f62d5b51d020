package profile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// errHidden: addresses in /proc/kallsyms are all zero for this process.
var errHidden = errors.New("the kernel hides its symbols: kernel.kptr_restrict or a missing CAP_SYSLOG")

// symbols are the kernel's functions by address.
type symbols struct {
	addrs []uint64
	names []string
}

// readSymbols reads those of the running kernel, eBPF programs included. Call it
// while the programs of interest are loaded.
func readSymbols() (symbols, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return symbols{}, fmt.Errorf("read kernel symbols: %w", err)
	}
	defer f.Close()
	s, err := parseSymbols(f)
	if err != nil {
		return s, fmt.Errorf("read kernel symbols: %w", err)
	}
	return s, nil
}

// parseSymbols reads lines "address type name [module]" and keeps functions.
func parseSymbols(r io.Reader) (symbols, error) {
	type symbol struct {
		addr uint64
		name string
	}
	var all []symbol
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		f := strings.Fields(scan.Text())
		if len(f) < 3 || !strings.ContainsAny(f[1], "tTwW") {
			continue
		}
		addr, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			return symbols{}, fmt.Errorf("address %.20q: expected hexadecimal digits", f[0])
		}
		if addr != 0 {
			all = append(all, symbol{addr, f[2]})
		}
	}
	if err := scan.Err(); err != nil {
		return symbols{}, err
	}
	if len(all) == 0 {
		return symbols{}, errHidden
	}
	// Of several names of one address the first in the file stays.
	slices.SortStableFunc(all, func(a, b symbol) int {
		switch {
		case a.addr < b.addr:
			return -1
		case a.addr > b.addr:
			return 1
		}
		return 0
	})
	var out symbols
	for i, s := range all {
		if i > 0 && s.addr == all[i-1].addr {
			continue
		}
		out.addrs, out.names = append(out.addrs, s.addr), append(out.names, s.name)
	}
	return out, nil
}

// name returns the function that holds an address.
func (s symbols) name(ip uint64) string {
	i := sort.Search(len(s.addrs), func(i int) bool { return s.addrs[i] > ip })
	if i == 0 {
		return fmt.Sprintf("0x%x", ip)
	}
	return s.names[i-1]
}

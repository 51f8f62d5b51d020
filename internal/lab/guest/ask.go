package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
)

// AnswerArgument makes the executable answer, in a guest, what needs its kernel
// does not meet: AnswerArgument NEEDS, NEEDS being JSON.
const AnswerArgument = "guest-needs"

// Answer is what AnswerArgument does.
func Answer(w io.Writer, needs string) error {
	var list []network.Need
	if err := json.Unmarshal([]byte(needs), &list); err != nil {
		return fmt.Errorf("decode needs: %w", err)
	}
	missing := append([]network.Missing{}, network.NewMachine(nil).Missing(list)...)
	if err := json.NewEncoder(w).Encode(missing); err != nil {
		return fmt.Errorf("encode missing needs: %w", err)
	}
	return nil
}

// mostAnswer bounds what a guest answers, in bytes.
const mostAnswer = 1 << 20

// Cached returns what Ask found out before, from the directory cache; false
// where it has not asked this kernel about all these needs.
func Cached(cache string, k Kernel, needs []network.Need) ([]network.Missing, bool) {
	raw, err := os.ReadFile(cacheFile(cache, k, needs))
	if cache == "" || err != nil {
		return nil, false
	}
	var out []network.Missing
	if json.Unmarshal(raw, &out) != nil {
		return nil, false
	}
	return out, true
}

// Ask boots the guest that c describes and has its kernel say which of the needs,
// all of them the kernel's, it does not meet. The answer is kept in the directory
// cache, which may be "".
func Ask(ctx context.Context, c Config, needs []network.Need, cache string) ([]network.Missing, error) {
	if out, ok := Cached(cache, c.Kernel, needs); ok {
		return out, nil
	}
	raw, err := json.Marshal(needs)
	if err != nil {
		return nil, fmt.Errorf("encode needs: %w", err)
	}
	stdout, stderr := lab.Captured(mostAnswer), lab.Captured(mostAnswer)
	c.Argv, c.Stdout, c.Stderr = []string{c.Self, AnswerArgument, string(raw)}, stdout, stderr
	code, err := Run(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("ask guest kernel %s: %w", c.Kernel.Label(), err)
	}
	if code != 0 {
		return nil, fmt.Errorf("ask guest kernel %s: exit status %d: %s", c.Kernel.Label(), code,
			strings.TrimSpace(string(stderr.Bytes())))
	}
	var out []network.Missing
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		return nil, fmt.Errorf("ask guest kernel %s: decode answer: %w", c.Kernel.Label(), err)
	}
	if cache != "" {
		// Without a cache the guest is asked again next time, that is all.
		if os.MkdirAll(cache, 0o755) == nil {
			_ = os.WriteFile(cacheFile(cache, c.Kernel, needs), stdout.Bytes(), 0o644)
		}
	}
	return out, nil
}

// cacheFile is named after the kernel and what it was asked: another image of the
// same release, or another question, has a file of its own.
func cacheFile(cache string, k Kernel, needs []network.Need) string {
	h := sha256.New()
	fmt.Fprintln(h, k.Label(), k.Image)
	if st, err := os.Stat(k.Image); err == nil {
		fmt.Fprintln(h, st.Size(), st.ModTime().UnixNano())
	}
	sorted := slices.Clone(needs)
	slices.SortFunc(sorted, func(a, b network.Need) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	fmt.Fprintln(h, sorted)
	return filepath.Join(cache, "guest-"+k.Label()+"-"+hex.EncodeToString(h.Sum(nil))[:16]+".json")
}

package pathwise_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreatModel: each test that the threat model names to show what it says is one of
// the module's.
func TestThreatModel(t *testing.T) {
	raw, err := os.ReadFile("docs/explanation/security.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	err = filepath.WalkDir("internal", func(p string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		code, err := os.ReadFile(p)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(code, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(raw), -1)
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("%s: the threat model names it, and there is none", m[1])
		}
	}
	if len(named) < 10 {
		t.Errorf("%d tests are named", len(named))
	}
}

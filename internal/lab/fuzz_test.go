package lab

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
)

// FuzzCNIResult: what a plugin prints is refused, or is a result that can be handed to
// the next plugin as it is.
func FuzzCNIResult(f *testing.F) {
	f.Add(`{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/x"}],"ips":[{"address":"10.0.0.2/24","interface":0}],"dns":{}}`)
	f.Add(`{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.0.0.2/24","gateway":"10.0.0.1"}]}`)
	f.Add(`{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/24","routes":[{"dst":"0.0.0.0/0"}]}}`)
	f.Add(`{"cniVersion":"1.0.0","ips":[{}],"routes":[{"dst":null}]}`)
	f.Add(`{"code":7,"msg":"x"}`)
	f.Fuzz(func(t *testing.T, text string) {
		var told types.Error
		if json.Unmarshal([]byte(text), &told) == nil {
			_ = told.Error()
		}
		if checkResult([]byte(text)) != nil {
			return
		}
		res, err := create.CreateFromBytes([]byte(text))
		if err != nil {
			return
		}
		r, err := types100.NewResultFromResult(res)
		if err != nil {
			return
		}
		raw, err := json.Marshal(r)
		if err != nil {
			return // an address that is none
		}
		if _, err := create.CreateFromBytes(raw); err != nil {
			t.Errorf("%s became %s: %v", text, raw, err)
		}
	})
}

func TestCheckResult(t *testing.T) {
	for text, want := range map[string]string{
		"":     "",
		"{}":   "",
		"nope": "no JSON",
		`{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}`:                               "",
		`{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.2/24"}],"routes":[{"dst":"::/0"}]}`: "",
		`{"cniVersion":"1.0.0","ips":[{"gateway":"10.0.0.1"}]}`:                              "without an address",
		`{"cniVersion":"0.2.0","ip4":{}}`:                                                    "without an address",
		`{"cniVersion":"1.0.0","routes":[{}]}`:                                               "route to nowhere",
	} {
		if err := checkResult([]byte(text)); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// FuzzRecord: a lab's record, as a kill or a full disk leaves it, is read or refused;
// of the journal each whole line counts, and only those.
func FuzzRecord(f *testing.F) {
	store := Store{Root: f.TempDir()}
	dir := store.dir("l")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, lockFile), nil, 0o600); err != nil {
		f.Fatal(err)
	}
	f.Add(`{"spec":{"name":"l"},"hosts":[{"index":1,"addr":"10.0.0.1/24"}],"pods":[{"name":"a"}]}`,
		`{"kind":"netns","name":"pw-l-u"}`+"\n"+`{"kind":"cgro`)
	f.Add(`{"pods":[{"attachments":[{"addr":"x"}]}]}`, "\n\n{}\n")
	f.Fuzz(func(t *testing.T, state, journal string) {
		for name, text := range map[string]string{stateFile: state, "journal.jsonl": journal} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		st, err := store.Load("l")
		if err != nil && !strings.HasPrefix(err.Error(), `decode lab "l": `) &&
			!strings.HasPrefix(err.Error(), `read record of lab "l": `) {
			t.Errorf("error without a place: %v", err)
		}
		if err == nil {
			if st.Spec.Name != "l" {
				t.Errorf("the record of another lab was taken: %q", st.Spec.Name)
			}
			if _, err := json.Marshal(st); err != nil {
				t.Errorf("%s cannot be saved: %v", state, err)
			}
		}
		all := resources(dir)
		if len(all) > bytes.Count([]byte(journal), []byte("\n"))+1 {
			t.Errorf("%d resources of %q", len(all), journal)
		}
		for _, r := range all {
			if r.Name == "" {
				t.Errorf("a resource without a name of %q", journal)
			}
		}
	})
}

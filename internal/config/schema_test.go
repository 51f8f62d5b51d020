package config

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// box and lid are a file of every sort of value that tags can ask for.
type box struct {
	Name  string        `yaml:"name" is:"name" key:"needed" doc:"what it is called"`
	Lids  []lid         `yaml:"lids" doc:"what closes it" default:"none"`
	Width []int         `yaml:"width" is:"1..9" doc:"how wide" unit:"mm"`
	Age   time.Duration `yaml:"age" is:"0s..1h" doc:"how old"`
	Old   bool          `yaml:"old" doc:"whether it is old" default:"false"`
	Size  int           `yaml:"size" is:"size" doc:"how large" default:"64"`
	Share float64       `yaml:"share" is:"share" doc:"how full" default:"none"`
}

type lid struct {
	Way  string `yaml:"way" is:"way" key:"alone" doc:"how it opens" default:"up"`
	Spot *lid   `yaml:"spot" doc:"a lid in the lid" default:"none"`
}

func boxes() Reader {
	return Reader{Kinds: map[string]Kind{"name": Name(), "way": Word("up", "down", "off"), "size": Size(1, 1<<20),
		"share": Percent()}}
}

// TestSchemaAgreesWithReader: for these files an editor that has the schema says what Read says.
func TestSchemaAgreesWithReader(t *testing.T) {
	s, err := boxes().Schema("Box", box{Width: []int{3}, Age: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		text string
		fine bool
	}{
		{`{"name": "a"}`, true}, {`{"name": "a b"}`, false}, {`{}`, false}, {`[]`, false}, {`{"name": "a", "nam": 1}`, false},
		{`{"name": "a", "lids": "up"}`, true}, {`{"name": "a", "lids": ["up", {"way": "off", "spot": "down"}]}`, true},
		{`{"name": "a", "lids": {"spot": {"spot": "left"}}}`, false}, {`{"name": "a", "lids": []}`, false},
		{`{"name": "a", "width": [1, 9]}`, true}, {`{"name": "a", "width": 10}`, false},
		{`{"name": "a", "width": [1, 1]}`, false}, {`{"name": "a", "age": "1m30s"}`, true}, {`{"name": "a", "age": 0}`, true},
		{`{"name": "a", "age": 5}`, false}, {`{"name": "a", "old": true}`, true}, {`{"name": "a", "old": 1}`, false},
		{`{"name": "a", "size": "16k"}`, true}, {`{"name": "a", "size": 0}`, false}, {`{"name": "a", "size": "1t"}`, false},
		{`{"name": "a", "share": "5%"}`, true}, {`{"name": "a", "share": 5}`, false}, {`{"name": null}`, false},
	} {
		v, err := Parse("f", strings.NewReader(tc.text))
		if err != nil {
			t.Fatal(err)
		}
		var node any
		if err := json.Unmarshal([]byte(tc.text), &node); err != nil {
			t.Fatal(err)
		}
		read, told := boxes().Read(v, &box{}), resolved.Validate(node)
		if (read == nil) != tc.fine || (told == nil) != tc.fine {
			t.Errorf("%s: Read says %v, the schema %v", tc.text, read, told)
		}
	}
	if got := string(s.Properties["age"].Default); got != `"1m0s"` {
		t.Errorf("default of age: %s", got)
	}
	if got := s.Properties["lids"].Description; got != "what closes it; default: none" {
		t.Errorf("of lids is said: %s", got)
	}
}

func TestKeys(t *testing.T) {
	got, err := boxes().Keys(box{Width: []int{3}, Age: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || len(got[0].Keys) != 7 || got[1].Path != "lids" {
		t.Fatalf("%+v", got)
	}
	for i, want := range []Key{
		{Name: "name", Type: "a name of letters, digits, dots, hyphens and underscores", Needed: true,
			Meaning: "what it is called"},
		{Name: "lids", Type: "up, down or off", Of: "lids", Many: true, Default: "none", Meaning: "what closes it"},
		{Name: "width", Type: "a whole number from 1 to 9", Many: true, Unit: "mm", Default: "`3`", Meaning: "how wide"},
		{Name: "age", Type: "a duration from 0s to 1h", Unit: "us, ms, s, m, h", Default: "`1m0s`", Meaning: "how old"},
	} {
		if !reflect.DeepEqual(got[0].Keys[i], want) {
			t.Errorf("got  %+v\nwant %+v", got[0].Keys[i], want)
		}
	}
	if says := got[0].Keys[1].Says(strings.ToUpper); says != "up, down or off, or keys of LIDS; or a list" {
		t.Errorf("lids may be %q", says)
	}
}

// FuzzName: CheckName and the pattern that editors have mean the same.
func FuzzName(f *testing.F) {
	for _, s := range []string{"", "a", "a.b-c_D9", "-a", "é", strings.Repeat("x", 64), strings.Repeat("x", 65), "a\n"} {
		f.Add(s)
	}
	pattern := regexp.MustCompile(Name().Schema.Pattern)
	f.Fuzz(func(t *testing.T, s string) {
		if err := CheckName(s); (err == nil) != pattern.MatchString(s) {
			t.Errorf("%q: %v", s, err)
		}
	})
}

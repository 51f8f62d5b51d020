package uperf

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// unset is an environment without variables.
func unset(string) string { return "" }

// bare takes the lines out of a profile.
func bare(p Profile) Profile {
	for i := range p.Groups {
		p.Groups[i].Line = 0
		for j := range p.Groups[i].Transactions {
			p.Groups[i].Transactions[j].Line = 0
			for k := range p.Groups[i].Transactions[j].Flowops {
				p.Groups[i].Transactions[j].Flowops[k].Line = 0
			}
		}
	}
	return p
}

// TestShippedProfilesAreBuiltIn: the XML files of the document's profiles say what
// the workloads uperf-rr and uperf-stream do.
func TestShippedProfilesAreBuiltIn(t *testing.T) {
	for file, want := range map[string]Profile{
		"rr-1000": RequestResponse(50, 1000),
		"rr-30k":  RequestResponse(50, 30<<10),
		"stream":  Streaming(50, 30<<10),
	} {
		path := "../../../experiments/uperf/" + file + ".xml"
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got, err := Parse(path, f, unset)
		if err != nil {
			t.Error(err)
		} else if got = bare(got); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", file, got, want)
		}
	}
}

// body is a profile with one group of these transactions.
func body(transactions string) string {
	return `<profile name="x"><group nthreads="1">` + transactions + `</group></profile>`
}

const link = `<transaction><flowop type="connect" options="remotehost=$h protocol=tcp"/></transaction>`

func TestParse(t *testing.T) {
	env := map[string]string{"nthr": "4", "proto": "TCP", "Dur": "30"}
	in := "<?xml version=\"1.0\"?>\n" + `<profile name="mix">
  <!-- as the manual writes them -->
  <group nthreads="$nthr">
    <transaction iterations="1">
      <flowop type="accept" options="conn=2 remotehost=$h protocol=$proto
        wndsz=50k tcp_nodelay"/>
    </transaction>
    <transaction duration="$Dur">
      <flowop type="write" options="conn=2 count=10 size=rand(1, 8k)"/>
      <flowop type="READ" options="size=1.5K conn=2"/>
      <flowop type="think" options="busy duration=5ms"/>
      <flowop type="nop"/>
    </transaction>
    <transaction><flowop type="disconnect" options="conn=2"/></transaction>
  </group>
  <group nprocs="2"><transaction iterations="1k"><flowop type="connect"/><flowop type="disconnect"/></transaction></group>
</profile>`
	got, err := Parse("mix.xml", strings.NewReader(in), func(n string) string { return env[n] })
	want := Profile{Name: "mix", Groups: []Group{
		{Strands: 4, Transactions: []Transaction{
			{Iterations: 1, Flowops: []Flowop{{Kind: Accept, Count: 1, Conn: 2, Window: 50 << 10, NoDelay: true}}},
			{Iterations: 1, Duration: 30 * time.Second, Flowops: []Flowop{
				{Kind: Write, Count: 10, Conn: 2, Size: 1, Max: 8 << 10},
				{Kind: Read, Count: 1, Conn: 2, Size: 1536},
				{Kind: Think, Count: 1, Pause: 5 * time.Millisecond, Busy: true},
				{Kind: Nop, Count: 1},
			}},
			{Iterations: 1, Flowops: []Flowop{{Kind: Disconnect, Count: 1, Conn: 2}}},
		}},
		{Strands: 2, Transactions: []Transaction{{Iterations: 1024, Flowops: []Flowop{{Kind: Connect, Count: 1}, {Kind: Disconnect, Count: 1}}}}},
	}}
	if err != nil || !reflect.DeepEqual(bare(got), want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	rw := `<transaction duration="9s"><flowop type="write" options="size=1"/></transaction>`
	for _, tc := range []struct{ in, want string }{
		{"", "p.xml:1: expected <profile>"},
		{"<profile>\n<group>", "p.xml:2: <group>: expected one of nthreads and nprocs"},
		{"<profile>", "p.xml:1: unexpected EOF"},
		{"<profile></profile>", "no group"},
		{"<profile/><profile/>", "a second <profile>"},
		{"<uperf/>", "<uperf>: expected <profile>"},
		{"<profile>\nhello</profile>", `p.xml:2: text "hello": expected <group>`},
		{"<profile when='now'/>", "<profile when=...>: not supported"},
		{body(""), "no transaction"},
		{body("<transaction/>"), "no flowop"},
		{body("\n<transaction rate='5'/>"), "p.xml:2: <transaction rate=...>: not supported"},
		{body("\n\n<transaction iterations='0'/>"), `p.xml:3: iterations="0": expected a number from 1`},
		{body("<transaction duration='soon'/>"), "expected a time such as"},
		{body("<transaction iterations='$iter'/>"), `iterations="$iter": the environment variable iter is not set`},
		{body(`<transaction><flowop type="sendfile" options="dir=/tmp"/></transaction>`), `type="sendfile": not supported: expected one of [connect accept`},
		{body(`<transaction><flowop options="size=1"/></transaction>`), "expected a type"},
		{body(`<transaction><flowop type="connect" options="protocol=sctp"/></transaction>`), "protocol=sctp: not supported: expected tcp"},
		{body(`<transaction><flowop type="connect" options="protocol=udp"/></transaction>`), "protocol=udp: not supported: expected tcp"},
		{body(`<transaction><flowop type="write" options="canfail size=1"/></transaction>`), "canfail: not supported"},
		{body(`<transaction><flowop type="write" options="size=1 size=2"/></transaction>`), "size stands twice"},
		{body(`<transaction><flowop type="write" options="size=$sz"/></transaction>`), "size=$sz: the environment variable sz is not set"},
		{body(`<transaction><flowop type="write" options="size=rand(9,3)"/></transaction>`), "size=rand(9,3): expected a number from 9"},
		{body(`<transaction><flowop type="write" options="size=5t"/></transaction>`), "size=5t: expected a number"},
		{body(`<transaction><flowop type="write"/></transaction>`), "write: expected a size"},
		{body(`<transaction><flowop type="think"/></transaction>`), "think: expected a duration"},
		{body(`<transaction><flowop type="write" options="size=1 duration=5s"/></transaction>`), "write for a duration: not supported"},
		{body(`<transaction><flowop type="nop">x</flowop></transaction>`), `text "x"`},
		{body(rw), "write: connection 0 is not open"},
		{body(link + link), "connect: connection 0 is open already"},
		{body(link + rw + rw), "a second transaction with a duration"},
		{body(link + rw + `<transaction><flowop type="read" options="size=1"/></transaction>`), "only disconnect can follow"},
		{body(`<transaction iterations="2"><flowop type="connect"/></transaction>`), "repeated, without a disconnect"},
		{body(link + `<transaction iterations="2"><flowop type="disconnect"/></transaction>`), "of a connection that is opened before it"},
		{`<profile><group nthreads="999">` + link + `</group><group nprocs="2">` + link + `</group></profile>`, "1001 threads and processes"},
	} {
		_, err := Parse("p.xml", strings.NewReader(tc.in), unset)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "p.xml:") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\ngot  %v\nwant %s", tc.in, err, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(body(link))
	f.Add(body(link + `<transaction duration="5"><flowop type="write" options="size=rand(1,8k) count=2"/></transaction>`))
	f.Add(`<profile name="$x"><group nthreads="$x">`)
	f.Fuzz(func(t *testing.T, in string) {
		p, err := Parse("f.xml", strings.NewReader(in), func(n string) string { return n })
		if err != nil && !strings.HasPrefix(err.Error(), "f.xml:") {
			t.Errorf("no place in %v", err)
		}
		if err == nil && (p.Check() != nil || p.Strands() < 1 || p.Strands() > maxStrands) {
			t.Errorf("accepted %+v", p)
		}
	})
}

func FuzzCount(f *testing.F) {
	f.Add([]byte(`{"operations":1,"latency":"","writes":""}`))
	f.Add([]byte(`{"failed":-1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if c, err := parse(raw); err == nil && (c.Operations < 0 || c.Latency.Count() != c.Operations || c.Writes == nil) {
			t.Errorf("accepted %+v", c)
		}
	})
}

package uperf

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
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
		path := "../../../../experiments/uperf/" + file + ".xml"
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
		{Strands: 2,
			Transactions: []Transaction{
				{Iterations: 1024, Flowops: []Flowop{{Kind: Connect, Count: 1}, {Kind: Disconnect, Count: 1}}}}},
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
		{"<profile>\n", "p.xml:2: the file ends in a <profile>: expected </profile>"},
		{"<profile>\n<group nthreads=1>\n<transaction>", "p.xml:3: the file ends in a <transaction>"},
		{"<profile\nname=x", "p.xml:1: <profile: expected > at its end"},
		{"<profile>\n<group nthreads=\"1>", "p.xml:2: <group nthreads=: expected \" at the end of the value"},
		{"<profile>\n<group nthreads>", "p.xml:2: <group nthreads: expected nthreads=VALUE"},
		{"<profile>\n<!-- no end", "p.xml:2: comment: expected -->"},
		{"<profile></profile>\nmore", "p.xml:2: text \"more\": expected nothing after </profile>"},
		{"<profile>\n<goup nthreads=2>", "p.xml:2: <goup>: expected <group>"},
		{"<profile><flowop/>", "<flowop>: expected <group>"},
		{"<profile></profile>", "no group"},
		{"<profile/><profile/>", "a second <profile>"},
		{"<uperf/>", "<uperf>: expected <profile>"},
		{"<profile>\nhello</profile>", `p.xml:2: text "hello": expected <group>`},
		{"<profile when='now'/>", "<profile when=...>: not supported"},
		{body(""), "no transaction"},
		{body("<transaction/>"), "no flowop"},
		{body("\n<transaction rate='5'/>"), "p.xml:2: rate=5 in a transaction without a duration"},
		{body("\n<transaction when='5'/>"), "p.xml:2: <transaction when=...>: not supported"},
		{body("\n\n<transaction iterations='-1'/>"), `p.xml:3: iterations="-1": expected a number from 0`},
		{body("<transaction iterations='0'><flowop type=nop/></transaction>"), "the group has no transaction"},
		{body("<transaction duration='5m'/>"), "uperf takes m for milliseconds: expected a time such as 300s"},
		{body("<transaction duration='1h'/>"), "expected a time such as"},
		{body("<transaction iterations='1e3'/>"), "expected a number"},
		{body("<transaction duration='soon'/>"), "expected a time such as"},
		{body("<transaction iterations='$iter'/>"), `iterations="$iter": the environment variable iter is not set`},
		{body(`<transaction><flowop type="sendfile" options="dir=/tmp"/></transaction>`),
			`type="sendfile": not supported: expected connect, accept`},
		{body(`<transaction><flowop type="sendfilev" options="dir=/tmp"/></transaction>`),
			`type="sendfilev": not supported: Linux has no sendfilev`},
		{body(`<transaction><flowop type="write" options="size=1 dir=/tmp"/></transaction>`),
			"dir=/tmp: not supported: it belongs to sendfile"},
		{body(`<transaction><flowop type="write" options="size=1 non_blocking"/></transaction>`), "non_blocking: not supported"},
		{body("<transaction><flowop type=write options='size=1\n\n  batch_size=3'/></transaction>"),
			"p.xml:3: options: batch_size=3: not supported: it is an option of SCTP"},
		{body(`<transaction><flowop options="size=1"/></transaction>`), "expected a type"},
		{body(`<transaction><flowop type="connect" options="protocol=sctp"/></transaction>`),
			"protocol=sctp: not supported (SCTP): expected tcp or udp"},
		{body(`<transaction><flowop type="connect" options="protocol=quic"/></transaction>`),
			"protocol=quic: no protocol of uperf's (those are tcp, udp, rds, sctp,"},
		{body(`<transaction><flowop type="connect" options="cc=a_name_that_is_too_long"/></transaction>`),
			"expected the name of a congestion control, such as cubic"},
		{body("<transaction><flowop type=connect options='protocol=udp'/>\n<flowop type=write options='size=64k'/></transaction>"),
			"p.xml:2: write: size=65536 by UDP: expected at most 65507"},
		{body("<transaction><flowop type=think options='duration=1s'/>\n<flowop type=think options='count=3 duration=.5s'/></transaction>"),
			"p.xml:2: think: 2.5s in one transaction: expected at most 2s"},
		{body(`<transaction><flowop type="read" options="size=1 timeout=9s"/></transaction>`), "expected a timeout of at most 2s"},
		{body(`<transaction><flowop type="write" options="size=1 size=2"/></transaction>`), "size is given twice"},
		{body(`<transaction><flowop type="write" options="size=$sz"/></transaction>`),
			"size=$sz: the environment variable sz is not set"},
		{body(`<transaction><flowop type="write" options="size=rand(9,3)"/></transaction>`), "size=rand(9,3): expected a number from 9"},
		{body(`<transaction><flowop type="write" options="size=5t"/></transaction>`), "size=5t: expected a number"},
		{body(`<transaction><flowop type="write"/></transaction>`), "write: expected a size"},
		{body(`<transaction><flowop type="think"/></transaction>`), "think: expected a duration"},
		{body(`<transaction><flowop type="nop">x</flowop></transaction>`), `text "x"`},
		{body(rw), "write: connection 0 is not open"},
		{body(link + link), "connect: connection 0 is open already"},
		{body(link + rw + rw), "a second transaction with a duration"},
		{body(link + rw + `<transaction><flowop type="read" options="size=1"/></transaction>`), "only disconnect can follow"},
		{body(`<transaction iterations="2"><flowop type="connect"/></transaction>`), "repeated, without a disconnect"},
		{body(link + `<transaction iterations="2"><flowop type="disconnect"/></transaction>`),
			"of a connection that is opened before it"},
		{`<profile><group nthreads="4095">` + link + `</group><group nprocs="2">` + link + `</group></profile>`,
			"4097 threads and processes"},
	} {
		_, err := Parse("p.xml", strings.NewReader(tc.in), unset)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "p.xml:") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\ngot  %v\nwant %s", tc.in, err, tc.want)
		}
	}
}

// TestParsesAsUperf: what is no XML and uperf's own parser takes, and what its
// options mean in its source.
func TestParsesAsUperf(t *testing.T) {
	udp := Flowop{Kind: Connect, Count: 1, Proto: workload.UDP}
	for name, tc := range map[string]struct {
		in   string
		want []Transaction
	}{
		"no quotes, no ends": {`<?xml version=1.0?><profile name = x ><group nthreads = 1>
			<transaction><flowop type=connect options=protocol=tcp /><flowop type=nop/>
			<transaction duration=30><flowop options='size=1 port=30001' type=write></transaction></transaction></group></profile>`,
			[]Transaction{{Iterations: 1, Flowops: []Flowop{{Kind: Connect, Count: 1}, {Kind: Nop, Count: 1}}},
				{Iterations: 1, Duration: 30 * time.Second, Flowops: []Flowop{{Kind: Write, Count: 1, Size: 1}}}}},
		"udp": {body(`<transaction rate="7" duration="2500ms"><flowop type="connect" options="remotehost=$h protocol=UDP wndsz=64KB cc=Reno"/>
			<flowop type="send" options="size=100 repeat=3 count=2 rsize=1k duration=3s"/><flowop type="recv" options="size=1.3k canfail timeout=20ms"/>
			<flowop type="disconnect" options="protocol=udp"/></transaction>`),
			[]Transaction{{Iterations: 1, Rate: 7, Duration: 2500 * time.Millisecond, Flowops: []Flowop{
				{Kind: Connect, Count: 1, Proto: workload.UDP, Window: 64 << 10, Congestion: "reno"},
				{Kind: Write, Count: 6, Size: 100, Proto: workload.UDP},
				{Kind: Read, Count: 1, Size: 1331, Proto: workload.UDP, CanFail: true, Timeout: 20 * time.Millisecond},
				{Kind: Disconnect, Count: 1}}}}},
		"both": {body(`<transaction><flowop type="connect" options="conn=1"/><flowop type="connect" options="conn=2 protocol=udp"/>
			<flowop type="write" options="conn=1 size=1 count=9 rsize=4 repeat=5"/><flowop type="read" options="conn=2 size=1"/>
			<flowop type="disconnect" options="conn=1"/><flowop type="disconnect" options="conn=2"/></transaction><transaction iterations="0"><flowop type=nop /></transaction>`),
			[]Transaction{
				{Iterations: 1,
					Flowops: []Flowop{{Kind: Connect, Count: 1, Conn: 1}, {Kind: Connect, Count: 1, Conn: 2, Proto: workload.UDP},
						{Kind: Write, Count: 9, Conn: 1, Size: 1, Chunk: 4},
						{Kind: Read, Count: 1, Conn: 2, Size: 1, Proto: workload.UDP},
						{Kind: Disconnect, Count: 1, Conn: 1}, {Kind: Disconnect, Count: 1, Conn: 2}}}}},
		"variable in small letters": {body(`<transaction iterations="$ITER"><flowop type="connect" options="protocol=udp"/><flowop type="disconnect"/></transaction>`),
			[]Transaction{{Iterations: 5, Flowops: []Flowop{udp, {Kind: Disconnect, Count: 1}}}}},
	} {
		p, err := Parse("p.xml", strings.NewReader(tc.in), func(n string) string { return map[string]string{"iter": "5"}[n] })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := bare(p).Groups[0].Transactions; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, tc.want)
		}
	}
}

// TestMirror: the server does what the client's flowops leave to it, and thinks as
// uperf's slave does; rsize is how much it moves at once.
func TestMirror(t *testing.T) {
	p := profile(t, link+`<transaction duration="9"><flowop type="write" options="size=8k count=10 rsize=24k"/>
		<flowop type="think" options="duration=10ms busy"/><flowop type="read" options="size=9"/></transaction>`)
	got, err := p.Groups[0].script(0, 0)
	want := []segment{
		{Steps: []step{{Count: 3, Size: 24 << 10}, {Count: 1, Size: 8 << 10},
			{Count: 1, Pause: 10 * time.Millisecond, Busy: true}, {Write: true, Count: 1, Size: 9}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(body(link))
	f.Add(body(link + `<transaction duration="5"><flowop type="write" options="size=rand(1,8k) count=2"/></transaction>`))
	f.Add(`<profile name="$x"><group nthreads="$x">`)
	for _, file := range shapes(f) {
		f.Add(string(file.Data))
	}
	f.Fuzz(func(t *testing.T, in string) {
		p, err := Parse("f.xml", strings.NewReader(in), func(n string) string { return n })
		if err != nil && !strings.HasPrefix(err.Error(), "f.xml:") {
			t.Errorf("no place in %v", err)
		}
		if err == nil && (p.Check() != nil || p.Strands() < 1 || p.Strands() > maxStrands) {
			t.Errorf("accepted %+v", p)
		}
		if err == nil {
			mirrored(t, p)
		}
	})
}

// mirrored holds what the server is told of a profile against what it refuses.
func mirrored(t *testing.T, p Profile) {
	for _, g := range p.Groups {
		for i, x := range g.Transactions {
			for k, f := range x.Flowops {
				if !f.opens() {
					continue
				}
				script, err := g.script(i, k)
				h := hello{Proto: f.Proto, Script: script, Duration: 1, Window: f.Window, Congestion: f.Congestion}
				if h.datagrams() {
					h.Token = strings.Repeat("t", tokenLength)
				}
				if err = errors.Join(err, h.check()); err != nil {
					t.Errorf("%+v in %+v: %v", f, g, err)
				}
			}
		}
	}
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

// TestUnder: a load's congestion control is that of connections for which the profile names
// none, and the profile stays as it is.
func TestUnder(t *testing.T) {
	p := profile(t, `<transaction><flowop type="connect" options="conn=1 cc=reno"/><flowop type="accept" options="conn=2"/><flowop type="connect" options="conn=3 protocol=udp"/></transaction>`)
	var got []string
	for _, q := range []Profile{p.under("bbr"), p} {
		for _, f := range q.Groups[0].Transactions[0].Flowops {
			got = append(got, f.Congestion)
		}
	}
	if want := []string{"reno", "bbr", "", "reno", "", ""}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

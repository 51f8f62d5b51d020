package decide

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

const (
	goodHeader = `{"format":"pathwise/evidence","version":1,"name":"x","unit":"bit/s"}` + "\n"
	goodRecord = `{"for_ns":100000000,"truth":{"a":5},"evidence":{"at_ns":0,"pair":"p","active":"a","paths":[{"network":"a","state":"up","buckets":64,"probe":{"rtt_s":0.1,"jitter_s":0,"loss":0,"samples":1,"age_s":0},"data":{"goodput":1}}],"load":{},"switch_loss":{"mean_s":0,"upper_s":0,"n":0}}}` + "\n"
)

func TestRecordingSaysWhatIsWrong(t *testing.T) {
	swap := func(old, new string) string { return goodHeader + strings.Replace(goodRecord, old, new, 1) }
	for _, tc := range []struct{ want, text string }{
		{`f.jsonl:1: format is missing: expected "pathwise/evidence"`,
			""},
		{`f.jsonl:1: format is "pathwise/samples": expected "pathwise/evidence"`,
			`{"format":"pathwise/samples","version":1}` + "\n"},
		{`f.jsonl:1: version is 9: this program reads 1 to 1`,
			`{"format":"pathwise/evidence","version":9}` + "\n"},
		{`f.jsonl:1: "for_ns" is no key of the format`,
			goodRecord},
		{`f.jsonl:2: "colour" is no key of the format`,
			swap(`"pair"`, `"colour":1,"pair"`)},
		{`f.jsonl:2: evidence.pair is empty`,
			swap(`"pair":"p"`, `"pair":""`)},
		{`f.jsonl:2: evidence.active is "z", which is not among the paths`,
			swap(`"active":"a"`, `"active":"z"`)},
		{`f.jsonl:2: evidence.paths[0].state is "fine": expected one of [up suspect failed ineligible]`,
			swap(`"up"`, `"fine"`)},
		{`f.jsonl:2: evidence.paths[0].buckets is 65: expected 0 to 64`,
			swap(`64`, `65`)},
		{`f.jsonl:2: evidence.paths[0].probe.rtt_s is -0.1: expected a figure of 0 or more`,
			swap(`0.1`, `-0.1`)},
		{`f.jsonl:2: evidence.paths.data.goodput is a string: expected float64`,
			swap(`{"goodput":1}`, `{"goodput":"1"}`)},
		{`f.jsonl:2: truth.b names none of the paths`,
			swap(`{"a":5}`, `{"b":5}`)},
		{`f.jsonl:2: truth.a is -5: expected a rate of 0 or more`,
			swap(`{"a":5}`, `{"a":-5}`)},
		{`f.jsonl:2: for_ns is 0: expected over 0 and up to a year`,
			swap(`100000000`, `0`)},
		{`f.jsonl:2: evidence.need is "speed": expected one of [throughput latency robust auto]`,
			swap(`"load"`, `"need":"speed","load"`)},
		{`f.jsonl:3: evidence.at_ns is 0, before the pair's last record ends at 100000000`,
			goodHeader + goodRecord + goodRecord},
		{`f.jsonl:2: more than one value on the line`,
			goodHeader + strings.TrimSpace(goodRecord) + "{}\n"},
		{`f.jsonl:2: no JSON: invalid character 'h' looking for beginning of value`,
			goodHeader + "hello\n"},
	} {
		want, text := tc.want, tc.text
		if _, err := ReadRecording("f.jsonl", strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// The line that a killed writer left half written is left out and told.
func TestRecordingCutShort(t *testing.T) {
	got, err := ReadRecording("f", strings.NewReader(goodHeader+goodRecord+goodRecord[:50]))
	if err != nil || !got.Truncated || len(got.Records) != 1 {
		t.Errorf("got %d records, truncated %v, %v", len(got.Records), got.Truncated, err)
	}
	if _, err := ReadRecording("f", strings.NewReader(goodHeader+strings.Repeat("x", longest+1))); err == nil {
		t.Error("an endless line was read")
	}
}

func TestRecordingRoundTrip(t *testing.T) {
	_, rec := Simulate(RandomSchedule(3, Shape{Phases: 2}), CostAware{}, 1)
	var b bytes.Buffer
	if err := WriteRecording(&b, rec); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecording("f", &b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, rec) {
		t.Error("what was read is not what was written")
	}
	if err := WriteRecord(&b, Record{}); err == nil {
		t.Error("a record without a length was written")
	}
}

func FuzzReadRecording(f *testing.F) {
	f.Add([]byte(goodHeader + goodRecord))
	f.Add([]byte(goodHeader + goodRecord[:80]))
	f.Add([]byte(table5))
	f.Add([]byte(goodHeader + strings.Replace(goodRecord, `"up"`, `"failed"`, 1)))
	f.Add([]byte(`{"format":"pathwise/evidence","version":1}{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		rec, err := ReadRecording("f", bytes.NewReader(text))
		if err != nil {
			return
		}
		// What is accepted can be written, read and replayed.
		var b bytes.Buffer
		if err := WriteRecording(&b, rec); err != nil {
			t.Fatalf("write what was read: %v", err)
		}
		again, err := ReadRecording("f", &b)
		if err != nil || len(again.Records) != len(rec.Records) {
			t.Fatalf("read what was written: %d of %d records, %v", len(again.Records), len(rec.Records), err)
		}
		for _, p := range []Policy{CostAware{}, Hysteresis{}, TablePolicy{Table: TableOfPriors(rec)},
			Static{Network: "a", Failover: true}} {
			checkResult(t, Replay(p, rec))
		}
	})
}

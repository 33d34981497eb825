package record

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// foreign is the least that another producer writes, with changes: a value of "-" drops the header.
func foreign(pairs ...string) *kgo.Record {
	r := &kgo.Record{Key: []byte("k"), Value: []byte("{}"), Timestamp: time.Unix(1_700_000_000, 0)}
	all := append([]string{"ce_specversion", "1.0", "ce_id", "1", "ce_source", "/s", "ce_type", "t"}, pairs...)
	last := map[string]int{}
	for i := 0; i < len(all); i += 2 {
		last[all[i]] = i
	}
	for i := 0; i < len(all); i += 2 {
		if last[all[i]] == i && all[i+1] != "-" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: all[i], Value: []byte(all[i+1])})
		}
	}
	return r
}

func structured(ctype, value string) *kgo.Record {
	return &kgo.Record{Key: []byte("k"), Value: []byte(value), Timestamp: time.Unix(1_700_000_000, 0),
		Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte(ctype)}}}
}

func TestDecodeForeign(t *testing.T) {
	t.Parallel()
	got, err := Decode(foreign("content-type", "text/plain", "other", "x"))
	if err != nil {
		t.Fatal(err)
	}
	want := &schemas.Event{
		ID: "1", Source: "/s", Type: "t", Entity: "k", Time: time.Unix(1_700_000_000, 0).UTC(), DataContentType: "text/plain",
		Version: schemas.Version{Kind: schemas.None}, Payload: schemas.Delta, Hash: schemas.HashBody([]byte("{}")), Data: []byte("{}"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, test := range []struct {
		name string
		r    *kgo.Record
		want schemas.EntityKey
	}{
		{"partitionkey first", foreign("ce_partitionkey", "k", "ce_subject", "s"), "k"},
		{"then subject", foreign("ce_subject", "s"), "s"},
		{"then key", foreign(), "k"},
	} {
		if e, err := Decode(test.r); err != nil || e.Entity != test.want {
			t.Errorf("%s: %v, %v", test.name, e, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	with := func(change func(*kgo.Record)) *kgo.Record { r := foreign(); change(r); return r }
	const ce = "application/cloudevents+json"
	const head = `{"specversion":"1.0","id":"1","source":"/s","type":"t",`
	for _, test := range []struct {
		name string
		r    *kgo.Record
		want string
	}{
		{"null value", with(func(r *kgo.Record) { r.Value = nil }), "value is null"},
		{"no entity", with(func(r *kgo.Record) { r.Key = nil }), "no entity"},
		{"null key beside partitionkey", func() *kgo.Record { r := foreign("ce_partitionkey", "k"); r.Key = nil; return r }(), "key is missing"},
		{"key differs", foreign("ce_partitionkey", "K"), "key is not the partitionkey"},
		{"key not UTF-8", with(func(r *kgo.Record) { r.Key = []byte{0xff} }), "entity: control_character: not UTF-8"},
		{"no specversion", foreign("ce_specversion", "-"), "specversion is missing"},
		{"specversion 0.3", foreign("ce_specversion", "0.3"), "specversion is not 1.0"},
		{"no id", foreign("ce_id", "-"), "id: missing_field"},
		{"empty id", foreign("ce_id", ""), "attribute id is empty"},
		{"long id", foreign("ce_id", strings.Repeat("x", 513)), "id: too_long"},
		{"control character", foreign("ce_id", "a\nb"), "control character U+000A"},
		{"surrogate bytes", foreign("ce_x", "\xed\xa0\x80"), "x: control_character: not UTF-8"},
		{"attribute twice", with(func(r *kgo.Record) { r.Headers = append(r.Headers, r.Headers[1]) }), "id is there twice"},
		{"extension twice", with(func(r *kgo.Record) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_x", Value: []byte{}}, kgo.RecordHeader{Key: "ce_x", Value: []byte{}})
		}), "x is there twice"},
		{"null attribute", with(func(r *kgo.Record) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_x"}) }), "null"},
		{"bad name", foreign("ce_a\nb", "1"), `"a\nb" does not name`},
		{"reserved name", foreign("ce_data", "1"), "does not name"},
		{"content type twice", with(func(r *kgo.Record) {
			h := kgo.RecordHeader{Key: "content-type", Value: []byte("a/b")}
			r.Headers = append(r.Headers, h, h)
		}), "content-type is there twice"},
		{"both content types", foreign("content-type", "a/b", "ce_datacontenttype", "a/b"), "datacontenttype is there twice"},
		{"bad time", foreign("ce_time", "2026-07-01T1:00:00Z"), "time is not an RFC 3339 time"},
		{"comma in time", foreign("ce_time", "2026-07-01T01:00:00,5Z"), "time is not an RFC 3339 time"},
		{"bad recordedtime", foreign("ce_recordedtime", "now"), "recordedtime is not"},
		{"version without kind", foreign("ce_entityversion", "00000000000000000001"), "bad_version"},
		{"kind without version", foreign("ce_versionkind", "sequence"), "bad_version"},
		{"unknown kind", foreign("ce_versionkind", "Sequence"), "bad_version"},
		{"short version", foreign("ce_versionkind", "sequence", "ce_entityversion", "1"), "bad_version"},
		{"epoch without a version", foreign("ce_versionkind", "sequence", "ce_entityversion", "e000001:"), "bad_version"},
		{"first without sequence", foreign("ce_versionfirst", "1"), "versionfirst: bad_version"},
		{"negative first", foreign("ce_versionfirst", "-1"), "versionfirst is not a counter"},
		{"payload kind", foreign("ce_payloadkind", "patch"), "payloadkind is neither"},
		{"deleted", foreign("ce_entitydeleted", "yes"), "entitydeleted is not a Boolean"},
		{"backfill", foreign("ce_backfill", "1"), "backfill is not a Boolean"},
		{"hash", foreign("ce_bodyhash", "zz"), "bodyhash is not"},
		{"hash not hex", foreign("ce_bodyhash", strings.Repeat("z", 32)), "bodyhash is not"},
		{"batch", structured("application/cloudevents-batch+json", "[]"), "is not read on Kafka"},
		{"avro", structured("application/cloudevents+avro", "x"), "is not read on Kafka"},
		{"charset", structured(ce+"; charset=latin1", head+`"data":1}`), "charset"},
		{"not JSON", structured(ce, "{"), "not JSON"},
		{"not UTF-8", structured(ce, "\"\xff\""), "not UTF-8"},
		{"not an object", structured(ce, " [1]"), "not an object"},
		{"empty object", structured(ce, "{ }"), "specversion is missing"},
		{"both data", structured(ce, head+`"data":1,"data_base64":"AA=="}`), "both there"},
		{"base64", structured(ce, head+`"data_base64":"A"}`), "not base64"},
		{"base64 with a line", structured(ce, head+`"data_base64":"AA\n=="}`), "not base64"},
		{"base64 number", structured(ce, head+`"data_base64":1}`), "not a string"},
		{"member twice", structured(ce, head+`"id":"2"}`), `"id" is there twice`},
		{"member twice by escape", structured(ce, head+`"\u0069d":"2"}`), `"id" is there twice`},
		{"data twice", structured(ce, head+`"data":1,"data":1}`), `"data" is there twice`},
		{"unpaired surrogate", structured(ce, head+`"x":"\ud800"}`), "unpaired surrogate"},
		{"surrogate in a name", structured(ce, head+`"\ud800":"1"}`), "unpaired surrogate"},
		{"control by escape", structured(ce, head+`"x":"\u0000"}`), "control character U+0000"},
		{"object attribute", structured(ce, head+`"x":{}}`), "object or an array"},
		{"long number", structured(ce, head+`"x":2147483648}`), "32-bit"},
		{"fraction", structured(ce, head+`"x":1.5}`), "32-bit"},
		{"upper-case name", structured(ce, head+`"Subject":"1"}`), "does not name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e, err := Decode(test.r)
			if err == nil {
				t.Fatalf("decoded as %+v", e)
			}
			if schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", schemas.KindOf(err), err, test.want)
			}
		})
	}
}

func TestDecodeStructured(t *testing.T) {
	t.Parallel()
	const head = `{"specversion":"1.0","id":"1","source":"/s","type":"t",`
	for _, test := range []struct{ name, rest, data, ctype string }{
		{"object", `"data" : { "a" : "}\"" } , "x":null}`, `{ "a" : "}\"" }`, "application/json"},
		{"number kept", `"data":12345678901234567890.10}`, `12345678901234567890.10`, "application/json"},
		{"null", `"data":null}`, `null`, "application/json"},
		{"array", `"data":[[],{}]}`, `[[],{}]`, "application/json"},
		{"json string", `"data":"x","datacontenttype":"a/b+json; v=1"}`, `"x"`, "a/b+json; v=1"},
		{"text", `"data":"x\n\ud83d\ude00","datacontenttype":"text/plain"}`, "x\n😀", "text/plain"},
		{"object under text", `"data":{"a":1},"datacontenttype":"text/plain"}`, `{"a":1}`, "text/plain"},
		{"bytes", `"data_base64":"AP8=","datacontenttype":"a/b"}`, "\x00\xff", "a/b"},
		{"null bytes", `"data_base64":null,"data":1}`, "1", "application/json"},
		{"none", `"y":"1"}`, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e, err := Decode(structured("Application/CloudEvents+JSON; Charset=\"UTF-8\"", head+test.rest))
			if err != nil {
				t.Fatal(err)
			}
			if string(e.Data) != test.data || e.Data == nil || e.DataContentType != test.ctype {
				t.Errorf("data %q (%s), want %q (%s)", e.Data, e.DataContentType, test.data, test.ctype)
			}
		})
	}
}

// Every scenario of the CloudEvents conformance suite's Kafka feature. They say nothing of the key, which we need where there is no subject.
func TestConformance(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/cloudevents.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		ID      string
		Headers map[string]string
		Body    string
		Expect  struct {
			Attributes map[string]string
			Data       any
		}
	}
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) != 3 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		r := &kgo.Record{Key: []byte("k"), Value: []byte(c.Body)}
		for name, value := range c.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		e, err := Decode(r)
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		got := map[string]string{"id": e.ID, "specversion": "1.0", "type": e.Type, "source": e.Source,
			"time": e.Time.Format(time.RFC3339), "datacontenttype": e.DataContentType}
		if diff := cmp.Diff(c.Expect.Attributes, got); diff != "" {
			t.Errorf("%s: %s", c.ID, diff)
		}
		var data any
		if err := json.Unmarshal(e.Data, &data); err != nil || !cmp.Equal(data, c.Expect.Data) {
			t.Errorf("%s: data %s, %v", c.ID, e.Data, err)
		}
	}
}

package record

import (
	"bytes"
	gocmp "cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
)

// event is a full event, as GitHub's would be.
func event() *schemas.Event {
	return &schemas.Event{
		ID: "72d3162e-cc78-11e3-81ab-4c9367dc0958", Source: "/acme/github", Type: "com.github.issues.labeled",
		Entity: schemas.NewEntityKey("186853002", "42"),
		Time:   time.Date(2026, 7, 1, 16, 45, 22, 391_000_000, time.UTC), RecordedTime: time.Date(2026, 7, 1, 16, 45, 23, 1, time.UTC),
		DataContentType: "application/json", DataSchema: "https://example.com/schema",
		Version: schemas.Version{Clock: "issue", Kind: schemas.Sequence, Value: 17, Sub: 2}, First: new(int64(1)),
		Payload: schemas.Snapshot, Deleted: true, Backfill: true, Hash: schemas.HashBody([]byte("{}")),
		TraceParent: "00-12345678901234567890123456789012-1234567890123456-01", TraceState: "a=b",
		Headers:    []schemas.Header{{Name: "x-github-event", Value: "issues"}, {Name: "x-hub-signature-256", Value: "sha256=\xff\t"}},
		Extensions: map[string]string{"tenant": "ü", "empty": ""},
		Data:       []byte("{\"a\": 1}\n"),
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	e := event()
	r := Encode("events.acme.github", e)
	if r.Topic != "events.acme.github" || string(r.Key) != "186853002/42" || &r.Value[0] != &e.Data[0] {
		t.Errorf("topic %q, key %q, value %q", r.Topic, r.Key, r.Value)
	}
	got, err := Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Error(diff)
	}
}

func TestEncodeHeaders(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"ce_specversion": "1.0", "ce_id": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "ce_source": "/acme/github",
		"ce_type": "com.github.issues.labeled", "ce_time": "2026-07-01T16:45:22.391Z",
		"ce_recordedtime": "2026-07-01T16:45:23.000000001Z", "ce_subject": "186853002/42",
		"ce_partitionkey": "186853002/42", "ce_entityversion": "00000000000000000017+00002",
		"ce_versionkind": "sequence", "ce_versionclock": "issue", "ce_versionfirst": "1", "ce_payloadkind": "snapshot",
		"ce_entitydeleted": "true", "ce_backfill": "true", "ce_bodyhash": schemas.HashBody([]byte("{}")).String(),
		"ce_dataschema":  "https://example.com/schema",
		"ce_traceparent": "00-12345678901234567890123456789012-1234567890123456-01", "ce_tracestate": "a=b",
		"traceparent": "00-12345678901234567890123456789012-1234567890123456-01", "tracestate": "a=b",
		"content-type": "application/json", "http_x-github-event": "issues",
		"http_x-hub-signature-256": "sha256=\xff\t", "ce_tenant": "ü", "ce_empty": "",
	}
	if diff := cmp.Diff(want, headers(t, Encode("t", event()))); diff != "" {
		t.Error(diff)
	}
	least := &schemas.Event{ID: "1", Source: "/a/b", Type: "t", Entity: "e", Time: time.Unix(0, 0), Payload: schemas.Delta,
		Version: schemas.Version{Kind: schemas.None}}
	want = map[string]string{
		"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/a/b", "ce_type": "t", "ce_subject": "e", "ce_partitionkey": "e",
		"ce_time": "1970-01-01T00:00:00Z", "ce_versionkind": "none", "ce_payloadkind": "delta",
		"ce_bodyhash": strings.Repeat("0", 32),
	}
	r := Encode("t", least)
	if diff := cmp.Diff(want, headers(t, r)); diff != "" {
		t.Error(diff)
	}
	if r.Value == nil || len(r.Value) != 0 {
		t.Errorf("value %v, want empty and not null", r.Value)
	}
}

// The id that a registry has for the schema is one header more. It is the next record's no more, and goes along with the event that is read of the record.
func TestSchemaIDHeader(t *testing.T) {
	t.Parallel()
	w, e := Encoder{SchemaID: []byte{0, 0, 0, 0, 7}}, event()
	plain, ids := Encode("t", e), 0
	with := w.Encode("t", e)
	for _, h := range with.Headers {
		if h.Key == "__value_schema_id" && bytes.Equal(h.Value, []byte{0, 0, 0, 0, 7}) {
			ids++
		}
	}
	if ids != 1 || len(with.Headers) != len(plain.Headers)+1 || !bytes.Equal(with.Value, plain.Value) {
		t.Errorf("%d of %d headers, %q", ids, len(with.Headers), with.Value)
	}
	got, err := Decode(with)
	want, err2 := Decode(plain)
	want.SchemaID = "\x00\x00\x00\x00\x07"
	if d := cmp.Diff(want, got); d != "" || err != nil || err2 != nil {
		t.Error(d, err, err2)
	}
	packed, err := UnpackEvent(PackEvent(got))
	if err != nil || packed.SchemaID != want.SchemaID {
		t.Errorf("packed: %q %v", packed.SchemaID, err)
	}
	w.SchemaID = nil
	if n := len(w.Encode("t", e).Headers); n != len(plain.Headers) {
		t.Errorf("%d headers", n)
	}
}

// A version that is a text stands behind "=" in ce_entityversion.
func TestRoundTripOfAWord(t *testing.T) {
	t.Parallel()
	e := event()
	e.First, e.Version = nil, schemas.Version{Clock: "doc", Kind: schemas.Monotonic, Text: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Sub: 2}
	r := Encode("t", e)
	if got := headers(t, r)["ce_entityversion"]; got != "=01ARZ3NDEKTSV4RRFFQ69G5FAV +00002" {
		t.Errorf("ce_entityversion %q", got)
	}
	got, err := Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Error(diff)
	}
}

func headers(t *testing.T, r *kgo.Record) map[string]string {
	t.Helper()
	m := make(map[string]string)
	for _, h := range r.Headers {
		if _, ok := m[h.Key]; ok {
			t.Errorf("header %s twice", h.Key)
		}
		m[h.Key] = string(h.Value)
	}
	return m
}

// A header's value is clipped: a reader that appends to it does not write its neighbour.
func TestEncodeClips(t *testing.T) {
	t.Parallel()
	r := Encode("t", event())
	for _, h := range r.Headers {
		_ = append(h.Value, "!!!!"...)
	}
	if got, err := Decode(r); err != nil || !cmp.Equal(got, event()) {
		t.Errorf("Decode: %v, %s", err, cmp.Diff(event(), got))
	}
}

// A provider that posts CloudEvents itself must not make its record look structured.
func TestCloudEventsAsData(t *testing.T) {
	t.Parallel()
	e := event()
	e.DataContentType = "Application/CloudEvents+json; charset=utf-8"
	got, err := Decode(Encode("t", e))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Error(diff)
	}
}

func TestSetHop(t *testing.T) {
	t.Parallel()
	r := Encode("t", event())
	SetHop(r, "00-1-2-01", "")
	h := headers(t, r)
	if h["traceparent"] != "00-1-2-01" || h["tracestate"] != "" || h["ce_traceparent"] != event().TraceParent {
		t.Errorf("hop %q %q, creation %q", h["traceparent"], h["tracestate"], h["ce_traceparent"])
	}
	SetHop(r, "", "x=y")
	if _, ok := headers(t, r)["traceparent"]; ok {
		t.Error("an empty parent leaves the hop")
	}
}

func TestLargeBody(t *testing.T) {
	t.Parallel()
	e := event()
	e.Data = bytes.Repeat([]byte{0, 0xff, '\n'}, 1<<20/3)
	e.Hash = schemas.HashBody(e.Data)
	r := Encode("t", e)
	size := len(r.Key)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
	}
	if size > 4096 {
		t.Errorf("headers and key weigh %d bytes, the topic has room for less", size)
	}
	u, err := Unpack(Pack(r))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(u); err != nil || !bytes.Equal(got.Data, e.Data) {
		t.Errorf("Decode of the unpacked: %v", err)
	}
}

// TestPackEvent packs an event and reads it back, and refuses bytes that are no record or whose record is no event.
func TestPackEvent(t *testing.T) {
	t.Parallel()
	e := &schemas.Event{ID: "1", Source: "/a/b", Type: "t", Entity: "e", Time: time.Unix(1_700_000_000, 0).UTC(), Payload: schemas.Delta,
		Version: schemas.Version{Kind: schemas.None}, Data: []byte("{}")}
	e.Hash = schemas.HashBody(e.Data)
	got, err := UnpackEvent(PackEvent(e))
	if diff := cmp.Diff(e, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for name, packed := range map[string][]byte{"no record": []byte("{}"), "no event": Pack(&kgo.Record{Key: []byte("e"), Value: []byte("{}")})} {
		if _, err := UnpackEvent(packed); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPackedSize is about numbers whose length changes, and lengths that are written with one byte more.
func TestPackedSize(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.SampledFrom([]int64{0, -1, 63, 64, -64, -65, 1<<31 - 1, -1 << 31, math.MaxInt64, math.MinInt64}), rapid.Int64())
		text := func(name string) []byte {
			n := rapid.SampledFrom([]int{-1, 0, 1, 126, 127, 128, 16382, 16383, 16384}).Draw(t, name)
			if n < 0 {
				return nil
			}
			return make([]byte, n)
		}
		r := &kgo.Record{Timestamp: time.Unix(number.Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")),
			Topic: string(text("topic")), Partition: int32(number.Draw(t, "partition")), Offset: number.Draw(t, "offset"),
			LeaderEpoch: int32(number.Draw(t, "epoch")), Key: text("key"), Value: text("value")}
		for range rapid.SampledFrom([]int{0, 1, 127, 128}).Draw(t, "headers") {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "k", Value: text("header")})
		}
		if got := len(Pack(r)); got != PackedSize(r) {
			t.Fatalf("%d bytes packed, PackedSize said %d", got, PackedSize(r))
		}
	})
}

func isContext(p cmp.Path) bool {
	name := p.Last().String()
	return name == ".Context" || name == ".recyclers" || name == ".cancelingCtx"
}

// What is written, packed and unpacked is read as it was; and what an Encoder made before leaves nothing in what it makes next.
func TestRoundTripProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var w Encoder
		for range rapid.IntRange(1, 2).Draw(t, "events") {
			e := drawEvent(t)
			if err := e.Validate(); err != nil {
				t.Fatalf("drawn event: %v", err)
			}
			r := w.Encode("t", e)
			u, err := Unpack(Pack(r))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, u, cmp.AllowUnexported(kgo.RecordAttrs{}), cmp.FilterPath(isContext, cmp.Ignore())); diff != "" {
				t.Fatal(diff)
			}
			got, err := Decode(u)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e, got); diff != "" {
				t.Fatal(diff)
			}
			sorted := func(r *kgo.Record) []kgo.RecordHeader { // extensions are in no order
				return slices.SortedFunc(slices.Values(r.Headers), func(a, b kgo.RecordHeader) int {
					return gocmp.Or(strings.Compare(a.Key, b.Key), bytes.Compare(a.Value, b.Value))
				})
			}
			fresh := Encode("t", e)
			if diff := cmp.Diff(sorted(fresh), sorted(r)); diff != "" || !bytes.Equal(fresh.Key, r.Key) || r.Topic != "t" {
				t.Fatalf("key %q, %s", r.Key, diff)
			}
		}
	})
	var w Encoder
	w.Encode("t", event())
	if w.Forget(); w.record.Value != nil {
		t.Error("the body is kept")
	}
}

var drawText = rapid.StringOf(rapid.RuneFrom([]rune("aZ09-._~:/ %\"\\éü€語😀")))

func drawEvent(t *rapid.T) *schemas.Event {
	text := func(name string, low, high int) string {
		return drawText.Filter(func(s string) bool { return len(s) >= low && len(s) <= high }).Draw(t, name)
	}
	when := func(name string) time.Time {
		return time.Unix(rapid.Int64Range(-62135596799, 253402300799).Draw(t, name), rapid.Int64Range(0, 999_999_999).Draw(t, name+"ns")).UTC()
	}
	e := &schemas.Event{
		ID: text("id", 1, 512), DeliveryID: text("delivery", 0, 512), Title: text("title", 0, 512),
		Sender: schemas.Sender{ID: text("sender", 0, 512), Login: text("login", 0, 512), Kind: rapid.SampledFrom([]schemas.SenderKind{"", schemas.Human, schemas.Automation, schemas.Own}).Draw(t, "sender kind"),
			Trust: rapid.SampledFrom([]schemas.Trust{"", schemas.Owner, schemas.FirstTime, schemas.NoPart}).Draw(t, "trust")},
		Conversation: rapid.Bool().Draw(t, "conversation"),
		Source:       text("source", 1, 512), Type: text("type", 1, 512),
		Entity: schemas.NewEntityKey(text("e1", 1, 80), text("e2", 0, 80)), Time: when("time"), RecordedTime: when("recorded"),
		DataContentType: rapid.SampledFrom([]string{"", "application/json", "text/plain;\tcharset=x", "application/cloudevents+json"}).Draw(t, "ctype"),
		DataSchema:      text("schema", 0, 80), TraceParent: text("parent", 0, 80), TraceState: text("state", 0, 80),
		Version: drawVersion(t), Payload: rapid.SampledFrom([]schemas.PayloadKind{schemas.Snapshot, schemas.Delta}).Draw(t, "payload"),
		Deleted: rapid.Bool().Draw(t, "deleted"), Backfill: rapid.Bool().Draw(t, "backfill"), Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
	}
	e.Version.Clock = text("clock", 0, 64)
	if rapid.Bool().Draw(t, "called") {
		e.Chain.Agents = rapid.SliceOfN(rapid.StringMatching(`[!-+\-~]{1,40}`), 1, 64).Draw(t, "agents")
		e.Chain.Depth = len(e.Chain.Agents) + rapid.IntRange(0, 9).Draw(t, "deeper")
		e.Chain.TraceID = rapid.StringMatching(`[!-~]{0,40}`).Draw(t, "trace")
	}
	if e.Version.Kind == schemas.Sequence && rapid.Bool().Draw(t, "hasFirst") {
		e.First = new(rapid.Int64Range(0, 1<<62).Draw(t, "first"))
	}
	copy(e.Hash[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "hash"))
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		e.Headers = append(e.Headers, schemas.Header{Name: text("hname", 1, 20), Value: string(rapid.SliceOf(rapid.Byte()).Draw(t, "hvalue"))})
	}
	for range rapid.IntRange(0, 3).Draw(t, "extensions") {
		if e.Extensions == nil {
			e.Extensions = map[string]string{}
		}
		e.Extensions[rapid.StringMatching("x[a-z0-9]{0,18}").Draw(t, "ename")] = text("evalue", 0, 80)
	}
	return e
}

func drawVersion(t *rapid.T) schemas.Version {
	v := schemas.Version{Kind: rapid.SampledFrom([]schemas.VersionKind{schemas.Sequence, schemas.Monotonic, schemas.Timestamp, schemas.None}).Draw(t, "kind")}
	low := int64(0)
	if v.Kind != schemas.None && rapid.Bool().Draw(t, "epochs") {
		v.Epoch = rapid.Int64Range(1, schemas.MaxEpoch).Draw(t, "epoch")
	}
	switch v.Kind {
	case schemas.None:
		return v
	case schemas.Timestamp:
		low = schemas.MinTimestamp.UnixNano()
	case schemas.Monotonic:
		if rapid.Bool().Draw(t, "words") {
			v.Text = rapid.StringMatching("[!-~]{1,64}").Draw(t, "word")
			v.Sub = rapid.Int32Range(0, schemas.MaxSub).Draw(t, "sub")
			return v
		}
	}
	v.Value = rapid.Int64Range(low, schemas.MaxTimestamp.UnixNano()).Draw(t, "value")
	v.Sub = rapid.Int32Range(0, schemas.MaxSub).Draw(t, "sub")
	return v
}

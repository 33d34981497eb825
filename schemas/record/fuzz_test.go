package record

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// FuzzUnpack: hostile bytes never panic, and what unpacks decodes or is refused; what decodes is encoded again and
// read back equal.
func FuzzUnpack(f *testing.F) {
	f.Add(Pack(Encode("events.acme.github", event())))
	f.Add(Pack(foreign("ce_subject", "s")))
	f.Add(Pack(foreign("ce_versionkind", "monotonic", "ce_entityversion", "=01ARZ3NDEKTSV4RRFFQ69G5FAV +00001")))
	f.Add(Pack(foreign("ce_versionkind", "sequence", "ce_entityversion", "e000002:00000000000000000001")))
	f.Add(Pack(foreign("ce_versionkind", "timestamp", "ce_entityversion", "e999999:2026-07-01T16:45:22.000005000Z+00001")))
	f.Add(Pack(structured("application/cloudevents+json", `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":[1]}`)))
	f.Add([]byte{packVersion})
	f.Add(append([]byte{packVersion, 0, 0, 1, 0, 0, 0, 0, 0}, 0xff, 0xff, 0xff, 0xff, 0x0f))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Unpack(b)
		if err != nil {
			return
		}
		again, err := Unpack(Pack(r))
		if err != nil || !bytes.Equal(Pack(again), Pack(r)) || !again.Timestamp.Equal(r.Timestamp) {
			t.Fatalf("packed again: %v", err)
		}
		if got := len(Pack(r)); got != PackedSize(r) {
			t.Fatalf("%d bytes packed, PackedSize said %d", got, PackedSize(r))
		}
		checkDecode(t, r)
	})
}

// FuzzStructured: no JSON panics, and what decodes is encoded again and read back equal.
func FuzzStructured(f *testing.F) {
	for _, s := range []string{
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":"x","data":{"a":[1,"}"]}}`,
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"AP8=","entitydeleted":true,"backfill":true,"x":-1}`,
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":"\ud83d\ude00","datacontenttype":"text/plain"}`,
		`{"a":"\ud800"}`, `[]`, ` `, `{"a" : 1e5 , "a":tru`, `"\u12`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if value == nil {
			value = []byte{}
		}
		checkDecode(t, structured("application/cloudevents+json", string(value)))
	})
}

func checkDecode(t *testing.T, r *kgo.Record) {
	e, err := Decode(r)
	if err != nil {
		return
	}
	got, err := Decode(Encode(r.Topic, e))
	if err != nil {
		t.Fatalf("what was read is not written: %v", err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Fatal(diff)
	}
}

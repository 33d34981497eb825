package cesdk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	bindingtest "github.com/cloudevents/sdk-go/v2/binding/test"
	"github.com/cloudevents/sdk-go/v2/binding/transformer"
	"github.com/cloudevents/sdk-go/v2/event"
	sdktest "github.com/cloudevents/sdk-go/v2/test"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/schemas/record/cesdk"
)

// Every event that the SDK says a binding must handle, as each kind of message that it has, comes back equal in the mode that was asked
// for; and our own reader sees the same event.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	full, least, plain := sdktest.FullEvent(), sdktest.MinEvent(), sdktest.FullEvent()
	full.SetExtension("partitionkey", "orders/7")
	plain.SetSubject("")
	if err := plain.SetData("application/octet-stream", []byte{0, 0xff, '\n'}); err != nil {
		t.Fatal(err)
	}
	for _, in := range []event.Event{full, sdktest.FullEvent(), least, plain} {
		for name, message := range map[string]binding.Message{
			"event": binding.ToMessage(&in), "binary": bindingtest.MustCreateMockBinaryMessage(in), "structured": bindingtest.MustCreateMockStructuredMessage(t, in),
		} {
			for _, mode := range []binding.Encoding{binding.EncodingBinary, binding.EncodingStructured} {
				t.Run(in.ID()+" of "+name+" as "+mode.String(), func(t *testing.T) {
					t.Parallel()
					ctx := binding.WithForceBinary(t.Context())
					if mode == binding.EncodingStructured {
						ctx = binding.WithForceStructured(t.Context())
					}
					r := &kgo.Record{Key: []byte("caller's"), Headers: []kgo.RecordHeader{{Key: "mine", Value: []byte("1")}, {Key: "ce_id", Value: []byte("old")}}}
					err := cesdk.WriteRecord(ctx, message, r)
					if name == "binary" && mode == binding.EncodingStructured && in.DataContentType() == "application/octet-stream" {
						if err == nil { // the SDK forgets which data needs base64 when it makes an event of a binary message
							t.Fatal("bytes that are no text were written into JSON as they are")
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if r.Headers[0].Key != "mine" {
						t.Errorf("a header of the caller is gone: %+v", r.Headers)
					}
					read := cesdk.NewMessage(r)
					if read.ReadEncoding() != mode {
						t.Fatalf("encoding is %s, want %s", read.ReadEncoding(), mode)
					}
					got := sdktest.MustToEvent(t, t.Context(), read)
					want := sdktest.ConvertEventExtensionsToString(t, in)
					sdktest.AssertEventEquals(t, want, sdktest.ConvertEventExtensionsToString(t, got))

					r.Timestamp = time.Now()
					e, err := record.Decode(r)
					if err != nil {
						t.Fatal(err)
					}
					key := "caller's"
					if in.Subject() != "" {
						key = in.Subject()
					}
					if k, ok := in.Extensions()["partitionkey"]; ok {
						key = k.(string)
					}
					if string(r.Key) != key || e.ID != in.ID() || e.Type != in.Type() || string(e.Data) != string(in.Data()) || r.Value == nil {
						t.Errorf("key %q (want %q), event %+v", r.Key, key, e)
					}
				})
			}
		}
	}
}

// A record of ours, with all that the gate needs on it, goes through the SDK without losing any of that.
func TestThroughTheSDK(t *testing.T) {
	t.Parallel()
	in := &schemas.Event{
		ID: "1 ü%20\"😀\\", DeliveryID: "d1", Source: "/acme/github", Type: "com.github.issues.edited", Entity: schemas.NewEntityKey("186853002", "ü /4%"),
		Time: time.Date(2026, 7, 1, 16, 45, 22, 5000, time.UTC), RecordedTime: time.Date(2026, 7, 1, 16, 45, 23, 0, time.UTC),
		DataContentType: "application/json", Version: schemas.Version{Clock: "issue", Kind: schemas.Sequence, Epoch: 2, Value: 7},
		First: new(int64(1)), Payload: schemas.Snapshot, Deleted: true, Backfill: true, Hash: schemas.HashBody([]byte(`{}`)),
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Data: []byte(`{"a": 1}`),
	}
	for _, structured := range []bool{false, true} {
		ctx := t.Context()
		if structured {
			ctx = binding.WithForceStructured(ctx)
		}
		out := &kgo.Record{}
		if err := cesdk.WriteRecord(ctx, cesdk.NewMessage(record.Encode("t", in)), out, transformer.AddExtension("tenant", "a ü%\"😀")); err != nil {
			t.Fatal(err)
		}
		got, err := record.Decode(out)
		if err != nil {
			t.Fatal(err)
		}
		want := *in
		want.Extensions = map[string]string{"tenant": "a ü%\"😀"}
		if structured {
			want.Data, got.Data = nil, nil // the SDK's format takes out the blanks of JSON
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("structured %t:\n%s", structured, diff)
		}
	}
}

// What the SDK writes, binary and structured, we read equal.
func TestSDKWrites(t *testing.T) {
	t.Parallel()
	when := time.Date(2026, 7, 1, 16, 45, 22, 5000, time.UTC)
	for _, test := range []struct {
		name  string
		ctype string
		data  []byte
		build func(*event.Event)
		want  func(*schemas.Event)
	}{
		{"json", "application/json", []byte(`{"a":[1,"}"],"b":12345678901234567890}`), nil, nil},
		{"text", "text/plain", []byte("héllo\n\"x\""), nil, nil},
		{"bytes", "application/octet-stream", []byte{0, 1, 0xff}, nil, nil},
		{"extensions", "application/json", []byte(`1`), func(e *event.Event) {
			e.SetExtension("tenant", "ü \"quoted\"")
			e.SetExtension("count", int32(-7))
			e.SetExtension("flag", true)
			e.SetExtension("entitydeleted", true)
			e.SetExtension("backfill", true)
			e.SetExtension("deliveryid", "72d3162e")
			e.SetExtension("payloadkind", "snapshot")
			e.SetExtension("versionkind", "monotonic")
			e.SetExtension("entityversion", "00000000000000000005")
		}, func(e *schemas.Event) {
			e.Extensions = map[string]string{"tenant": "ü \"quoted\"", "count": "-7", "flag": "true"}
			e.DeliveryID = "72d3162e"
			e.Deleted, e.Backfill, e.Payload, e.Version = true, true, schemas.Snapshot, schemas.Version{Kind: schemas.Monotonic, Value: 5}
		}},
		{"a version that is a text", "application/json", []byte(`1`), func(e *event.Event) {
			e.SetExtension("versionkind", "monotonic")
			e.SetExtension("entityversion", "=2026%\"w +00007")
		}, func(e *schemas.Event) {
			e.Version = schemas.Version{Kind: schemas.Monotonic, Text: `2026%"w`, Sub: 7}
		}},
		{"a version of an epoch", "application/json", []byte(`1`), func(e *event.Event) {
			e.SetExtension("versionkind", "sequence")
			e.SetExtension("entityversion", "e000002:00000000000000000001")
		}, func(e *schemas.Event) {
			e.Version = schemas.Version{Kind: schemas.Sequence, Epoch: 2, Value: 1}
		}},
	} {
		for _, structured := range []bool{false, true} {
			t.Run(test.name+map[bool]string{false: "/binary", true: "/structured"}[structured], func(t *testing.T) {
				t.Parallel()
				in := event.New()
				in.SetID("1")
				in.SetSource("https://example.com/s")
				in.SetType("com.example")
				in.SetSubject("order/7")
				in.SetTime(when)
				if err := in.SetData(test.ctype, test.data); err != nil {
					t.Fatal(err)
				}
				if test.build != nil {
					test.build(&in)
				}
				ctx := t.Context()
				if structured {
					ctx = binding.WithForceStructured(ctx)
				}
				r := &kgo.Record{}
				if err := cesdk.WriteRecord(ctx, binding.ToMessage(&in), r); err != nil {
					t.Fatal(err)
				}
				got, err := record.Decode(r)
				if err != nil {
					t.Fatal(err)
				}
				want := &schemas.Event{
					ID: "1", Source: "https://example.com/s", Type: "com.example", Entity: "order/7", Time: when,
					DataContentType: test.ctype, Payload: schemas.Delta, Version: schemas.Version{Kind: schemas.None},
					Hash: schemas.HashBody(test.data), Data: test.data,
				}
				if test.want != nil {
					test.want(want)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	binary := []string{"ce_specversion", "1.0", "ce_id", "1", "ce_type", "t", "ce_source", "/s"}
	for _, test := range []struct {
		name    string
		headers []string
		want    string
	}{
		{"no CloudEvent", []string{"content-type", "application/json"}, "unknown"},
		{"a batch", []string{"content-type", "application/cloudevents-batch+json"}, "a batch"},
		{"a batch in capitals", []string{"content-type", " Application/CloudEvents-Batch+JSON; charset=utf-8"}, "a batch"},
		{"another format", []string{"content-type", "application/cloudevents+avro"}, "no event format"},
		{"another specversion", []string{"ce_specversion", "2.0"}, "unknown"},
		{"an id twice", append([]string{"ce_id", "2"}, binary...), `"ce_id" is there twice`},
		{"a content type twice", append([]string{"content-type", "a/b", "content-type", "c/d"}, binary...), "twice"},
		{"a time that is none", append([]string{"ce_time", "yesterday"}, binary...), `header "ce_time"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := &kgo.Record{Value: []byte(`[]`)}
			for i := 0; i < len(test.headers); i += 2 {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: test.headers[i], Value: []byte(test.headers[i+1])})
			}
			e, err := binding.ToEvent(t.Context(), cesdk.NewMessage(r))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("event %v, error %v, want %q", e, err, test.want)
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	old := sdktest.FullEvent()
	old.SetSpecVersion(event.CloudEventsVersionV03)
	least := sdktest.MinEvent()
	batch := &kgo.Record{Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/cloudevents-batch+json")}}, Value: []byte(`[]`)}
	for _, test := range []struct {
		name string
		in   binding.Message
		want string
	}{
		{"nothing to key by", binding.ToMessage(&least), "no entity"},
		{"another specversion", binding.ToMessage(&old), "specversion is not 1.0"},
		{"no CloudEvent", bindingtest.UnknownMessage, "unknown"},
		{"a batch that was read", cesdk.NewMessage(batch), "a batch"},
		{"a batch of the SDK's", &bindingtest.MockStructuredMessage{Format: format.JSONBatch, Bytes: []byte(`[]`)}, "one by one"},
		{"not JSON", &bindingtest.MockStructuredMessage{Format: format.JSON, Bytes: []byte(`{"id"`)}, "write record"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := cesdk.WriteRecord(t.Context(), test.in, &kgo.Record{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

package record

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	sdk "github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
)

// The CloudEvents SDK is the oracle: it has no binding for kgo, so here is one, written from the specification's
// words and without a line shared with the package.

var sdkSpecs = spec.WithPrefix("ce_")

// message reads a record as the SDK would.
type message struct{ r *kgo.Record }

var (
	_ binding.Message               = message{}
	_ binding.MessageMetadataReader = message{}
)

func (m message) header(name string) (string, bool) {
	for _, h := range m.r.Headers {
		if h.Key == name {
			return string(h.Value), true
		}
	}
	return "", false
}

func (m message) ReadEncoding() binding.Encoding {
	ctype, _ := m.header("content-type")
	if format.IsFormat(ctype) {
		return binding.EncodingStructured
	}
	if v, ok := m.header("ce_specversion"); ok && sdkSpecs.Version(v) != nil {
		return binding.EncodingBinary
	}
	return binding.EncodingUnknown
}

func (m message) ReadStructured(ctx context.Context, w binding.StructuredWriter) error {
	if m.ReadEncoding() != binding.EncodingStructured {
		return binding.ErrNotStructured
	}
	ctype, _ := m.header("content-type")
	return w.SetStructuredEvent(ctx, format.Lookup(ctype), bytes.NewReader(m.r.Value))
}

func (m message) ReadBinary(ctx context.Context, w binding.BinaryWriter) error {
	v, _ := m.header("ce_specversion")
	version := sdkSpecs.Version(v)
	for _, h := range m.r.Headers {
		var err error
		switch {
		case h.Key == "content-type":
			err = w.SetAttribute(version.AttributeFromKind(spec.DataContentType), string(h.Value))
		case strings.HasPrefix(h.Key, sdkSpecs.Prefix()):
			if a := version.Attribute(h.Key); a != nil {
				err = w.SetAttribute(a, string(h.Value))
			} else {
				err = w.SetExtension(h.Key[len("ce_"):], string(h.Value))
			}
		}
		if err != nil {
			return err
		}
	}
	return w.SetData(bytes.NewReader(m.r.Value))
}

// GetAttribute and GetExtension are asked for by the SDK's transformers only.
func (m message) GetAttribute(k spec.Kind) (spec.Attribute, any) {
	a := sdkSpecs.Latest().AttributeFromKind(k)
	v, ok := m.header(a.PrefixedName())
	if !ok {
		return a, nil
	}
	return a, v
}

func (m message) GetExtension(name string) any {
	if v, ok := m.header("ce_" + name); ok {
		return v
	}
	return nil
}

func (m message) Finish(error) error { return nil }

// recordWriter writes a record as the SDK would.
type recordWriter struct{ r *kgo.Record }

var (
	_ binding.StructuredWriter = recordWriter{}
	_ binding.BinaryWriter     = recordWriter{}
)

func (w recordWriter) set(name string, value any) error {
	w.r.Headers = slices.DeleteFunc(w.r.Headers, func(h kgo.RecordHeader) bool { return h.Key == name })
	if value == nil {
		return nil
	}
	text, err := types.Format(value)
	w.r.Headers = append(w.r.Headers, kgo.RecordHeader{Key: name, Value: []byte(text)})
	return err
}

func (w recordWriter) SetStructuredEvent(_ context.Context, f format.Format, event io.Reader) (err error) {
	w.r.Headers = []kgo.RecordHeader{{Key: "content-type", Value: []byte(f.MediaType())}}
	w.r.Value, err = io.ReadAll(event)
	return err
}

func (w recordWriter) Start(context.Context) error { w.r.Value = []byte{}; return nil }
func (w recordWriter) End(context.Context) error   { return nil }

func (w recordWriter) SetAttribute(a spec.Attribute, value any) error {
	if a.Kind() == spec.DataContentType {
		return w.set("content-type", value)
	}
	return w.set("ce_"+a.Name(), value)
}

func (w recordWriter) SetExtension(name string, value any) error { return w.set("ce_"+name, value) }

func (w recordWriter) SetData(data io.Reader) (err error) {
	w.r.Value, err = io.ReadAll(data)
	return err
}

// What we write the SDK reads equal.
func TestSDKReads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		// The SDK parses these as URIs and trims others; what it takes is ours, so draw what it takes.
		e.Source, e.DataSchema = "/acme/github", "https://example.com/s"
		e.ID, e.Type = "id-"+e.ID+"-", "t-"+e.Type+"-"
		e.DataContentType = "application/json"
		got, err := binding.ToEvent(t.Context(), message{Encode("t", e)})
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Validate(); err != nil {
			t.Fatal(err)
		}
		type core struct {
			ID, Source, Type, Subject, ContentType, Schema string
			Time                                           time.Time
			Data                                           string
		}
		want := core{e.ID, e.Source, e.Type, string(e.Entity), e.DataContentType, e.DataSchema, e.Time, string(e.Data)}
		has := core{got.ID(), got.Source(), got.Type(), got.Subject(), got.DataContentType(), got.DataSchema(), got.Time(), string(got.Data())}
		if diff := cmp.Diff(want, has); diff != "" {
			t.Fatal(diff)
		}
		extensions := map[string]any{
			"partitionkey": string(e.Entity), "versionkind": string(e.Version.Kind), "payloadkind": string(e.Payload),
			"bodyhash": e.Hash.String(), "recordedtime": e.RecordedTime.Format(time.RFC3339Nano),
		}
		for _, o := range []struct{ name, value string }{
			{"entityversion", e.Version.Sortable()}, {"versionclock", e.Version.Clock}, {"deliveryid", e.DeliveryID}, {"traceparent", e.TraceParent}, {"tracestate", e.TraceState},
		} {
			if o.value != "" {
				extensions[o.name] = o.value
			}
		}
		if e.Deleted {
			extensions["entitydeleted"] = "true"
		}
		if e.Backfill {
			extensions["backfill"] = "true"
		}
		if e.First != nil {
			extensions["versionfirst"] = got.Extensions()["versionfirst"]
		}
		for k, v := range e.Extensions {
			extensions[k] = v
		}
		if diff := cmp.Diff(extensions, got.Extensions()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// What the SDK writes, binary and structured, we read equal.
func TestSDKWrites(t *testing.T) {
	t.Parallel()
	when := time.Date(2026, 7, 1, 16, 45, 22, 5000, time.UTC)
	for _, test := range []struct {
		name  string
		ctype string
		data  []byte
		build func(*sdk.Event)
		want  func(*schemas.Event)
	}{
		{"json", "application/json", []byte(`{"a":[1,"}"],"b":12345678901234567890}`), nil, nil},
		{"text", "text/plain", []byte("héllo\n\"x\""), nil, nil},
		{"bytes", "application/octet-stream", []byte{0, 1, 0xff}, nil, nil},
		{"extensions", "application/json", []byte(`1`), func(e *sdk.Event) {
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
		{"a version that is a text", "application/json", []byte(`1`), func(e *sdk.Event) {
			e.SetExtension("versionkind", "monotonic")
			e.SetExtension("entityversion", "=2026%\"w +00007")
		}, func(e *schemas.Event) {
			e.Version = schemas.Version{Kind: schemas.Monotonic, Text: `2026%"w`, Sub: 7}
		}},
		{"a version of an epoch", "application/json", []byte(`1`), func(e *sdk.Event) {
			e.SetExtension("versionkind", "sequence")
			e.SetExtension("entityversion", "e000002:00000000000000000001")
		}, func(e *schemas.Event) {
			e.Version = schemas.Version{Kind: schemas.Sequence, Epoch: 2, Value: 1}
		}},
	} {
		for _, structured := range []bool{false, true} {
			t.Run(test.name+map[bool]string{false: "/binary", true: "/structured"}[structured], func(t *testing.T) {
				t.Parallel()
				in := sdk.New()
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
				if _, err := binding.Write(ctx, binding.ToMessage(&in), recordWriter{r}, recordWriter{r}); err != nil {
					t.Fatal(err)
				}
				got, err := Decode(r)
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

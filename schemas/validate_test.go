package schemas

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	valid := func() *Event {
		return &Event{ID: "1", Source: "/a/b", Type: "t", Entity: "e", Time: time.Unix(0, 0), Payload: Delta, Version: Version{Kind: None}}
	}
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*Event)
		field  string
		reason string
	}{
		{"no id", func(e *Event) { e.ID = "" }, "id", "missing_field"},
		{"id of 5,000 characters", func(e *Event) { e.ID = strings.Repeat("x", 5000) }, "id", "too_long"},
		{"NUL", func(e *Event) { e.ID = "a\x00" }, "id", "control_character"},
		{"DEL", func(e *Event) { e.Type = "a\x7f" }, "type", "control_character"},
		{"not UTF-8", func(e *Event) { e.Entity = "\xff" }, "entity", "control_character"},
		{"replacement character is a character", func(e *Event) { e.ID = "\ufffd" }, "", ""},
		{"no entity", func(e *Event) { e.Entity = "" }, "entity", "missing_field"},
		{"long clock", func(e *Event) { e.Version.Clock = strings.Repeat("x", 65) }, "clock", "too_long"},
		{"tab in content type", func(e *Event) { e.DataContentType = "a/b;\tc=d" }, "", ""},
		{"newline in content type", func(e *Event) { e.DataContentType = "a/b\n" }, "datacontenttype", "control_character"},
		{"long content type", func(e *Event) { e.DataContentType = strings.Repeat("x", 3000) }, "datacontenttype", "too_long"},
		{"tab elsewhere", func(e *Event) { e.TraceState = "\t" }, "tracestate", "control_character"},
		{"no time", func(e *Event) { e.Time = time.Time{} }, "time", "missing_field"},
		{"year 10000", func(e *Event) { e.Time = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "time", "wrong_type"},
		{"recorded in year 10000", func(e *Event) { e.RecordedTime = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "recordedtime", "wrong_type"},
		{"no payload kind", func(e *Event) { e.Payload = "" }, "payloadkind", "wrong_type"},
		{"no version kind", func(e *Event) { e.Version.Kind = "" }, "version", "bad_version"},
		{"value on none", func(e *Event) { e.Version.Value = 1 }, "version", "bad_version"},
		{"negative", func(e *Event) { e.Version = Version{Kind: Sequence, Value: -1} }, "version", "bad_version"},
		{"time out of range", func(e *Event) { e.Version = Version{Kind: Timestamp, Value: math.MinInt64} }, "version", "bad_version"},
		{"time before 1970", func(e *Event) { e.Version = Version{Kind: Timestamp, Value: -1} }, "", ""},
		{"sub", func(e *Event) { e.Version = Version{Kind: Sequence, Sub: 100_000} }, "version", "bad_version"},
		{"word", func(e *Event) { e.Version = Version{Kind: Monotonic, Text: "01ARZ3NDEKTSV4RRFFQ69G5FAV"} }, "", ""},
		{"word beside a value", func(e *Event) { e.Version = Version{Kind: Monotonic, Text: "a", Value: 1} }, "version", "bad_version"},
		{"word on sequence", func(e *Event) { e.Version = Version{Kind: Sequence, Text: "a"} }, "version", "bad_version"},
		{"word on timestamp", func(e *Event) { e.Version = Version{Kind: Timestamp, Text: "a"} }, "version", "bad_version"},
		{"word on none", func(e *Event) { e.Version.Text = "a" }, "version", "bad_version"},
		{"word with a space", func(e *Event) { e.Version = Version{Kind: Monotonic, Text: "a b"} }, "version", "bad_version"},
		{"word of 65 bytes", func(e *Event) { e.Version = Version{Kind: Monotonic, Text: strings.Repeat("a", 65)} }, "version", "bad_version"},
		{"word beyond ASCII", func(e *Event) { e.Version = Version{Kind: Monotonic, Text: "é"} }, "version", "bad_version"},
		{"epoch", func(e *Event) { e.Version = Version{Kind: Sequence, Epoch: 1} }, "", ""},
		{"largest epoch", func(e *Event) { e.Version = Version{Kind: Monotonic, Text: "a", Epoch: MaxEpoch} }, "", ""},
		{"negative epoch", func(e *Event) { e.Version = Version{Kind: Sequence, Epoch: -1} }, "version", "bad_version"},
		{"epoch of seven digits", func(e *Event) { e.Version = Version{Kind: Sequence, Epoch: 1_000_000} }, "version", "bad_version"},
		{"epoch on none", func(e *Event) { e.Version.Epoch = 1 }, "version", "bad_version"},
		{"first", func(e *Event) { e.First = new(int64(1)) }, "versionfirst", "bad_version"},
		{"negative first", func(e *Event) { e.Version.Kind, e.First = Sequence, new(int64(-1)) }, "versionfirst", "bad_version"},
		{"headers", func(e *Event) { e.Headers = []Header{{"a", strings.Repeat("x", MaxKept)}} }, "headers", "too_long"},
		{"extension name", func(e *Event) { e.Extensions = map[string]string{"A": ""} }, "extensions", "wrong_type"},
		{"extension data", func(e *Event) { e.Extensions = map[string]string{"data": ""} }, "extensions", "wrong_type"},
		{"extension value", func(e *Event) { e.Extensions = map[string]string{"a": "\n"} }, "a", "control_character"},
	} {
		e := valid()
		test.change(e)
		err := e.Validate()
		if test.field == "" {
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		f, ok := errors.AsType[*FieldError](err)
		if !ok || f.Field != test.field || f.Reason != test.reason || !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%s: %v, want %s: %s", test.name, err, test.field, test.reason)
		}
	}
}

package logsink

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(testing.TB, sinktest.Target) sink.Sink{
		"logger": func(t testing.TB, d sinktest.Target) sink.Sink { return must(t, Config{Logger: d.Logger}) },
		"writer": func(t testing.TB, _ sinktest.Target) sink.Sink { return must(t, Config{Writer: new(bytes.Buffer)}) },
	} {
		t.Run(name, func(t *testing.T) { sinktest.Run(t, sinktest.Harness{Make: make}) })
	}
}

func must(t testing.TB, cfg Config) *Sink {
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWriterGetsOneJSONLinePerAction(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := must(t, Config{Writer: &out})
	bodies := map[string]string{`{"n":12345678901234567890}`: "data", "plain\ntext": "text", "\xff\xfe": "data_base64", "": ""}
	order := []string{`{"n":12345678901234567890}`, "plain\ntext", "\xff\xfe", ""}
	for _, b := range order {
		a := sinktest.Action(1)
		a.Event.Data = []byte(b)
		if _, err := s.Do(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(&out)
	for _, b := range order {
		if !lines.Scan() {
			t.Fatal("a line is missing")
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		for _, field := range []string{"data", "text", "data_base64"} {
			if (got[field] != nil) != (bodies[b] == field) {
				t.Errorf("body %q: field %s is %s", b, field, got[field])
			}
		}
		if want := `"` + string(sinktest.Action(1).ID) + `"`; string(got["action_id"]) != want {
			t.Errorf("action_id %s, want %s", got["action_id"], want)
		}
	}
	if lines.Scan() {
		t.Errorf("one line too many: %s", lines.Text())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestErrors(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil {
		t.Error("a sink without an output was made")
	}
	_, err := must(t, Config{Writer: broken{}, Logger: slog.Default()}).Do(t.Context(), sinktest.Action(1))
	if got := sink.ClassOf(err); got != sink.ClassNetwork {
		t.Errorf("class %q, want it retried as network", got)
	}
}

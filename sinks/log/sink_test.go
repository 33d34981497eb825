package logsink

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

func make(t testing.TB, log *slog.Logger) sink.Sink {
	s, err := Spec().New().Sink(spec.Destination{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, sinktest.Harness{Make: func(t testing.TB, d sinktest.Target) sink.Sink { return make(t, d.Logger) }})
}

// TestOneLinePerAttempt: who, what and how large, and nothing of the body.
func TestOneLinePerAttempt(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := make(t, slog.New(slog.NewJSONHandler(&out, nil)))
	a := sinktest.Action(1)
	a.Late = true
	for range 2 {
		if _, err := s.Do(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]any{"level": "INFO", "msg": "event", "action_id": string(a.ID), "action": a.Name, "destination": a.Destination, "attempt": float64(1),
		"late": true, "source": a.Event.Source, "event_id": a.Event.ID, "type": a.Event.Type, "entity": string(a.Event.Entity),
		"version": a.Event.Version.Sortable(), "bytes": float64(len(a.Event.Data))}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		var got map[string]any
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		delete(got, "time")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

type nullLog struct{}

func (nullLog) Append(context.Context, time.Time, string, *schemas.Event) error       { return nil }
func (nullLog) Quarantine(context.Context, time.Time, string, *ingest.Delivery) error { return nil }
func (nullLog) AppendAll(context.Context, time.Time, string, []*schemas.Event, string, []*ingest.Delivery) error {
	return nil
}

// BenchmarkHandler is what intake itself costs: a signed 1 KiB body of GitHub's kind, without network and broker.
// Beside it the least that any handler does: reading the body.
func BenchmarkHandler(b *testing.B) {
	p, err := provider.Compile(provider.Config{Team: "acme", Name: "github", Preset: "github",
		Secrets: []schemas.Secret{schemas.NewSecret("a secret")}})
	if err != nil {
		b.Fatal(err)
	}
	source := &ingest.Source{Source: p, Topic: "events.acme.github", QuarantineTopic: "quarantine.acme.github"}
	handler, err := ingest.New(ingest.Config{Log: nullLog{},
		Sources: func(team, name string) (*ingest.Source, bool) { return source, team == "acme" && name == "github" }})
	if err != nil {
		b.Fatal(err)
	}
	body := fmt.Appendf(nil, `{"action":"labeled","issue":{"number":42,"updated_at":"2026-07-01T16:45:22Z","body":"%s"},"repository":{"id":186853002}}`,
		bytes.Repeat([]byte("x"), 900))
	r := &verify.Request{Method: "POST", Body: body, Header: http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"issues"}, "X-Github-Delivery": {"72d3162e-cc78-11e3-81ab-4c9367dc0958"}}}
	if err := p.Sign(r, time.Now()); err != nil {
		b.Fatal(err)
	}
	for name, h := range map[string]http.Handler{
		"intake": handler,
		"read": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err == nil {
				w.WriteHeader(http.StatusAccepted)
			}
		}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequest(r.Method, "/v1/in/acme/github", bytes.NewReader(body))
				req.Header = r.Header
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, req); w.Code != http.StatusAccepted {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}

package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// printLog stands for the producer.
type printLog struct{}

func (printLog) Append(_ context.Context, _ time.Time, topic string, e *schemas.Event) error {
	fmt.Println(topic, e.Source, e.Type, e.Entity, e.Version.Kind)
	return nil
}

func (printLog) Quarantine(_ context.Context, _ time.Time, topic string, d *ingest.Delivery) error {
	fmt.Println(topic, d.Kind, d.Reason)
	return nil
}

func (printLog) AppendAll(context.Context, time.Time, string, []*schemas.Event, string, []*ingest.Delivery) error {
	return nil
}

func ExampleHandler() {
	p, err := provider.Compile(provider.Config{Team: "acme", Name: "github", Preset: "github",
		Secrets: []schemas.Secret{schemas.NewSecret("a secret")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	source := &ingest.Source{Source: p, Topic: "events.acme.github", QuarantineTopic: "quarantine.acme.github"}
	handler, err := ingest.New(ingest.Config{
		Sources: func(team, name string) (*ingest.Source, bool) { return source, team == "acme" && name == "github" },
		Log:     printLog{},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(handler)
	defer server.Close()

	post := func(body string, sign bool) {
		r := &verify.Request{Method: "POST", Body: []byte(body), Header: http.Header{
			"Content-Type": {"application/json"}, "X-Github-Event": {"issues"}, "X-Github-Delivery": {"72d3162e"},
		}}
		if sign {
			if err := p.Sign(r, time.Now()); err != nil {
				fmt.Println(err)
				return
			}
		}
		req, err := http.NewRequest(r.Method, server.URL+"/v1/in/acme/github", bytes.NewReader(r.Body))
		if err != nil {
			fmt.Println(err)
			return
		}
		req.Header = r.Header
		resp, err := server.Client().Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		fmt.Println(resp.StatusCode, string(answer))
	}
	post(`{"action":"labeled","repository":{"id":186853002},"issue":{"number":42,"updated_at":"2026-07-01T16:45:22Z"}}`, true)
	post(`not JSON`, true)
	post(`{"action":"forged"}`, false)
	// Output:
	// events.acme.github /acme/github com.github.issues.labeled 186853002/42 timestamp
	// 202 {"id":"sha256:d0b5f08f986b023daf4917b8f94b7a0276fbe8dfc95bee3c5618b5c3b8ead8c3"}
	// quarantine.acme.github unusable not_json
	// 202 {"id":null}
	// 401 {"type":"about:blank","title":"Unauthorized","status":401}
}

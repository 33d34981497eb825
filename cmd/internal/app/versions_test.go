package app

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
)

const rankedFile = `
version: 1
teams:
  acme:
    sources:
      jobs:
        preset: generic
        secrets: [s3cret-of-the-test]
        verify: {signature_header: X-Signature}
        event:
          id: /id
          type: /type
          entity: [/job]
          version: {from: /at, kind: timestamp, resolution: 1s, rank: {from: /status, order: [queued, in_progress, completed]}}
          payload: snapshot
    destinations: {out: {type: log}}
    subscriptions:
      first: {sources: [jobs], equal: first, actions: [{name: run, to: out}]}
`

// fromFile is a file's configuration, and one of its sources.
func fromFile(t *testing.T, text, name string) (*config.Config, *provider.Source) {
	t.Helper()
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text), Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	if problems := Check(c, nil); len(problems) > 0 {
		t.Fatal(problems)
	}
	source, err := provider.Compile(c.Source("acme", name))
	if err != nil {
		t.Fatal(err)
	}
	return c, source
}

// toTheGate takes bodies through mapping and record to the gate: the texts by which their versions sort, and what is decided.
func toTheGate(t *testing.T, source *provider.Source, policy gate.Policy, bodies ...string) (texts, decided []string) {
	t.Helper()
	now := time.Now()
	var records []gate.Record
	for i, body := range bodies {
		sent, err := source.Event(&verify.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}, now)
		if err != nil {
			t.Fatal(err)
		}
		e, err := record.Decode(record.Encode("events.acme.some", sent))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, e.Version.Sortable())
		records = append(records, gate.Record{Offset: int64(i), AppendTime: now, Key: e.Key(), Hash: e.Hash, Entity: e.Entity,
			Version: e.Version, First: e.First, Payload: e.Payload, Deleted: e.Deleted})
	}
	for _, o := range gate.Decide(gate.NewState(), records, policy) {
		decided = append(decided, fmt.Sprintf("%d %s/%s", o.Record, o.Decision, o.Reason))
	}
	return texts, decided
}

// TestVersionsFromTheFileToTheGate takes what the file says of versions all the way: mapping, record, decision.
func TestVersionsFromTheFileToTheGate(t *testing.T) {
	t.Parallel()
	c, source := fromFile(t, rankedFile, "jobs")
	policy := gate.Policy{Equal: gate.Equal(c.Teams["acme"].Subscriptions["first"].Equal)}
	if err := policy.Validate(); err != nil {
		t.Fatal(err)
	}
	_, got := toTheGate(t, source, policy,
		`{"id":"0","type":"job","job":7,"at":"2026-07-14T18:56:00.7Z","status":"in_progress"}`,
		`{"id":"1","type":"job","job":7,"at":"2026-07-14T18:56:00Z","status":"completed"}`, // no fraction: the same second all the same
		`{"id":"2","type":"job","job":7,"at":"2026-07-14T18:56:00.9Z","status":"queued"}`,
		`{"id":"3","type":"job","job":7,"at":"2026-07-14T18:56:00.8Z","status":"completed"}`,
		`{"id":"4","type":"job","job":7,"at":"2026-07-14T18:56:01Z","status":"queued"}`)
	want := []string{"0 applied/first", "1 applied/next", "2 stale/older", "3 stale/equal_first", "4 applied/next"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	_, err := source.Event(&verify.Request{Method: http.MethodPost, Header: http.Header{},
		Body: []byte(`{"id":"9","type":"job","job":7,"at":"2026-07-14T18:56:00Z","status":"paused"}`)}, time.Now())
	if bad, ok := errors.AsType[*provider.Unusable](err); !ok || bad.Reason != provider.BadVersion {
		t.Errorf("a status without a place: %v", err)
	}
}

const expressedFile = `
version: 1
teams:
  acme:
    sources:
      docs:
        preset: generic
        secrets: [s3cret-of-the-test]
        verify: {signature_header: X-Signature}
        event:
          id: "cel:body.doc + '@' + body.rev + '/' + body.action"
          type: "cel:'doc.' + body.action"
          entity: ["cel:body.doc"]
          version:
            from: "cel:body.rev"
            kind: monotonic
            as: text
            rank: {from: "cel:body.final ? 'final' : 'draft'", order: [draft, final]}
          payload: snapshot
          deleted: {from: "cel:body.action == 'gone'"}
    destinations: {out: {type: log}}
    subscriptions:
      all: {sources: [docs], actions: [{name: run, to: out}]}
`

// TestTextVersionsFromTheFileToTheGate takes expressions and versions that are texts all the way.
func TestTextVersionsFromTheFileToTheGate(t *testing.T) {
	t.Parallel()
	_, source := fromFile(t, expressedFile, "docs")
	texts, got := toTheGate(t, source, gate.Policy{},
		`{"doc":"d1","rev":"01ARZ3NDEKTSV4RRFFQ69G5FAV","action":"edit","final":false}`,
		`{"doc":"d1","rev":"01BX5ZZKBKACTAV9WEVGEMMVRZ","action":"edit","final":false}`,
		`{"doc":"d1","rev":"01ARZ3NDEKTSV4RRFFQ69G5FAW","action":"edit","final":true}`,
		`{"doc":"d1","rev":"01BX5ZZKBKACTAV9WEVGEMMVRZ","action":"gone","final":true}`)
	if diff := cmp.Diff([]string{"=01ARZ3NDEKTSV4RRFFQ69G5FAV +00001", "=01BX5ZZKBKACTAV9WEVGEMMVRZ +00001",
		"=01ARZ3NDEKTSV4RRFFQ69G5FAW +00002", "=01BX5ZZKBKACTAV9WEVGEMMVRZ +00002"}, texts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"0 applied/first", "1 applied/next", "2 stale/older", "3 applied/next"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestCheckNamesTheLineOfAnExpression: the key that is wrong, not the source that it belongs to.
func TestCheckNamesTheLineOfAnExpression(t *testing.T) {
	t.Parallel()
	for old, wrong := range map[string][3]string{
		`"cel:body.doc + '@' + body.rev + '/' + body.action"`: {`"cel:bdy.doc"`, "sources.docs.event.id", "at character 1: undeclared reference to 'bdy' (did you mean 'body'?)"},
		`["cel:body.doc"]`:                     {`["cel:body.doc.size() > 1"]`, "sources.docs.event.entity[0]", "is an expression of type bool"},
		`from: "cel:body.rev"`:                 {`from: "cel:1.5"`, "sources.docs.event.version.from", "type double, and must give one of string"},
		`"cel:body.final ? 'final' : 'draft'"`: {`"cel:body.final ?"`, "sources.docs.event.version.rank.from", "Syntax error"},
	} {
		text := strings.Replace(expressedFile, old, wrong[0], 1)
		c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text), Embedded: true})
		if err != nil {
			t.Fatal(err)
		}
		problems := Check(c, nil)
		if len(problems) != 1 || !strings.HasSuffix(problems[0].Path, wrong[1]) || !strings.Contains(problems[0].Message, wrong[2]) {
			t.Errorf("%s: %v", wrong[0], problems)
			continue
		}
		if line := strings.Split(text, "\n")[problems[0].Line-1]; !strings.Contains(line, wrong[0]) {
			t.Errorf("%s: line %d is %q", wrong[0], problems[0].Line, line)
		}
	}
}

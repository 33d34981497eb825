package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/backfill"
)

// requestStore gives the requests that a test puts, and their outcomes back.
type requestStore struct {
	requests chan backfill.Request
	outcomes chan backfill.Outcome
}

func (s *requestStore) Next(ctx context.Context) (backfill.Request, error) {
	select {
	case q := <-s.requests:
		return q, nil
	case <-ctx.Done():
		return backfill.Request{}, ctx.Err()
	}
}

func (s *requestStore) Done(_ context.Context, _ string, o backfill.Outcome) error {
	s.outcomes <- o
	return nil
}

// backfills is a runner on real parts: the configuration's mapping, the guarded client, the intake's producer, the
// broker. Only the store is the test's.
type backfills struct {
	t          *testing.T
	deployment *deployment
	api        *fakeAPI
	store      *requestStore
	logged     *bytes.Buffer
	away       bool // the brokers are: what was produced cannot be flushed
	stop       func()
}

// fetched is deploymentText with its sources made to be asked for.
func fetched(text string, a *fakeAPI) string {
	network := "allow_networks: [127.0.0.0/8], headers: {Authorization: \"Bearer " + apiToken + "\"}"
	text = strings.Replace(text, "github: {preset: github, secrets: [first-secret]}", fmt.Sprintf(`github:
        preset: github
        secrets: [first-secret]
        backfill:
          {url: "%s%s", %s, timeout: 2s, max_body: 64KiB, retry: {min: 1ms, max: 50ms, within: 1m},
          event: {type: cel:'com.github.pull_request.backfilled', entity: [/base/repo/id, /number], payload: snapshot,
          version: {from: /updated_at, kind: timestamp, clock: pull_request, resolution: 1s}}}`, a.URL, onePull, network), 1)
	return strings.Replace(text, "version: {from: /rev, kind: sequence}}\n", fmt.Sprintf(`version: {from: /rev, kind: sequence}}
        backfill: {url: "%s/orders/{entity.0}/revisions?from={from}&to={to}", %s, timeout: 2s, max_body: 64KiB, items: /revisions, retry: {min: 1ms, max: 50ms, within: 1m}, event: {entity: [/order], payload: delta}}
`, a.URL, network), 1)
}

const onePull = "/repositories/{entity.0}/pulls/{entity.1}"

func newBackfills(t *testing.T) *backfills {
	t.Helper()
	a := newFakeAPI(t)
	b := &backfills{t: t, deployment: deploy(t, "http://127.0.0.1:1", &ledgerPlace{url: "postgres://127.0.0.1:1/none", schema: "forebay"}, true), api: a, logged: &bytes.Buffer{}}
	b.deployment.text = fetched(b.deployment.text, a)
	c := b.deployment.load(config.RoleStream, config.RoleIntake)
	f, problems := newFetchers(c, nil, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	b.run(c, f)
	return b
}

// run starts the runner.
func (b *backfills) run(c *config.Config, f *fetchers) {
	b.t.Helper()
	b.store = &requestStore{requests: make(chan backfill.Request, 100), outcomes: make(chan backfill.Outcome, 100)}
	log, err := backfillProducer(c)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := f.runner(b.store, log, slog.New(slog.NewTextHandler(b.logged, nil)))
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("Run ended with %v", err)
		}
		flush, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := log.Close(flush); (err != nil) != b.away {
			b.t.Errorf("close the producer: %v", err)
		}
		f.close()
		if strings.Contains(b.logged.String(), apiToken) || strings.Contains(b.logged.String(), "/pulls") {
			b.t.Errorf("the log shows a token or a URL:\n%s", b.logged)
		}
	})
	b.t.Cleanup(b.stop)
}

func (b *backfills) ask(q backfill.Request) backfill.Outcome {
	b.t.Helper()
	b.store.requests <- q
	select {
	case o := <-b.store.outcomes:
		return o
	case <-time.After(time.Minute):
		b.t.Fatal("no outcome")
		return backfill.Outcome{}
	}
}

// read gives the first n records of a topic, in the order of their partitions.
func (r *deployment) read(topic string, n int) (records []*kgo.Record) {
	r.t.Helper()
	cl := r.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	for len(records) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			r.t.Fatalf("%d of %d records, then %v", len(records), n, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

func pullRequest(number string) backfill.Request {
	return backfill.Request{Source: "/acme/github", Entity: schemas.EntityKey("186853002/" + number), Clock: "pull_request", Kind: schemas.Timestamp}
}

func orderRange(name string, from, to int64) backfill.Request {
	return backfill.Request{Source: "/acme/orders", Entity: schemas.NewEntityKey(name), Kind: schemas.Sequence, From: from, To: to}
}

// A pull request as GitHub's API gives it becomes a synthetic event on its entity's line, beside its webhooks.
func TestBackfillOfAPullRequest(t *testing.T) {
	t.Parallel()
	b := newBackfills(t)
	b.api.pulls[42] = "2026-03-01T10:00:00Z"
	p := b.deployment.run(config.RoleIntake)
	p.accepted("github", "first-secret", &verify.Request{Method: "POST", Header: http.Header{"Content-Type": {"application/json"},
		"X-Github-Event": {"pull_request"}, "X-Github-Delivery": {"d-1"}},
		Body: []byte(`{"action":"edited","number":42,"repository":{"id":186853002},"pull_request":{"number":42,"updated_at":"2026-03-01T09:00:00Z"}}`)})
	b.api.breaks(b.api.status(500), b.api.status(403, "Retry-After", "1"))
	if o := b.ask(pullRequest("42")); o != (backfill.Outcome{Produced: 1}) {
		t.Fatalf("outcome %+v", o)
	}
	if asked := b.api.requests(); len(asked) != 3 || asked[2] != "GET /repositories/186853002/pulls/42" {
		t.Errorf("asked %q", asked)
	}
	records := b.deployment.read("events.acme.github", 2)
	webhook, err := record.Decode(records[0])
	if err != nil {
		t.Fatal(err)
	}
	e, err := record.Decode(records[1])
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	want := &schemas.Event{
		ID:     "backfill:186853002/42#pull_request:2026-03-01T10:00:00.000000000Z:" + schemas.HashBody(e.Data).String(),
		Source: "/acme/github", Type: "com.github.pull_request.backfilled", Entity: "186853002/42", Time: at, RecordedTime: e.RecordedTime,
		DataContentType: "application/json", Payload: schemas.Snapshot, Backfill: true, Hash: schemas.HashBody(e.Data), Data: e.Data,
		Version: schemas.Version{Clock: "pull_request", Kind: schemas.Timestamp, Value: at.UnixNano()},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
	if !bytes.Contains(e.Data, []byte(`"title":"Ünïcode \u0026 \u003cb\u003e"`)) {
		t.Errorf("the body is not what the API gave: %s", e.Data)
	}
	if webhook.Backfill || webhook.Entity != e.Entity || webhook.Version.Clock != e.Version.Clock || webhook.Version.Compare(e.Version) >= 0 ||
		records[0].Partition != records[1].Partition {
		t.Errorf("the webhook %+v and its backfill %+v are not on one line", webhook.Version, e.Version)
	}
	if o := b.ask(pullRequest("42")); o.Produced != 1 {
		t.Errorf("asked again: %+v", o)
	}
	again, err := record.Decode(b.deployment.read("events.acme.github", 3)[2])
	if err != nil || again.Key() != e.Key() || again.Hash != e.Hash {
		t.Errorf("what is fetched again is no duplicate: %v, %v", again, err)
	}
	p.clean()
}

// The missing revisions of an order, what the file's mapping makes of an answer, and the guard. Every way in which asking fails is in
// stream/backfill.
func TestBackfillOfOrders(t *testing.T) {
	t.Parallel()
	b := newBackfills(t)
	b.api.orders["o-1"] = []int{1, 2, 3, 4, 5, 6}
	for _, test := range []struct {
		name  string
		fault http.HandlerFunc
		want  backfill.Outcome
	}{
		{"the missing ones", nil, backfill.Outcome{Produced: 2}},
		{"404", b.api.status(404), backfill.Outcome{Reason: backfill.NotFound, Code: 404}},
		{"redirect to metadata", b.api.status(302, "Location", "http://169.254.169.254/"), backfill.Outcome{Reason: backfill.Rejected, Code: 302}},
		{"a version that is none", says(`{"revisions":[{"type":"order","order":"o-1","rev":3.5}]}`), backfill.Outcome{Reason: backfill.Unusable, Unusable: 1}},
		{"a name that is there twice", says(`{"revisions":[{"type":"order","order":"o-1","rev":3,"rev":4}]}`), backfill.Outcome{Reason: backfill.Unusable, Unusable: 1}},
	} {
		if test.fault != nil {
			b.api.breaks(test.fault)
		}
		o := b.ask(orderRange("o-1", 3, 4))
		if strings.Contains(o.Detail, apiToken) || strings.Contains(o.Detail, "/orders") {
			t.Errorf("%s: the detail shows what must not be shown: %s", test.name, o.Detail)
		}
		o.Detail = ""
		if diff := cmp.Diff(test.want, o); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	e, err := record.Decode(b.deployment.read("events.acme.orders", 1)[0])
	if err != nil || e.ID != "backfill:o-1:00000000000000000003" || string(e.Data) != `{"order":"o-1","rev":3,"type":"order"}` || *e.First != 1 || !e.Backfill {
		t.Errorf("%+v, %v", e, err)
	}
}

// Brokers that are away are waited for, not for ever, and nothing is told as filled.
func TestBackfillWithoutBrokers(t *testing.T) {
	t.Parallel()
	b := newBackfills(t)
	b.api.orders["o-1"] = []int{1, 2}
	b.stop()
	b.deployment.text = strings.Replace(b.deployment.text, b.deployment.cluster.ListenAddrs()[0], "127.0.0.1:1", 1)
	c := b.deployment.load(config.RoleStream, config.RoleIntake)
	f, problems := newFetchers(c, nil, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	b.away = true
	b.run(c, f)
	q := orderRange("o-1", 1, 2)
	q.Within = 100 * time.Millisecond
	if o := b.ask(q); o.Reason != backfill.NotProduced || o.NotProduced != 2 {
		t.Errorf("%+v", o)
	}
}

// A private address is refused before anything is sent, unless the source lists its network.
func TestBackfillIsGuarded(t *testing.T) {
	t.Parallel()
	a := newFakeAPI(t)
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: postgres://127.0.0.1:1/none}", "http://127.0.0.1:1")}
	r.text = strings.Replace(fetched(r.text, a), `"`+a.URL+onePull, `"https://localhost:1`+onePull, 1)
	r.edit = func(c *config.Config) { c.Teams["acme"].Sources["github"].Backfill.AllowNetworks = nil }
	f, problems := newFetchers(r.load(config.RoleStream), nil, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	b := &backfills{t: t, deployment: r, api: a, logged: &bytes.Buffer{}}
	b.run(r.load(config.RoleStream), f)
	if o := b.ask(pullRequest("42")); o.Reason != backfill.Forbidden {
		t.Errorf("%+v", o)
	}
}

// agentOf is an agent that remembers what it was sent.
type sent struct{ ID, Version, Backfill, Type, Body string }

func agentOf(t *testing.T) (*httptest.Server, chan sent) {
	t.Helper()
	calls := make(chan sent, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- sent{r.Header.Get("Ce-Id"), r.Header.Get("Ce-Entityversion"), r.Header.Get("Ce-Backfill"), r.Header.Get("Content-Type"), string(body)}
	}))
	t.Cleanup(server.Close)
	return server, calls
}

func next(t *testing.T, calls chan sent) sent {
	t.Helper()
	select {
	case c := <-calls:
		return c
	case <-time.After(time.Minute):
		t.Fatal("the agent was not called")
		return sent{}
	}
}

// Events that carry only an id reach the agent with the document that they name. What cannot be fetched is a failed
// attempt: tried again, or dead at once.
func TestThinSource(t *testing.T) {
	t.Parallel()
	agent, calls := agentOf(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	a := newFakeAPI(t)
	r.text = strings.Replace(r.text, "version: {from: /rev, kind: sequence}}\n", fmt.Sprintf(`version: {from: /rev, kind: sequence}}
        thin: {url: "%s/orders/{entity.0}?event={id}", allow_networks: [127.0.0.0/8], headers: {Authorization: "Bearer %s"}, timeout: 2s, max_body: 1KiB}
`, a.URL, apiToken), 1)
	a.orders["o-1"], a.orders["o-2"] = []int{7}, []int{9}
	p := r.run(config.RoleIntake, config.RoleStream)

	a.breaks(a.status(500), cut, a.late, a.status(429))
	p.accepted("orders", "orders-secret", order("o-1", 1))
	want := sent{"o-1-1", "00000000000000000001", "", "application/vnd.shop.order+json", `{"order":"o-1","rev":7,"lines":[1,2,3]}`}
	if diff := cmp.Diff(want, next(t, calls)); diff != "" {
		t.Error(diff)
	}
	p.item("fulfil", "orders", "o-1-1", "applied", "done")
	if asked := a.requests(); len(asked) != 5 || asked[4] != "GET /orders/o-1?event=o-1-1" {
		t.Errorf("asked %q", asked)
	}
	d, err := p.api.Item(t.Context(), "acme", "fulfil", "orders", "o-1-1")
	if err != nil || d.Attempts != 5 {
		t.Errorf("attempts %d, %v", d.Attempts, err)
	}

	for i, fault := range []http.HandlerFunc{a.status(404), a.status(410), a.status(401), says(strings.Repeat("x", 2000))} {
		name := fmt.Sprint("dead-", i)
		a.breaks(fault)
		p.accepted("orders", "orders-secret", order(name, 1))
		p.item("fulfil", "orders", name+"-1", "applied", "dead_letter")
	}
	a.breaks()
	p.accepted("orders", "orders-secret", order("o-2", 1))
	if c := next(t, calls); c.ID != "o-2-1" || c.Body != `{"order":"o-2","rev":9,"lines":[1,2,3]}` {
		t.Errorf("after dead ones %+v", c)
	}
	p.clean()
}

// What config check says of keys that only the parts themselves can judge.
func TestFetchesAreChecked(t *testing.T) {
	t.Parallel()
	a := newFakeAPI(t)
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: postgres://127.0.0.1:1/none}", "http://127.0.0.1:1")}
	good := fetched(r.text, a)
	r.text = good
	if problems := Check(r.load(config.RoleStream), []config.Role{config.RoleStream}); len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, test := range []struct{ old, new, want string }{
		{`cel:'com.github.pull_request.backfilled'`, "cel:nope(", "github.backfill: event.type"},
		{"from: /updated_at", "from: updated_at", "github.backfill: event.version.from"},
		{"Authorization: \"Bearer", "Host: \"Bearer", "github.backfill: header Host is set by forebay"},
		{"Authorization: \"Bearer ", "Authorization: \"Bearer\\u0001", "github.backfill: header Authorization has a value with control characters"},
		{"items: /revisions", "items: revisions", "orders.backfill: items: JSON Pointer"},
		{"items: /revisions,", "", ""},
	} {
		r.text = strings.Replace(good, test.old, test.new, 1)
		problems := Check(r.load(config.RoleStream), []config.Role{config.RoleStream})
		if !strings.Contains(problems.Error(), test.want) || strings.Contains(problems.Error(), apiToken) {
			t.Errorf("%s: %v, want %q", test.new, problems, test.want)
		}
		if _, err := New(Config{File: r.load(config.RoleStream), Roles: []config.Role{config.RoleStream}}); (err == nil) != (test.want == "") {
			t.Errorf("%s: a process is made with %v", test.new, err)
		}
	}
}

package api

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/guard"
)

// fake records what it was asked and answers with what it was given.
type fake struct {
	filter  InboxFilter
	asked   []string
	redrive RedriveRequest
	place   QuarantinePlace
	again   QuarantineRedrive
	err     error

	attention AttentionFilter
}

func (f *fake) Redrive(_ context.Context, team, subscription, source, id string, r RedriveRequest) (*RedriveItem, error) {
	f.asked, f.redrive = []string{team, subscription, source, id}, r
	return &RedriveItem{InboxItem: InboxItem{EventID: id, Topic: "events.acme.orders"}, Action: ActionProduce, State: StateDone,
		To: &PlaceItem{Topic: "events.acme.orders", Partition: 2, Offset: 9}}, f.err
}

func (f *fake) Items(_ context.Context, filter InboxFilter) (Page[InboxItem], error) {
	f.filter = filter
	return Page[InboxItem]{Items: []InboxItem{{Team: "acme", EventID: "e1", Offset: 7}}, Next: "more"}, f.err
}

func (f *fake) Item(_ context.Context, team, subscription, source, id string) (*InboxDetail, error) {
	f.asked = []string{team, subscription, source, id}
	return &InboxDetail{InboxItem: InboxItem{EventID: id}}, f.err
}

func (f *fake) Raw(_ context.Context, team, subscription, source, id string) (*Raw, error) {
	f.asked = []string{team, subscription, source, id}
	return &Raw{ContentType: "text/html", Data: []byte("<script>\x00\n")}, f.err
}

func (f *fake) Quarantined(_ context.Context, q QuarantineFilter) (Page[QuarantineItem], error) {
	f.asked = []string{q.Team, q.Source}
	return Page[QuarantineItem]{}, f.err
}

func (f *fake) QuarantinedBody(_ context.Context, p QuarantinePlace) ([]byte, error) {
	f.place = p
	return []byte("<script>\x00\n"), f.err
}

func (f *fake) RedriveQuarantined(_ context.Context, p QuarantinePlace, r QuarantineRedrive) (*QuarantineRedriven, error) {
	f.place, f.again = p, r
	return &QuarantineRedriven{EventID: "e1", State: StateDone, To: &PlaceItem{Topic: "events.acme.orders", Partition: 2, Offset: 9}}, f.err
}

func setup(t *testing.T, change func(*Config)) (*Client, *fake) {
	t.Helper()
	f := &fake{}
	cfg := Config{Ready: func(context.Context, bool) []Check { return []Check{{Name: "log", OK: true}} }, Inbox: f, Quarantine: f,
		Attention: func(_ context.Context, q AttentionFilter) (*Attention, error) {
			f.attention = q
			return &Attention{Items: []AttentionItem{{Kind: KindPaused, ID: "acme/agent"}}, Counts: []AttentionCount{{Kind: KindPaused, Count: 1}}}, f.err
		},
		Sources:       func() []SourceItem { return []SourceItem{{Team: "acme", Source: "github"}} },
		Subscriptions: func(context.Context) []SubscriptionItem { return nil }, Gatherer: prometheus.NewRegistry()}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(asDescribed(t, h))
	t.Cleanup(server.Close)
	c, err := NewClient(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return c, f
}

func TestClientAndServerAgree(t *testing.T) {
	t.Parallel()
	c, f := setup(t, nil)
	want := InboxFilter{Team: "acme", Subscription: "triage", Source: "github", Entity: "1/2", Type: "com.x y&z", Status: "done",
		Decision: "applied", Since: time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC), Limit: 500, Cursor: "abc="}
	page, err := c.Items(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, f.filter); diff != "" {
		t.Error(diff)
	}
	if len(page.Items) != 1 || page.Items[0].Offset != 7 || page.Next != "more" {
		t.Errorf("page = %+v", page)
	}
	id := "a/b?c%2F #…"
	if d, err := c.Item(t.Context(), "acme", "triage", "github", id); err != nil || d.EventID != id {
		t.Errorf("item with a hostile id: %+v, %v; the server saw %q", d, err, f.asked)
	}
	raw, err := c.Raw(t.Context(), "acme", "triage", "github", id)
	if err != nil || string(raw.Data) != "<script>\x00\n" || raw.ContentType != "text/html" {
		t.Errorf("raw = %+v, %v", raw, err)
	}
	if got, err := c.Record(t.Context(), "acme", "triage", "github", id, 3); err != nil || string(got.Body) != "<sc" || got.Bytes != 10 {
		t.Errorf("the beginning of a record = %+v, %v", got, err)
	}
	if got, err := c.Record(t.Context(), "acme", "triage", "github", id, 99); err != nil || string(got.Body) != "<script>\x00\n" {
		t.Errorf("a record = %+v, %v", got, err)
	}
	if _, err := c.Record(t.Context(), "acme", "triage", "github", id, 0); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("no bytes of a record: %v", err)
	}
	if sources, err := c.Sources(t.Context()); err != nil || len(sources.Items) != 1 {
		t.Errorf("sources = %+v, %v", sources, err)
	}
	if _, err := c.DriftReport(t.Context()); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "no intake role") {
		t.Errorf("drift of a process that sees no deliveries: %v", err)
	}
	if subs, err := c.Subscriptions(t.Context()); err != nil || subs.Items == nil {
		t.Errorf("an empty list must be [], not null: %+v, %v", subs, err)
	}
	if _, err := c.Quarantined(t.Context(), QuarantineFilter{Team: "acme", Source: "github"}); err != nil || f.asked[1] != "github" {
		t.Errorf("quarantine: %v, asked %v", err, f.asked)
	}
	place := QuarantinePlace{"acme", "github", 2, 1 << 40}
	if body, err := c.QuarantinedBody(t.Context(), place); err != nil || string(body) != "<script>\x00\n" || f.place != place {
		t.Errorf("body %q, %v, asked %v", body, err, f.place)
	}
	asked := QuarantineRedrive{Reason: "mended", By: "me", DryRun: true}
	if item, err := c.RedriveQuarantined(t.Context(), place, asked); err != nil || item.To.Offset != 9 || f.place != place || f.again != asked {
		t.Errorf("redrive %+v, %v, asked %v %+v", item, err, f.place, f.again)
	}
	if _, err := c.RedriveQuarantined(t.Context(), place, QuarantineRedrive{}); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("redrive without a reason: %v", err)
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	t.Parallel()
	c, f := setup(t, nil)
	for _, kind := range schemas.Kinds() {
		f.err = schemas.Errorf(kind, "look", "because")
		if _, err := c.Item(t.Context(), "a", "b", "c", "d"); schemas.KindOf(err) != kind || !strings.Contains(err.Error(), "look: because") {
			t.Errorf("%s came back as %s: %v", kind, schemas.KindOf(err), err)
		}
	}
}

func TestBadQuestionsAreRefused(t *testing.T) {
	t.Parallel()
	c, _ := setup(t, nil)
	for path, kind := range map[string]schemas.Kind{
		"/v1/inbox?limit=0": schemas.Invalid, "/v1/inbox?limit=1001": schemas.Invalid, "/v1/inbox?limit=x": schemas.Invalid,
		"/v1/inbox?since=yesterday": schemas.Invalid, "/v1/inbox?desicion=stale": schemas.Invalid, "/v1/quarantine?status=x": schemas.Invalid,
		"/v1/quarantine/acme/orders/0/x/raw": schemas.Invalid, "/v1/quarantine/acme/orders/9999999999/0/raw": schemas.Invalid,
		"/v1/nothing": schemas.NotFound, "/": schemas.NotFound,
	} {
		p, q, _ := strings.Cut(path, "?")
		values := map[string][]string{}
		if k, v, ok := strings.Cut(q, "="); ok {
			values[k] = []string{v}
		}
		if _, _, err := c.get(t.Context(), p, values); schemas.KindOf(err) != kind {
			t.Errorf("%s: %v, want kind %s", path, err, kind)
		}
	}
}

func TestProcessWithoutTheRoleSaysSo(t *testing.T) {
	t.Parallel()
	c, _ := setup(t, func(cfg *Config) { cfg.Inbox = nil })
	for name, ask := range map[string]func() error{
		"items":  func() error { _, err := c.Items(t.Context(), InboxFilter{}); return err },
		"item":   func() error { _, err := c.Item(t.Context(), "a", "b", "c", "d"); return err },
		"raw":    func() error { _, err := c.Raw(t.Context(), "a", "b", "c", "d"); return err },
		"stop":   func() error { _, err := c.Subscription(t.Context(), "a", "b"); return err },
		"accept": func() error { _, err := c.Accept(t.Context(), "a", "b", AcceptRequest{Reason: "x"}); return err },
		"dlq":    func() error { _, err := c.DeadLetters(t.Context(), DeadLetterFilter{}); return err },
		"replay": func() error {
			_, err := c.AskDeadLetter(t.Context(), "x", VerbReplay, DeadLetterRequest{Reason: "x"})
			return err
		},
	} {
		if err := ask(); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "no stream role") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyLoopbackNamesAreAnswered(t *testing.T) {
	t.Parallel()
	c, _ := setup(t, nil)
	ask := func(method, path, host, origin string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, c.base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for host, want := range map[string]int{"localhost:9090": 200, "127.0.0.1": 200, "[::1]:9090": 200, "evil.example": 421, "127.0.0.1.evil.example:9090": 421, "10.0.0.1": 421} {
		for _, path := range []string{"/v1/inbox", "/metrics"} {
			if got := ask("GET", path, host, ""); got != want {
				t.Errorf("GET %s for host %s: %d, want %d", path, host, got, want)
			}
		}
	}
	if got := ask("GET", "/livez", "evil.example", ""); got != 200 {
		t.Errorf("health is for everybody: %d", got)
	}
	if got := ask("POST", "/v1/inbox", "127.0.0.1", "https://evil.example"); got != http.StatusForbidden {
		t.Errorf("a cross-origin POST: %d, want 403", got)
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	c, _ := setup(t, func(cfg *Config) {
		cfg.Ready = func(context.Context, bool) []Check {
			return []Check{{Name: "log", OK: true}, {Name: "subscription acme.triage", Error: "its begin is not stored yet"}}
		}
	})
	resp, err := http.Get(c.base + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body Readiness
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || resp.StatusCode != 503 || body.Ready || len(body.Checks) != 2 {
		t.Errorf("%d %+v %v", resp.StatusCode, body, err)
	}
}

// A role is ready for itself: what one of them cannot do takes no other out of service.
func TestReadinessOfOneRole(t *testing.T) {
	t.Parallel()
	c, _ := setup(t, func(cfg *Config) {
		cfg.Ready = func(context.Context, bool) []Check {
			return []Check{{Name: "intake", Role: "intake", OK: true}, {Name: "subscription acme.triage", Role: "stream", Error: "a partition stands still"}, {Name: "topics", OK: true}}
		}
	})
	for query, want := range map[string]struct {
		status, checks int
		roles          map[string]bool
	}{
		"":              {503, 3, map[string]bool{"intake": true, "stream": false}},
		"?role=intake":  {200, 2, map[string]bool{"intake": true}},
		"?role=stream":  {503, 2, map[string]bool{"stream": false}},
		"?role=console": {404, 0, nil},
		"?role=%zz":     {400, 0, nil}, "?roles=intake": {400, 0, nil}, "?role=intake&role=stream": {400, 0, nil}, // all would be asked, or one of two
	} {
		resp, err := http.Get(c.base + "/readyz" + query)
		if err != nil {
			t.Fatal(err)
		}
		var body Readiness
		err = json.NewDecoder(resp.Body).Decode(&body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want.status || body.Ready != (want.status == 200) || len(body.Checks) != want.checks || !maps.Equal(body.Roles, want.roles) {
			t.Errorf("%q: %d %+v %v", query, resp.StatusCode, body, err)
		}
	}
}

func TestAttentionIsAskedAsItIsMeant(t *testing.T) {
	t.Parallel()
	c, f := setup(t, nil)
	got, err := c.Attention(t.Context(), AttentionFilter{Team: "acme", Kind: KindPaused, Limit: 7})
	if err != nil || len(got.Items) != 1 || f.attention != (AttentionFilter{Team: "acme", Kind: KindPaused, Limit: 7}) {
		t.Errorf("%+v %v, asked %+v", got, err, f.attention)
	}
	if _, err := c.Attention(t.Context(), AttentionFilter{Kind: "paused"}); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), "paused_destination") {
		t.Errorf("a kind that is none: %v", err)
	}
	if _, err := getJSON[Attention](t.Context(), c, "/v1/attention?kinds=held", nil); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("an unknown parameter: %v", err)
	}
	if _, err := New(Config{Ready: func(context.Context, bool) []Check { return nil }}); err == nil || !strings.Contains(err.Error(), "Attention") {
		t.Errorf("made without its parts: %v", err)
	}
}

// TestWhatCannotBeReadIsRefused: it is no unfiltered list, and nothing that the database has words for.
func TestWhatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	c, f := setup(t, nil)
	for _, path := range []string{"/v1/inbox?team=%zz", "/v1/inbox?team=acme;source=github", "/v1/inbox?team=acme&team=other", "/v1/sources?a%zz", "/v1/inbox?entity=%ff", "/v1/inbox?entity=a%00",
		"/v1/inbox/acme/triage/github/%ff", "/v1/inbox/acme/triage/github/a%00/raw", "/v1/quarantine/acme/%ff/0/1/raw"} {
		if _, err := getJSON[any](t.Context(), c, path, nil); schemas.KindOf(err) != schemas.Invalid || len(f.asked) > 0 {
			t.Errorf("%s: %v, asked %v", path, err, f.asked)
		}
	}
	if _, err := c.Redrive(t.Context(), "acme", "triage", "github", "d-1", RedriveRequest{Reason: "a\x00b"}); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), "NUL") {
		t.Errorf("a reason that is no text: %v", err)
	}
}

func TestClientErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	c, err := NewClient("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sources(t.Context()); schemas.KindOf(err) != schemas.Unavailable || !strings.Contains(err.Error(), "FOREBAY_URL") {
		t.Errorf("nobody listens: %v", err)
	}
	if _, err := NewClient("127.0.0.1:9090"); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("no scheme: %v", err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if c, err = NewClient(other.URL); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sources(t.Context()); err == nil || !strings.Contains(err.Error(), "is it a Forebay operator listener?") {
		t.Errorf("another server: %v", err)
	}
}

// TestNothingThatIsSentIsAnswered: the client of destinations, backfills and thin gets nothing from the operator listener though its
// networks are allowed, whatever it asks and says; probes answer everybody.
func TestNothingThatIsSentIsAnswered(t *testing.T) {
	t.Parallel()
	c, f := setup(t, nil)
	sender, err := guard.New(guard.Config{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sender.Close)
	for request, want := range map[string]int{
		"GET /v1/inbox": 403, "GET /metrics": 403, "GET /v1/inbox/acme/triage/github/e1/raw": 403, "GET /nothing": 403,
		"POST /v1/inbox/acme/triage/github/e1/redrive": 403, "POST /v1/quarantine/acme/github/0/1/redrive": 403, "GET /livez": 200,
	} {
		method, path, _ := strings.Cut(request, " ")
		for name, header := range map[string]http.Header{"plain": nil, "denied": {"Forebay-Outgoing": {""}}, "in small letters": {"forebay-outgoing": nil}} {
			req, err := http.NewRequestWithContext(t.Context(), method, c.base+path, strings.NewReader(`{"by": "me", "reason": "mine"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = header
			resp, err := sender.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s, header %s: %d, want %d", request, name, resp.StatusCode, want)
			}
			if len(header["Forebay-Outgoing"]) > 0 && header.Get("Forebay-Outgoing") != "" {
				t.Errorf("%s: the caller's header was changed", request)
			}
		}
	}
	if f.asked != nil || f.place != (QuarantinePlace{}) {
		t.Errorf("it was asked all the same: %v %v", f.asked, f.place)
	}
}

// TestWhoIsInterruptedIsToldNothingElse: a client whose work is broken off does not guess that nobody listens.
func TestWhoIsInterruptedIsToldNothingElse(t *testing.T) {
	t.Parallel()
	c, _ := setup(t, nil)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("interrupted"))
	if _, err := c.Sources(ctx); err == nil || !strings.HasSuffix(err.Error(), ": interrupted") {
		t.Error(err)
	}
}

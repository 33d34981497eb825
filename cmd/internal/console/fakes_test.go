package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"golang.org/x/net/html"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at is when everything happens that the fake tells of.
var at = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// fake answers as a process does in which one order has a gap, and one action is dead. What it must refuse, it refuses.
type fake struct {
	items     []api.InboxItem
	elsewhere []string
	scopes    []api.ScopeItem
	usedUp    []api.BudgetItem
	unknown   error // of budgets
	detail    api.InboxDetail
	raw       api.Raw
	entity    api.EntityDetail
	dead      []api.DeadLetterItem
	history   []api.AttemptItem
	groups    []api.DeadLetterGroup
	attention api.Attention
	lag       []api.LagItem
	sources   []api.SourceItem
	subs      []api.SubscriptionItem
	to        []api.DestinationItem
	checks    []api.Check
	err       error // of every question of the ledger
	lagErr    error
	seeks     []api.SeekAskedItem
	planned   []api.SeekAskedItem
	sought    []api.SeekRequest
	stopped   api.StoppedItem
	accepted  *api.AcceptRequest
	resumed   api.PauseRequest
	pausedAt  string // which destination
	plan      api.ReplayItem
	question  api.ApprovalItem
	said      []string // to the question
	changed   []api.AuditItem
	drift     api.Drift
	tested    api.SourceTested
	tests     []api.SourceTest // that were no dry runs

	auditFilter api.AuditFilter
	filter      api.InboxFilter
	filters     []api.InboxFilter // all of them
	ofEntity    api.EntityFilter  // the last one
	othersErr   error             // of a question for one event
	kept        []api.QuarantineItem
	keptNext    string
	would       api.QuarantineRedriven
	redrives    []api.RedriveRequest // that were no dry runs
	mended      []api.QuarantineRedrive
	deadFilter  api.DeadLetterFilter
	asked       []api.DeadLetterRequest
	replayed    []string // what was replayed, discarded or resolved
	verb        string   // which of these, the last time
	mu          sync.Mutex
	lags        int
	overtaken   bool // its entity has a newer version
}

func (f *fake) Items(_ context.Context, q api.InboxFilter) (api.Page[api.InboxItem], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filter, f.filters = q, append(f.filters, q)
	if q.Limit == 1 && f.othersErr != nil {
		return api.Page[api.InboxItem]{}, f.othersErr
	}
	return api.Page[api.InboxItem]{Items: f.items, Next: "cursor==", Elsewhere: f.elsewhere}, f.err
}

func (f *fake) Item(_ context.Context, team, subscription, source, id string) (*api.InboxDetail, error) {
	if f.err != nil {
		return nil, f.err
	}
	if team+"/"+subscription+"/"+source+"/"+id != "acme/fulfil/orders/e-2" && f.detail.EventID == "e-2" {
		return nil, schemas.Errorf(schemas.NotFound, "", "subscription %s.%s knows no event %s", team, subscription, id)
	}
	return &f.detail, nil
}

func (f *fake) Raw(context.Context, string, string, string, string) (*api.Raw, error) {
	if f.err != nil {
		return nil, f.err
	}
	return &f.raw, nil
}

// Redrive takes what waits, once.
func (f *fake) Redrive(_ context.Context, _, _, _, id string, r api.RedriveRequest) (*api.RedriveItem, error) {
	switch {
	case f.err != nil:
		return nil, f.err
	case id == "e-1", len(f.redrives) > 0 && !r.Again:
		return nil, schemas.Errorf(schemas.Conflict, "redrive", "it waits for nothing")
	case r.DryRun:
		return &api.RedriveItem{InboxItem: f.items[0], Action: api.ActionRelease, State: api.StatePlanned, Detail: "everything that waits on its version line runs, across the gap"}, nil
	}
	f.redrives = append(f.redrives, r)
	return &api.RedriveItem{InboxItem: f.items[0], Action: api.ActionRelease, State: api.StateDone, Detail: "released"}, nil
}

func (f *fake) Quarantined(_ context.Context, q api.QuarantineFilter) (api.Page[api.QuarantineItem], error) {
	of := slices.DeleteFunc(slices.Clone(f.kept), func(i api.QuarantineItem) bool { return q.Kind != "" && i.Kind != q.Kind })
	return api.Page[api.QuarantineItem]{Items: of, Next: f.keptNext}, f.err
}

func (f *fake) QuarantinedBody(context.Context, api.QuarantinePlace) ([]byte, error) {
	return f.raw.Data, f.err
}

// RedriveQuarantined takes a delivery once.
func (f *fake) RedriveQuarantined(_ context.Context, _ api.QuarantinePlace, r api.QuarantineRedrive) (*api.QuarantineRedriven, error) {
	switch {
	case f.err != nil:
		return nil, f.err
	case len(f.mended) > 0:
		return nil, schemas.Errorf(schemas.Conflict, "redrive", "it was redriven by %s", f.mended[0].By)
	case r.DryRun:
		would := f.would
		return &would, nil
	}
	f.mended = append(f.mended, r)
	done := f.would
	done.State, done.To = api.StateDone, &api.PlaceItem{Topic: "events.acme.orders", Partition: 1, Offset: 41}
	return &done, nil
}

func (f *fake) Entities(context.Context, api.EntitiesFilter) (api.Page[api.EntityItem], error) {
	return api.Page[api.EntityItem]{}, f.err
}

func (f *fake) Entity(_ context.Context, q api.EntityFilter) (*api.EntityDetail, error) {
	f.mu.Lock()
	f.ofEntity = q
	f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	return &f.entity, nil
}

func (f *fake) DeadLetters(_ context.Context, q api.DeadLetterFilter) (api.Page[api.DeadLetterItem], error) {
	f.deadFilter = q
	begin, _ := strconv.Atoi(q.Cursor) // the place in f.dead; a cursor of another kind is the start
	page := api.Page[api.DeadLetterItem]{Elsewhere: f.elsewhere}
	for n, i := range f.dead[min(begin, len(f.dead)):] {
		if slices.Contains(f.replayed, i.ID) || q.Group != "" && q.Group != i.Group || q.Team != "" && q.Team != i.Team {
			continue
		}
		if len(page.Items) == q.Limit {
			page.Next = strconv.Itoa(begin + n)
			break
		}
		page.Items = append(page.Items, i)
	}
	return page, f.err
}

func (f *fake) DeadLetterGroups(context.Context, api.DeadLetterFilter) (api.Page[api.DeadLetterGroup], error) {
	return api.Page[api.DeadLetterGroup]{Items: f.groups, More: true}, f.err
}

func (f *fake) DeadLetter(_ context.Context, id string) (*api.DeadLetterDetail, error) {
	for _, i := range f.dead {
		if i.ID == id && !slices.Contains(f.replayed, id) {
			return &api.DeadLetterDetail{DeadLetterItem: i, History: f.history, Commands: []api.CommandItem{}}, f.err
		}
	}
	return nil, schemas.Errorf(schemas.NotFound, "", "no dead letter %s", id)
}

func (f *fake) DeadRecord(context.Context, string) (*api.DeadRecord, error) {
	panic("no page asks for this")
}

func (f *fake) AskDeadLetter(ctx context.Context, id, verb string, r api.DeadLetterRequest) (*api.DeadLetterAnswer, error) {
	d, err := f.DeadLetter(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case verb == api.VerbReplay && d.Status == "unknown" && !r.OutcomeUnknown:
		return nil, schemas.Errorf(schemas.Conflict, "", "its outcome is unknown")
	case r.DryRun:
		return &api.DeadLetterAnswer{DeadLetterItem: d.DeadLetterItem, Verb: verb, State: api.StatePlanned, Detail: "it runs again"}, nil
	case r.Reason == "":
		return nil, schemas.Errorf(schemas.Invalid, "", "the reason is missing")
	}
	if f.overtaken && r.Watch && !r.Force {
		return &api.DeadLetterAnswer{DeadLetterItem: d.DeadLetterItem, Verb: verb, State: api.StateStale, Detail: "it did not run: a newer one was started"}, nil
	}
	f.asked, f.replayed, f.verb = append(f.asked, r), append(f.replayed, id), verb
	return &api.DeadLetterAnswer{DeadLetterItem: d.DeadLetterItem, Verb: verb, State: api.StateDone, Detail: "replayed"}, nil
}

// destinations, steering and stops are the fake as more interfaces.
type destinations struct{ f *fake }

func (d destinations) Destinations(context.Context) ([]api.DestinationItem, error) {
	return d.f.to, d.f.err
}

func (d destinations) Destination(_ context.Context, team, name string) (*api.DestinationItem, error) {
	switch {
	case d.f.err != nil:
		return nil, d.f.err
	case name == "none":
		return nil, schemas.Errorf(schemas.NotFound, "", "there is no destination %s", name)
	}
	return &d.f.to[0], nil
}

func (d destinations) Pause(_ context.Context, team, name string, r api.PauseRequest) (*api.DestinationItem, error) {
	if d.f.to[0].Paused != nil {
		return nil, schemas.Errorf(schemas.Conflict, "pause", "it is paused already")
	}
	d.f.to[0].Paused, d.f.pausedAt = &api.PauseItem{At: at, By: r.By, Reason: r.Reason}, team+"/"+name
	return &d.f.to[0], nil
}

func (d destinations) Resume(context.Context, string, string, api.PauseRequest) (*api.DestinationItem, error) {
	if d.f.to[0].Paused == nil {
		return nil, schemas.Errorf(schemas.Conflict, "resume", "it is not paused")
	}
	d.f.to[0].Paused = nil
	return &d.f.to[0], nil
}

type steering struct{ f *fake }

func (s steering) Pause(_ context.Context, _, _ string, r api.PauseRequest) (*api.SubscriptionItem, error) {
	if s.f.subs[0].Paused != nil {
		return nil, schemas.Errorf(schemas.Conflict, "pause", "it is paused already")
	}
	s.f.subs[0].Paused = &api.PauseItem{At: at, By: r.By, Reason: r.Reason}
	return &s.f.subs[0], nil
}

func (s steering) Resume(_ context.Context, _, _ string, r api.PauseRequest) (*api.SubscriptionItem, error) {
	if s.f.subs[0].Paused == nil {
		return nil, schemas.Errorf(schemas.Conflict, "resume", "it is not paused")
	}
	s.f.subs[0].Paused = nil
	s.f.resumed = r
	return &s.f.subs[0], nil
}

// Seek plans what f.planned says, and keeps what is asked for.
func (s steering) PauseScope(_ context.Context, scope, name string, r api.PauseRequest) (*api.ScopeItem, error) {
	return &api.ScopeItem{Scope: scope, Name: name, Paused: &api.PauseItem{At: at, By: r.By, Reason: r.Reason}}, nil
}

func (s steering) ResumeScope(_ context.Context, scope, name string, _ api.PauseRequest) (*api.ScopeItem, error) {
	return &api.ScopeItem{Scope: scope, Name: name}, nil
}

func (s steering) Pauses(context.Context) ([]api.ScopeItem, error) { return s.f.scopes, nil }

func (s steering) Seek(_ context.Context, _, _ string, r api.SeekRequest) ([]api.SeekAskedItem, error) {
	switch {
	case s.f.err != nil:
		return nil, s.f.err
	case r.To == "nowhere":
		return nil, schemas.Errorf(schemas.Invalid, "", "%q is not start, end, an offset", r.To)
	case r.DryRun:
		return s.f.planned, nil
	}
	s.f.sought = append(s.f.sought, r)
	s.f.seeks = append(s.f.seeks, api.SeekAskedItem{ID: int64(10 + len(s.f.sought)), To: 40, State: api.SeekMoved, By: r.By, Reason: r.Reason})
	return s.f.seeks, nil
}

func (s steering) Seeks(context.Context, string, string) ([]api.SeekAskedItem, error) {
	return s.f.seeks, s.f.err
}

type stops struct {
	api.Stops
	f *fake
}

func (s stops) Subscription(_ context.Context, team, name string) (*api.SubscriptionItem, error) {
	switch {
	case s.f.err != nil:
		return nil, s.f.err
	case name != "fulfil":
		return nil, schemas.Errorf(schemas.NotFound, "", "there is no subscription %s.%s", team, name)
	}
	return &s.f.subs[0], nil
}

func (s steering) Lag(context.Context, string, string) ([]api.LagItem, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.lags++
	return s.f.lag, s.f.lagErr
}

// Accept accepts the stop once.
func (s stops) Accept(_ context.Context, _, _ string, r api.AcceptRequest) ([]api.StoppedItem, error) {
	switch {
	case s.f.err != nil:
		return nil, s.f.err
	case r.Stop != s.f.stopped.Stopped.ID, s.f.accepted != nil:
		return nil, schemas.Errorf(schemas.NotFound, "accept", "there is no stop %d that is not accepted", r.Stop)
	case !r.DryRun:
		s.f.accepted = &r
	}
	return []api.StoppedItem{s.f.stopped}, nil
}

// replays and changes are the fake as still more interfaces. What has begun is not begun again.
type replays struct {
	asReplays
	f *fake
}

type asReplays interface{ api.Replays }

func (r replays) Replays(context.Context, api.ReplayFilter) (api.Page[api.ReplayItem], error) {
	return api.Page[api.ReplayItem]{Items: []api.ReplayItem{r.f.plan}, Elsewhere: r.f.elsewhere}, r.f.err
}

func (r replays) Replay(context.Context, int64) (*api.ReplayItem, error) {
	if r.f.err != nil {
		return nil, r.f.err
	}
	p := r.f.plan
	return &p, nil
}

func (r replays) StartReplay(_ context.Context, _ int64, q api.ReplayRequest) (*api.ReplayItem, error) {
	if r.f.plan.State != "planned" {
		return nil, schemas.Errorf(schemas.Conflict, "start replay 1", "it is %s", r.f.plan.State)
	}
	r.f.plan.State, r.f.plan.StartedAt, r.f.plan.StartedBy, r.f.plan.Reason = "running", &at, q.By, q.Reason
	return &r.f.plan, nil
}

func (r replays) CancelReplay(_ context.Context, _ int64, q api.ReplayRequest) (*api.ReplayItem, error) {
	if r.f.plan.State == "cancelled" {
		return nil, schemas.Errorf(schemas.Conflict, "cancel replay 1", "it is cancelled")
	}
	r.f.plan.State, r.f.plan.CancelledAt, r.f.plan.CancelledBy, r.f.plan.CancelledReason = "cancelled", &at, q.By, q.Reason
	return &r.f.plan, nil
}

// Approvals lists the one question, without what is sent.
func (f *fake) Approvals(_ context.Context, q api.ApprovalFilter) (page api.Page[api.ApprovalItem], err error) {
	if i := f.question; (q.State == "" || q.State == i.State) && (q.Team == "" || q.Team == i.Team) {
		i.Sends = ""
		page = api.Page[api.ApprovalItem]{Items: []api.ApprovalItem{i}, Next: "cursor=="}
	}
	page.Elsewhere = f.elsewhere
	return page, f.err
}

func (f *fake) Approval(context.Context, int64) (*api.ApprovalItem, error) {
	if f.err != nil {
		return nil, f.err
	}
	return new(f.question), nil
}

// AnswerApproval takes one answer.
func (f *fake) AnswerApproval(_ context.Context, _ int64, approve bool, r api.ApprovalRequest) (*api.ApprovalItem, error) {
	switch {
	case f.question.State != "waiting":
		return nil, schemas.Errorf(schemas.Conflict, "answer an approval", "%s has answered it already: %s", f.question.AnsweredBy, f.question.State)
	case r.DryRun:
		return new(f.question), nil
	case approve:
		f.question.State = "approved"
	default:
		f.question.State, f.question.Sends = "denied", ""
	}
	f.question.AnsweredBy, f.question.Reason, f.question.AnsweredAt = r.By, r.Reason, &at
	f.said = append(f.said, f.question.State+" by "+r.By+": "+r.Reason)
	return new(f.question), nil
}

// TestSource says what would become of every test alike, and sends it.
func (f *fake) TestSource(_ context.Context, _, _ string, r api.SourceTest, may func(*api.SourceTested) error) (*api.SourceTested, error) {
	out := f.tested
	if out.State = api.StatePlanned; !r.DryRun {
		if err := may(&out); err != nil {
			return nil, err
		}
		f.tests = append(f.tests, r)
		out.State, out.Status = api.StateDone, http.StatusAccepted
	}
	return &out, nil
}

type changes struct {
	api.Audit
	f *fake
}

func (c changes) BeginChange(context.Context, api.AuditItem) (int64, error) { return 1, nil }
func (c changes) EndChange(context.Context, int64, api.AuditItem) error     { return nil }
func (c changes) Changes(_ context.Context, q api.AuditFilter) (api.Page[api.AuditItem], error) {
	c.f.auditFilter = q
	return api.Page[api.AuditItem]{Items: c.f.changed, Next: "cursor=="}, c.f.err
}

func (f *fake) config() api.Config {
	return api.Config{
		Inbox: f, Entities: f, DeadLetters: f, Destinations: destinations{f}, Steering: steering{f}, Stops: stops{f: f}, Replays: replays{f: f}, Approvals: f, Audit: changes{f: f}, Drift: func() *api.Drift { return &f.drift }, SourceTests: f, Quarantine: f, Gatherer: prometheus.NewRegistry(),
		Budgets: func(context.Context, bool) ([]api.BudgetItem, error) { return f.usedUp, f.unknown },
		Ready:   func(context.Context, bool) []api.Check { return f.checks }, Sources: func() []api.SourceItem { return f.sources },
		Subscriptions: func(context.Context) []api.SubscriptionItem { return f.subs },
		Attention: func(context.Context, api.AttentionFilter) (*api.Attention, error) {
			if f.err != nil {
				return nil, f.err
			}
			return &f.attention, nil
		},
	}
}

// pagesOf returns the pages of a process that answers by cfg.
func pagesOf(t *testing.T, cfg api.Config) *Console {
	t.Helper()
	asked, err := api.InProcess(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{API: asked, Ready: cfg.Ready, Stream: cfg.Inbox != nil, Gatherer: cfg.Gatherer, Roles: []config.Role{"intake", "stream"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handler is the operator listener's with the pages.
func (f *fake) handler(t *testing.T, change func(*api.Config)) http.Handler {
	t.Helper()
	cfg := f.config()
	if change != nil {
		change(&cfg)
	}
	cfg.Console = pagesOf(t, cfg)
	h, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func order(rev string, decision gate.Decision, reason gate.Reason, status string) api.InboxItem {
	seconds := time.Duration(rev[len(rev)-1]-'0') * time.Second
	return api.InboxItem{Team: "acme", Subscription: "fulfil", Source: "orders", EventID: "e-" + rev, Entity: "o-1", Type: "order.changed", Version: strings.Repeat("0", 20-len(rev)) + rev,
		VersionKind: "sequence", Decision: decision, Reason: reason, Status: status, Topic: "events.acme.orders", Partition: 1, Offset: 40, ReceivedAt: new(at.Add(seconds)), DecidedAt: at.Add(seconds)}
}

// newFake tells of an order whose third version never came, and of a dead letter.
func newFake() *fake {
	f := &fake{items: []api.InboxItem{order("5", gate.Buffered, gate.ReasonGap, "buffered"), order("2", gate.Applied, gate.ReasonNext, "dead_letter"), order("1", gate.Applied, gate.ReasonFirst, "done")}}
	f.items[2].Duplicates = 2
	f.detail = api.InboxDetail{InboxItem: f.items[1], Next: "an operator decides: `forebay dlq get act_1`", Story: []api.StoryItem{{At: &at, What: "received", Text: "received, verified with secret 1"}},
		Actions: []api.ActionItem{{ID: "act_1", Name: "run", Destination: "acme/agent", Status: "dead_letter", LaneSeq: 7,
			Attempts: []api.AttemptItem{{Attempt: 1, At: at, Class: "invalid", Code: 422, LatencyMS: 12.5, Error: "422 Unprocessable Entity", Response: "no such item"}, {Attempt: 2, At: at, Class: "busy", Code: 503}}}}}
	f.raw = api.Raw{ContentType: "application/json", Data: []byte(`{"order": 1}`), Headers: []api.DeadHeader{{Key: "ce_type", Value: "order.changed"}}}
	f.entity = api.EntityDetail{Team: "acme", Subscription: "fulfil", Source: "orders", Entity: "o-1", Track: f.items,
		Lines:   []api.VersionLineItem{{Topic: "events.acme.orders", Partition: 1, Kind: "sequence", Version: order("2", "", "", "").Version, At: "2", Missing: [][2]int64{{3, 4}}}},
		Waiting: []api.WaitItem{{Source: "orders", EventID: "e-5", At: "5", Decision: "buffered", Since: at, Then: "skip"}}}
	f.kept = []api.QuarantineItem{{Team: "acme", Source: "orders", Kind: "unusable", Reason: "no_entity", Detail: "/order/id is not there", Bytes: 12, Topic: "quarantine.acme.orders", Partition: 1, Offset: 7, ReceivedAt: at}}
	f.would = api.QuarantineRedriven{QuarantineItem: f.kept[0], EventID: "e-77", Type: "order.changed", Entity: "o-7", State: api.StatePlanned}
	f.dead = []api.DeadLetterItem{
		{ID: "act_1", Team: "acme", Subscription: "fulfil", Source: "orders", EventID: "e-2", Entity: "o-1", Destination: "acme/agent", Status: "dead_letter", Class: "invalid", Group: "g1", DiedAt: at, Parks: true, Behind: new(int64(3)), Partition: 1},
		{ID: "act_2", Team: "acme", Subscription: "fulfil", Source: "orders", EventID: "e-8", Entity: "o-2", Destination: "acme/agent", Status: "dead_letter", Class: "invalid", Group: "g1", DiedAt: at, Flagged: true, Deaths: 3, Partition: 1},
		{ID: "act_3", Team: "acme", Subscription: "fulfil", Source: "orders", EventID: "e-9", Entity: "o-3", Destination: "acme/agent", Status: "unknown", Class: "unknown", Group: "g1", DiedAt: at, Partition: 1},
	}
	f.groups = []api.DeadLetterGroup{{Group: "g1", Class: "invalid", Destination: "acme/agent", Type: "order.changed", Count: 3, Entities: 3, Flagged: 1, First: at, Last: at}}
	f.attention = api.Attention{Counts: []api.AttentionCount{{Kind: "dead_letter", Count: 3}, {Kind: "parked"}}, Unknown: []api.AttentionUnknown{{Kind: "unread_partition", Why: "the brokers are away"}, {Kind: "quarantined_delivery", Why: "the brokers are away"}},
		Items: []api.AttentionItem{{Kind: "dead_letter", ID: "act_1", Team: "acme", Subscription: "fulfil", Source: "orders", Entity: "o-1", Since: &at, Reason: "invalid", Command: "forebay dlq replay act_1 --reason TEXT"}}}
	f.plan = api.ReplayItem{ID: "1", Team: "acme", Subscription: "fulfil", Mode: "fill", State: "planned", PlannedAt: &at, PlannedBy: "ada", Range: api.ReplayRange{Offsets: 200, Counted: 200}, Records: 190,
		Runs: 30, Actions: 60, Rate: 10, Seconds: 3, MaxErrors: 5, ByType: map[string]int64{"order.changed": 28, "order.paid": 2}, Partitions: []api.ReplayPartition{{Topic: "events.acme.orders", Partition: 1, To: 200}}}
	f.question = api.ApprovalItem{ID: "7", Team: "acme", Subscription: "fulfil", Action: "run", ActionID: "act_7", Destination: "acme/agent", Digest: strings.Repeat("ab", 32), Source: "/acme/orders", EventID: "e-2",
		Type: "order.changed", Entity: "o-1", Version: "2", Why: "rule ask of policy: changes production", Sends: "the event's body:\n{\"order\": 1}", Roles: []string{"approver", "operator"}, State: "waiting", AskedAt: at, ExpiresAt: at.Add(24 * time.Hour)}
	f.changed = []api.AuditItem{{At: at, Actor: "ada", Role: "operator", By: "ada@ops", Action: "dlq.replay", Team: "acme", Object: "act_1", Reason: "mended", Outcome: "done", Before: json.RawMessage(`{"status":"dead_letter"}`)},
		{At: at, Actor: "loopback", Action: "subscription.seek", Team: "acme", Object: "acme/fulfil", Reason: "again", Outcome: "refused", Detail: "nothing was moved"}}
	f.drift = api.Drift{Items: []api.DriftItem{{Team: "acme", Source: "orders", Type: "order.changed", Field: "/order/total", Change: "kind", Was: []string{"number"}, Is: []string{"string"}, Since: at}},
		Types: []api.DriftType{{Team: "acme", Source: "orders", Type: "order.changed", Samples: 90}, {Team: "acme", Source: "orders", Type: "order.paid", Samples: 2, Learning: true}}}
	f.tested = api.SourceTested{Result: delivery.Event, EventID: "e-90", IDs: map[string]string{"X-Event-Id": "e-90"}, Type: "order.changed", Entity: "o-9", To: []string{"acme.fulfil", "team pay"}}
	f.stopped = api.StoppedItem{Team: "acme", Subscription: "fulfil", Topic: "events.acme.orders", Partition: 2,
		Stopped: api.StopItem{ID: 7, Kind: "truncated", Text: "the log begins at 90, and 40 was to be decided", Records: new(int64(50)), FromOffset: 40, ToOffset: 90, ResumeOffset: 90, Command: "forebay subscriptions accept acme.fulfil"}}
	f.planned = []api.SeekAskedItem{{Topic: "events.acme.orders", Partition: 1, From: new(int64(40)), To: 60, State: api.SeekPlanned, Again: new(int64(0)), Skipped: new(int64(20))}, {Topic: "events.acme.orders", State: api.SeekUnchanged, To: 7}}
	f.lag = []api.LagItem{{Records: new(int64(30)), Seconds: new(90.0), Waiting: new(int64(1)), Team: "acme", Subscription: "fulfil", Topic: "events.acme.orders", Partition: 1, State: "running", Owner: "host-1/17", Position: new(int64(40)), LogEnd: 70}, {Team: "acme", Subscription: "fulfil", Topic: "events.acme.orders", Partition: 2, State: "unread", Detail: "nobody reads it"}}
	f.sources = []api.SourceItem{{Team: "acme", Source: "orders", Preset: "generic", Path: "/v1/in/acme/orders", Seen: &api.SeenItem{Verified: 41, Refused: 2, VerifiedAt: &at,
		Secrets: []api.SecretItem{{Since: at.Add(-time.Hour), Verified: 41, LastUsed: &at}, {Since: at}}, Skew: &api.SkewItem{Deliveries: 8, Least: -2.5, Most: 1}}}}
	f.subs = []api.SubscriptionItem{{Team: "acme", Subscription: "fulfil", Sources: []string{"orders"}, Ready: true, Counts: &api.PartitionCounts{Total: 4, Running: 2, Unread: 1}, Attention: new(int64(3))}}
	f.to = []api.DestinationItem{{Team: "acme", Destination: "agent", Type: "http", State: "open", Running: 1, Concurrency: 64, ConsecutiveFailures: 9, FailingSince: &at}}
	return f
}

// fill sets every text below v to text, every time, flag and number to one that shows, and every list to two of its kind.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			word, _ := json.Marshal(map[string]string{"said": strings.ToValidUTF8(text, "\ufffd")})
			v.SetBytes(word)
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(text))
			return
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(at))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text)
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, more := range []string{"", "2"} {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, text+more)
			fill(value, text)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(strings.ToValidUTF8(text, "\ufffd")) // as answers of the API have it
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7)
	}
}

// filled is a fake all of whose answers say text wherever they say anything.
func filled(text string) *fake {
	f := &fake{}
	for _, v := range []any{&f.items, &f.detail, &f.raw, &f.entity, &f.dead, &f.history, &f.groups, &f.attention, &f.lag, &f.sources, &f.subs, &f.to, &f.checks, &f.kept, &f.would, &f.seeks, &f.planned, &f.stopped, &f.plan, &f.question, &f.changed, &f.drift, &f.tested} {
		fill(reflect.ValueOf(v).Elem(), text)
	}
	for i := range f.checks {
		f.checks[i].OK = false
	}
	f.question.State = "waiting"
	f.sources[0].Team, f.sources[0].Source, f.drift.Items[0].Team, f.drift.Items[0].Source = "acme", "orders", "acme", "orders" // sourceURL
	f.attention.Items[1].Team, f.attention.Items[1].Source, f.attention.Items[1].Subscription = "acme", "orders", ""
	for i := range f.attention.Counts {
		f.attention.Counts[i].Kind = f.attention.Items[i].Kind
	}
	return f
}

// screen is a page as a browser has it.
type screen struct {
	t      *testing.T
	status int
	header http.Header
	root   *html.Node
	source string
}

func get(t *testing.T, h http.Handler, path string) *screen {
	t.Helper()
	return send(t, h, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil))
}

func post(t *testing.T, h http.Handler, path string, form url.Values) *screen {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return send(t, h, r)
}

func send(t *testing.T, h http.Handler, r *http.Request) *screen {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	s := &screen{t: t, status: w.Code, header: w.Header(), source: w.Body.String()}
	var err error
	if s.root, err = html.Parse(strings.NewReader(s.source)); err != nil {
		t.Fatal(err)
	}
	return s
}

// all returns the elements of a name, in the order of the page; all elements if it is empty.
func (s *screen) all(name string) (list []*html.Node) {
	for n := range s.root.Descendants() {
		if n.Type == html.ElementNode && (name == "" || n.Data == name) {
			list = append(list, n)
		}
	}
	return list
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text returns what a reader sees of an element, with single spaces.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// says fails the test unless an element of a name says all of the texts.
func (s *screen) says(name string, texts ...string) *html.Node {
	s.t.Helper()
	for _, n := range s.all(name) {
		said, all := text(n), true
		for _, want := range texts {
			all = all && strings.Contains(said, want)
		}
		if all {
			return n
		}
	}
	s.t.Errorf("no <%s> says all of %q on a page of status %d:\n%s", name, texts, s.status, text(s.root))
	return nil
}

// link returns where the link of a name leads.
func (s *screen) link(name string) string {
	s.t.Helper()
	for _, n := range s.all("a") {
		if text(n) == name {
			return attr(n, "href")
		}
	}
	s.t.Errorf("there is no link %q", name)
	return ""
}

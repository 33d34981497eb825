package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/schemas"
)

// answered is what destinations answered in the world: nobody sees it who may not see what events carry.
const answered = "card 4242"

// world answers all questions for two teams, acme and pay, that have the same things; of others it has nothing. It notes what it was
// asked. What there is beside what is asked about stands in its errors, as it does in those of the product.
type world struct {
	mu    sync.Mutex
	calls []string
	by    []string // who changed something

	reads []string // who reads what is sent as a test

	audit     []AuditItem
	auditAway bool
	kept      int   // rows of the audit when something was changed the last time
	refuses   error // what it answers to a pause, a dead letter or the start of a replay
}

func (w *world) note(text string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, fmt.Sprintf(text, args...))
}

func (w *world) changed(by string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.by, w.kept = append(w.by, by), len(w.audit)
}

// taken returns what was asked since it was called before.
func (w *world) taken() (calls, by []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls, by = w.calls, w.by
	w.calls, w.by = nil, nil
	return calls, by
}

var teamsOfWorld = []string{"acme", "pay"}

func (w *world) has(team string) error {
	if !slices.Contains(teamsOfWorld, team) {
		return schemas.Errorf(schemas.NotFound, "", "no team %s is known; was pay meant?", team)
	}
	return nil
}

// listOf makes an item for each team that a list is to be of.
func listOf[T any](team string, item func(team string) T) (items []T) {
	for _, t := range teamsOfWorld {
		if team == "" || team == t {
			items = append(items, item(t))
		}
	}
	return items
}

func attempts() []AttemptItem { return []AttemptItem{{Attempt: 1, Response: answered}} }

func inboxItem(team string) InboxItem {
	return InboxItem{Team: team, Subscription: "triage", Source: "github", EventID: "e1", ReceivedAt: new(time.Unix(1, 0))}
}

func deadIn(team string) DeadLetterItem {
	return DeadLetterItem{ID: "act-" + team, Team: team, Response: answered}
}

func destinationOf(team string) DestinationItem {
	if team, shared := trimmed(team, "shared-"); shared {
		return DestinationItem{Teams: []string{team, "third"}, Destination: "shared-" + team, Elsewhere: []string{"third.triage", team + ".billing"}}
	}
	return DestinationItem{Team: team, Destination: "agent"}
}

func trimmed(text, prefix string) (string, bool) {
	if len(text) > len(prefix) && text[:len(prefix)] == prefix {
		return text[len(prefix):], true
	}
	return text, false
}

func (w *world) Items(_ context.Context, f InboxFilter) (Page[InboxItem], error) {
	w.note("items %s", f.Team)
	return Page[InboxItem]{Items: listOf(f.Team, inboxItem)}, nil
}

func (w *world) Item(_ context.Context, team, _, _, _ string) (*InboxDetail, error) {
	w.note("item %s", team)
	return &InboxDetail{InboxItem: inboxItem(team), Actions: []ActionItem{{ID: "a", Attempts: attempts()}}}, w.has(team)
}

func (w *world) Raw(_ context.Context, team, _, _, _ string) (*Raw, error) {
	w.note("raw %s", team)
	return &Raw{Data: []byte(answered)}, w.has(team)
}

func (w *world) Redrive(_ context.Context, team, _, _, _ string, r RedriveRequest) (*RedriveItem, error) {
	w.changed(r.By)
	return &RedriveItem{InboxItem: inboxItem(team)}, w.has(team)
}

func (w *world) Quarantined(_ context.Context, f QuarantineFilter) (Page[QuarantineItem], error) {
	w.note("quarantine %s", f.Team)
	return Page[QuarantineItem]{Items: listOf(f.Team, func(t string) QuarantineItem { return QuarantineItem{Team: t} })}, nil
}

func (w *world) QuarantinedBody(_ context.Context, p QuarantinePlace) ([]byte, error) {
	w.note("body %s", p.Team)
	return []byte(answered), w.has(p.Team)
}

func (w *world) RedriveQuarantined(_ context.Context, p QuarantinePlace, r QuarantineRedrive) (*QuarantineRedriven, error) {
	w.changed(r.By)
	return &QuarantineRedriven{}, w.has(p.Team)
}

func (w *world) TestSource(_ context.Context, team, _ string, r SourceTest, may func(*SourceTested) error) (*SourceTested, error) {
	planned := &SourceTested{State: StatePlanned, Result: delivery.Event, To: w.reads}
	if r.DryRun {
		return planned, w.has(team)
	}
	if err := may(planned); err != nil {
		return nil, err
	}
	w.changed(r.By)
	return &SourceTested{State: StateDone, Result: delivery.Event, Status: 202, To: w.reads}, w.has(team)
}

func (w *world) Entity(_ context.Context, f EntityFilter) (*EntityDetail, error) {
	w.note("entity %s", f.Team)
	return &EntityDetail{Team: f.Team, Track: []InboxItem{inboxItem(f.Team)}}, w.has(f.Team)
}

func (w *world) Entities(_ context.Context, f EntitiesFilter) (Page[EntityItem], error) {
	w.note("entities %s", f.Team)
	return Page[EntityItem]{Items: listOf(f.Team, func(t string) EntityItem { return EntityItem{Team: t} })}, nil
}

func (w *world) DeadLetters(_ context.Context, f DeadLetterFilter) (Page[DeadLetterItem], error) {
	w.note("dead letters %s", f.Team)
	return Page[DeadLetterItem]{Items: listOf(f.Team, deadIn)}, nil
}

func (w *world) DeadLetterGroups(_ context.Context, f DeadLetterFilter) (Page[DeadLetterGroup], error) {
	w.note("groups %s", f.Team)
	return Page[DeadLetterGroup]{Items: listOf(f.Team, func(t string) DeadLetterGroup { return DeadLetterGroup{Destination: t + "/agent"} })}, nil
}

func (w *world) DeadLetter(_ context.Context, id string) (*DeadLetterDetail, error) {
	team, _ := trimmed(id, "act-")
	w.note("dead letter %s", team)
	return &DeadLetterDetail{DeadLetterItem: deadIn(team), History: attempts()}, w.has(team)
}

func (w *world) DeadRecord(_ context.Context, id string) (*DeadRecord, error) {
	team, _ := trimmed(id, "act-")
	w.note("dead record %s", team)
	return &DeadRecord{Value: []byte(answered)}, w.has(team)
}

func (w *world) AskDeadLetter(_ context.Context, id, _ string, r DeadLetterRequest) (*DeadLetterAnswer, error) {
	team, _ := trimmed(id, "act-")
	if r.DryRun {
		return &DeadLetterAnswer{DeadLetterItem: deadIn(team)}, cmp.Or(w.refuses, w.has(team))
	}
	w.changed(r.By)
	if w.refuses != nil {
		return nil, w.refuses
	}
	return &DeadLetterAnswer{DeadLetterItem: deadIn(team)}, w.has(team)
}

// Replays 1 and 2 are of the teams.
func teamOfReplay(id int64) string {
	if id < 1 || id > int64(len(teamsOfWorld)) {
		return "none"
	}
	return teamsOfWorld[id-1]
}

func approvalOf(team string) ApprovalItem {
	return ApprovalItem{ID: strconv.Itoa(slices.Index(teamsOfWorld, team) + 1), Team: team, Roles: []string{"approver", "operator"}, State: "waiting", Sends: "what is sent"}
}

// Approvals implements [Approvals].
func (w *world) Approvals(_ context.Context, f ApprovalFilter) (page Page[ApprovalItem], err error) {
	w.note("approvals %s", f.Team)
	for _, team := range teamsOfWorld {
		if f.Team == "" || f.Team == team {
			page.Items = append(page.Items, approvalOf(team))
		}
	}
	return page, nil
}

// Approval implements [Approvals].
func (w *world) Approval(_ context.Context, id int64) (*ApprovalItem, error) {
	if id < 1 || int(id) > len(teamsOfWorld) {
		return nil, schemas.Errorf(schemas.NotFound, "", "there is no approval %d", id)
	}
	return new(approvalOf(teamsOfWorld[id-1])), nil
}

// AnswerApproval implements [Approvals].
func (w *world) AnswerApproval(ctx context.Context, id int64, _ bool, r ApprovalRequest) (*ApprovalItem, error) {
	w.changed(r.By)
	return w.Approval(ctx, id)
}

func replayOf(team string) ReplayItem {
	return ReplayItem{ID: strconv.Itoa(slices.Index(teamsOfWorld, team) + 1), Team: team}
}

func (w *world) OwnAction(_ context.Context, teams []string, text string) (string, error) {
	w.note("own action")
	if team, _ := trimmed(text, "act-"); slices.Contains(teams, team) {
		return text, nil
	}
	return "", nil
}

func (w *world) OwnReplay(_ context.Context, teams []string, id int64) (bool, error) {
	w.note("own replay")
	return slices.Contains(teams, teamOfReplay(id)), nil
}

func (w *world) PlanReplay(_ context.Context, r ReplayPlan) (*ReplayItem, error) {
	w.changed(r.By)
	return new(replayOf(r.Team)), w.has(r.Team)
}

func (w *world) CountReplay(ctx context.Context, id int64) (*ReplayItem, error) {
	w.note("count")
	return w.Replay(ctx, id)
}

func (w *world) StartReplay(ctx context.Context, id int64, r ReplayRequest) (*ReplayItem, error) {
	w.changed(r.By)
	if w.refuses != nil {
		return nil, w.refuses
	}
	return w.Replay(ctx, id)
}

func (w *world) CancelReplay(ctx context.Context, id int64, r ReplayRequest) (*ReplayItem, error) {
	w.changed(r.By)
	return w.Replay(ctx, id)
}

func (w *world) Replay(_ context.Context, id int64) (*ReplayItem, error) {
	team := teamOfReplay(id)
	return new(replayOf(team)), w.has(team)
}

func (w *world) Replays(_ context.Context, f ReplayFilter) (Page[ReplayItem], error) {
	w.note("replays %s", f.Team)
	return Page[ReplayItem]{Items: listOf(f.Team, replayOf)}, nil
}

func (w *world) Subscription(_ context.Context, team, name string) (*SubscriptionItem, error) {
	w.note("subscription %s", team)
	return &SubscriptionItem{Team: team, Subscription: name}, w.has(team)
}

func (w *world) Accept(_ context.Context, team, _ string, r AcceptRequest) ([]StoppedItem, error) {
	w.changed(r.By)
	return []StoppedItem{{Team: team}}, w.has(team)
}

// steered are the questions of Steering, whose names are those of Destinations.
type steered struct{ *world }

func (w steered) PauseScope(_ context.Context, scope, name string, r PauseRequest) (*ScopeItem, error) {
	w.changed(r.By)
	if scope == PauseTeam {
		return &ScopeItem{Scope: scope, Name: name}, w.has(name)
	}
	return &ScopeItem{Scope: scope, Name: name}, nil
}

func (w steered) ResumeScope(ctx context.Context, scope, name string, r PauseRequest) (*ScopeItem, error) {
	return w.PauseScope(ctx, scope, name, r)
}

func (w steered) Pauses(context.Context) ([]ScopeItem, error) {
	return append(listOf("", func(t string) ScopeItem { return ScopeItem{Scope: PauseTeam, Name: t, Teams: []string{t}} }),
		listOf("", func(t string) ScopeItem { return ScopeItem{Scope: PauseAgent, Name: t + "-bot", Teams: []string{t}} })...), nil
}

func (w steered) Lag(_ context.Context, team, _ string) ([]LagItem, error) {
	w.note("lag %s", team)
	return []LagItem{{Team: team}}, w.has(team)
}

func (w steered) Pause(_ context.Context, team, name string, r PauseRequest) (*SubscriptionItem, error) {
	w.changed(r.By)
	return &SubscriptionItem{Team: team, Subscription: name}, w.has(team)
}

func (w steered) Resume(ctx context.Context, team, name string, r PauseRequest) (*SubscriptionItem, error) {
	return w.Pause(ctx, team, name, r)
}

func (w steered) Seek(_ context.Context, team, _ string, r SeekRequest) ([]SeekAskedItem, error) {
	w.changed(r.By)
	return []SeekAskedItem{{Team: team}}, w.has(team)
}

func (w steered) Seeks(_ context.Context, team, _ string) ([]SeekAskedItem, error) {
	w.note("seeks %s", team)
	return []SeekAskedItem{{Team: team}}, w.has(team)
}

func (w *world) Destinations(context.Context) ([]DestinationItem, error) {
	w.note("destinations")
	return append(listOf("", destinationOf), destinationOf("shared-acme"), destinationOf("shared-pay")), nil
}

func (w *world) Destination(_ context.Context, team, name string) (*DestinationItem, error) {
	w.note("destination")
	if team == "" {
		of, _ := trimmed(name, "shared-")
		return new(destinationOf(name)), w.has(of)
	}
	return new(destinationOf(team)), w.has(team)
}

func (w *world) Pause(ctx context.Context, team, name string, r PauseRequest) (*DestinationItem, error) {
	w.changed(r.By)
	if w.refuses != nil {
		return nil, w.refuses
	}
	item, err := w.Destination(ctx, team, name)
	item.State = "paused"
	return item, err
}

func (w *world) Resume(ctx context.Context, team, name string, r PauseRequest) (*DestinationItem, error) {
	return w.Pause(ctx, team, name, r)
}

func (w *world) Alerts(context.Context) (*AlertList, error) {
	w.note("alerts")
	one, two := listOf("", func(team string) AlertItem {
		return AlertItem{Alert: "ForebayLag", Team: team, Labels: map[string]string{"subscription": team + ".triage"}}
	}), listOf("", func(team string) SilenceItem {
		return SilenceItem{ID: map[string]int64{"acme": 1, "pay": 2}[team], Alert: "ForebayLag", Team: team, Reason: "it is known", By: "bob", Until: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
	})
	return &AlertList{Items: append(one, AlertItem{Alert: "ForebayDeadLetter", Labels: map[string]string{"destination": "third-pagers"}}), Silences: two, NotLookedFor: true}, nil
}

func (w *world) SilenceAlert(_ context.Context, alert string, r SilenceRequest) (*SilenceItem, error) {
	w.changed(r.By)
	return &SilenceItem{ID: 9, Alert: alert, Team: r.Team}, w.has(r.Team)
}

func (w *world) EndSilence(_ context.Context, id int64, r SilenceEnd) (*SilenceItem, error) {
	w.changed(r.By)
	return &SilenceItem{ID: id}, nil
}

func (w *world) Tokens(context.Context) ([]TokenItem, error) {
	w.note("tokens")
	return []TokenItem{{Hash: [32]byte{1}, Name: "ann", Role: "operator", Teams: []string{"acme"}, Payloads: true, CreatedBy: "root", Reason: "she is on call", ExpiresAt: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}}, nil
}

func (w *world) CreateToken(_ context.Context, r TokenRequest) (*TokenMade, error) {
	w.changed(r.By)
	return &TokenMade{TokenItem: TokenItem{Name: r.Name}, Token: "fbo_x"}, nil
}

func (w *world) RevokeToken(_ context.Context, name string, r TokenRevocation) (*TokenItem, error) {
	w.changed(r.By)
	return &TokenItem{Name: name}, nil
}

func (w *world) BeginChange(_ context.Context, c AuditItem) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.auditAway {
		return 0, schemas.Errorf(schemas.Unavailable, "keep the change", "postgres is away")
	}
	w.audit = append(w.audit, c)
	return int64(len(w.audit)), nil
}

func (w *world) EndChange(_ context.Context, id int64, c AuditItem) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	row := &w.audit[id-1]
	row.Outcome, row.Detail, row.Before, row.After = c.Outcome, c.Detail, c.Before, c.After
	row.Team = cmp.Or(row.Team, c.Team)
	return nil
}

func (w *world) Changes(_ context.Context, f AuditFilter) (Page[AuditItem], error) {
	w.note("audit %s", f.Team)
	return Page[AuditItem]{Items: listOf(f.Team, func(t string) AuditItem { return AuditItem{Actor: "ann", Team: t, After: []byte(`{"n": 1}`)} })}, nil
}

// config has a listener answer from the world.
func (w *world) config(cfg *Config) {
	cfg.Ready = func(_ context.Context, notes bool) []Check {
		if notes {
			w.note("what waits")
		}
		return []Check{{Name: "subscription pay.triage", Role: "stream", OK: true}}
	}
	cfg.Inbox, cfg.Quarantine, cfg.Entities, cfg.DeadLetters, cfg.Approvals, cfg.Replays, cfg.Stops, cfg.Steering, cfg.Destinations, cfg.Owners, cfg.Tokens, cfg.Alerts = w, w, w, w, w, w, w, steered{w}, w, w, w, w
	cfg.Audit, cfg.SourceTests = w, w
	cfg.Attention = func(_ context.Context, f AttentionFilter) (*Attention, error) {
		w.note("attention %s", f.Team)
		return &Attention{Items: listOf(f.Team, func(t string) AttentionItem {
			return AttentionItem{Kind: KindPaused, Teams: []string{t, "third"}}
		})}, nil
	}
	cfg.Budgets = func(context.Context, bool) ([]BudgetItem, error) {
		return append(listOf("", func(t string) BudgetItem { return BudgetItem{Team: t, Of: "runs", Budget: "teams." + t + ".budget"} }),
			BudgetItem{Of: "runs", Teams: []string{teamsOfWorld[0], "third"}}), nil
	}
	cfg.Sources = func() []SourceItem {
		return listOf("", func(t string) SourceItem { return SourceItem{Team: t, Source: "github"} })
	}
	cfg.Subscriptions = func(context.Context) []SubscriptionItem {
		return listOf("", func(t string) SubscriptionItem { return SubscriptionItem{Team: t, Subscription: "triage"} })
	}
	cfg.ConfigDiff = func() []ConfigDifference {
		return listOf("", func(t string) ConfigDifference { return ConfigDifference{Team: t} })
	}
	cfg.Drift = func() *Drift {
		return &Drift{Items: listOf("", func(t string) DriftItem { return DriftItem{Team: t} }), Types: listOf("", func(t string) DriftType { return DriftType{Team: t} })}
	}
	registry := prometheus.NewRegistry()
	cfg.Gatherer = registry
}

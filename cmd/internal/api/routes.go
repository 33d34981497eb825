package api

import (
	"context"
	_ "embed"
	"net/http"
	"slices"

	"github.com/forebay-io/forebay/cmd/internal/access"
)

// description is the listener's API in OpenAPI 3.1. Tests hold the routes, the types and what goes over the wire to it.
//
//go:embed openapi.yaml
var description []byte

func serveDescription(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Write(description)
}

// route is one question that the listener takes.
type route struct {
	pattern  string // of http.ServeMux
	answered bool   // this process has what the answer is from
	ask      question
	right    access.Right // that who asks must have
	scope    scope        // how it is known of which team the question is
	query    []string     // the parameters that it has
	change   string       // what it changes, as the audit has it; empty: nothing
}

// routes are all questions, but for probes, metrics and the description: who may ask each, and what of this process it needs. The columns are
// those of route.
func (s *server) routes() []route {
	inbox, dead, replays, steering, destinations := s.Inbox != nil, s.DeadLetters != nil, s.Replays != nil, s.Steering != nil, s.Destinations != nil
	deadLetters := []string{"team", "subscription", "source", "entity", "type", "destination", "class", "group", "since", "limit", "cursor"}
	return []route{
		{"GET /v1/attention", true, s.attention, access.See, ofFilter, []string{"team", "kind", "limit"}, ""},
		{"GET /v1/quarantine", true, s.quarantine, access.See, ofFilter, []string{"team", "source", "kind", "limit", "waiting", "cursor"}, ""},
		{"GET /v1/quarantine/{team}/{source}/{partition}/{offset}/raw", true, s.quarantineRaw, access.Content, ofPath, nil, ""},
		{"POST /v1/quarantine/{team}/{source}/{partition}/{offset}/redrive", true, s.quarantineRedrive, access.Sources, ofPath, nil, "quarantine.redrive"},
		{"GET /v1/sources", true, s.sources, access.See, ofItems, nil, ""},
		{"POST /v1/sources/{team}/{source}/test", true, s.testSource, access.Sources, ofPath, nil, "source.test"},
		{"GET /v1/subscriptions", true, s.subscriptions, access.See, ofItems, nil, ""},
		{"GET /v1/config/diff", true, s.configDiff, access.See, ofItems, nil, ""},
		{"GET /v1/schemas/drift", true, s.drift, access.See, ofItems, nil, ""},

		{"GET /v1/inbox", inbox, s.inbox, access.See, ofFilter, []string{"team", "subscription", "source", "entity", "type", "status", "decision", "delivery", "since", "limit", "cursor"}, ""},
		{"GET /v1/inbox/{team}/{subscription}/{source}/{event}", inbox, s.item, access.See, ofPath, nil, ""},
		{"GET /v1/inbox/{team}/{subscription}/{source}/{event}/raw", inbox, s.raw, access.Content, ofPath, nil, ""},
		{"GET /v1/inbox/{team}/{subscription}/{source}/{event}/record", inbox, s.record, access.Content, ofPath, []string{"bytes"}, ""},
		{"POST /v1/inbox/{team}/{subscription}/{source}/{event}/redrive", inbox, s.redrive, access.Respond, ofPath, nil, "inbox.redrive"},
		{"GET /v1/entities", s.Entities != nil, s.entities, access.See, ofFilter, []string{"team", "subscription", "source", "limit", "cursor"}, ""},
		{"GET /v1/gaps", s.Entities != nil, s.gaps, access.See, ofFilter, []string{"team", "subscription", "source", "waits", "since", "limit", "cursor"}, ""},
		{"GET /v1/entities/{team}/{subscription}/{source}/{entity}", s.Entities != nil, s.entity, access.See, ofPath, []string{"since", "limit"}, ""},

		{"GET /v1/dlq", dead, s.deadLetters, access.See, ofFilter, append([]string{"behind"}, deadLetters...), ""},
		{"GET /v1/dlq-groups", dead, s.deadLetterGroups, access.See, ofFilter, deadLetters, ""},
		{"GET /v1/dlq/{action}", dead, s.deadLetter, access.See, ofAction, nil, ""},
		{"GET /v1/dlq/{action}/record", dead, s.deadRecord, access.Content, ofAction, nil, ""},
		{"POST /v1/dlq/{action}/{verb}", dead, s.askDeadLetter, access.Respond, ofAction, nil, "dlq.{verb}"},

		{"GET /v1/approvals", s.Approvals != nil, s.approvals, access.See, ofFilter, []string{"team", "state", "limit", "cursor"}, ""},
		{"GET /v1/approvals/{approval}", s.Approvals != nil, s.approval, access.See, ofApproval, nil, ""},
		{"POST /v1/approvals/{approval}/{verb}", s.Approvals != nil, s.answerApproval, access.Approve, ofApproval, nil, "approval.{verb}"},

		{"GET /v1/budgets", s.Budgets != nil, s.budgets, access.See, ofItems, []string{"used_up"}, ""},

		{"GET /v1/replays", replays, s.replays, access.See, ofFilter, []string{"team", "subscription", "limit", "cursor"}, ""},
		{"POST /v1/replays", replays, s.planReplay, access.Operate, ofItems, nil, "replay.plan"},
		{"GET /v1/replays/{replay}", replays, s.replay, access.See, ofReplay, nil, ""},
		{"POST /v1/replays/{replay}/count", replays, s.countReplay, access.Operate, ofReplay, nil, ""},
		{"POST /v1/replays/{replay}/start", replays, s.startReplay, access.Operate, ofReplay, nil, "replay.start"},
		{"POST /v1/replays/{replay}/cancel", replays, s.cancelReplay, access.Operate, ofReplay, nil, "replay.cancel"},

		{"GET /v1/subscriptions/{team}/{subscription}", s.Stops != nil, s.subscription, access.See, ofPath, nil, ""},
		{"POST /v1/subscriptions/{team}/{subscription}/accept", s.Stops != nil, s.accept, access.Operate, ofPath, nil, "subscription.accept"},
		{"GET /v1/subscriptions/{team}/{subscription}/lag", steering, s.lag, access.See, ofPath, nil, ""},
		{"POST /v1/subscriptions/{team}/{subscription}/pause", steering, s.pauseSubscription, access.Respond, ofPath, nil, "subscription.pause"},
		{"POST /v1/subscriptions/{team}/{subscription}/resume", steering, s.resumeSubscription, access.Respond, ofPath, nil, "subscription.resume"},
		{"POST /v1/subscriptions/{team}/{subscription}/seek", steering, s.seek, access.Operate, ofPath, nil, "subscription.seek"},
		{"GET /v1/subscriptions/{team}/{subscription}/seeks", steering, s.seeks, access.See, ofPath, nil, ""},

		{"GET /v1/pauses", steering, s.pauses, access.See, ofItems, nil, ""},
		{"POST /v1/pause", steering, s.pauseScope, access.Respond, ofAll, nil, "pause"},
		{"POST /v1/resume", steering, s.resumeScope, access.Respond, ofAll, nil, "resume"},
		{"POST /v1/teams/{team}/pause", steering, s.pauseScope, access.Respond, ofPath, nil, "team.pause"},
		{"POST /v1/teams/{team}/resume", steering, s.resumeScope, access.Respond, ofPath, nil, "team.resume"},
		{"POST /v1/agents/{agent}/pause", steering, s.pauseScope, access.Respond, ofAll, nil, "agent.pause"},
		{"POST /v1/agents/{agent}/resume", steering, s.resumeScope, access.Respond, ofAll, nil, "agent.resume"},

		{"GET /v1/destinations", destinations, s.destinations, access.See, ofItems, nil, ""},
		{"GET /v1/destinations/{team}/{destination}", destinations, s.destination, access.See, ofPath, nil, ""},
		{"POST /v1/destinations/{team}/{destination}/pause", destinations, s.pause, access.Respond, ofPath, nil, "destination.pause"},
		{"POST /v1/destinations/{team}/{destination}/resume", destinations, s.resume, access.Respond, ofPath, nil, "destination.resume"},
		{"GET /v1/destinations/{destination}", destinations, s.destination, access.See, ofItems, nil, ""}, // from here on, a shared one's
		{"POST /v1/destinations/{destination}/pause", destinations, s.pause, access.Respond, ofAll, nil, "destination.pause"},
		{"POST /v1/destinations/{destination}/resume", destinations, s.resume, access.Respond, ofAll, nil, "destination.resume"},

		{"GET /v1/alerts", s.Alerts != nil, s.alerts, access.See, ofItems, nil, ""},
		{"POST /v1/alerts/{alert}/silence", s.Alerts != nil, s.silenceAlert, access.Respond, ofItems, nil, "alert.silence"},
		{"POST /v1/silences/{silence}/end", s.Alerts != nil, s.endSilence, access.Respond, ofItems, nil, "alert.unsilence"},

		{"GET /v1/audit", s.Audit != nil, s.audit, access.Audit, ofFilter, []string{"team", "actor", "action", "object", "since", "limit", "cursor"}, ""},
		{"GET /v1/tokens", s.Tokens != nil, s.tokens, access.Tokens, ofAll, nil, ""},
		{"POST /v1/tokens", s.Tokens != nil, s.createToken, access.Tokens, ofAll, nil, "token.create"},
		{"POST /v1/tokens/{token}/revoke", s.Tokens != nil, s.revokeToken, access.Tokens, ofAll, nil, "token.revoke"},
	}
}

func (s *server) sources(ctx context.Context, _ *http.Request) (any, error) {
	return listed(of(s.Sources(), func(i SourceItem) bool { return who(ctx).Of(i.Team) }), nil)
}

func (s *server) subscriptions(ctx context.Context, _ *http.Request) (any, error) {
	return listed(of(s.Subscriptions(ctx), func(i SubscriptionItem) bool { return who(ctx).Of(i.Team) }), nil)
}

// of returns the items that who asks may see.
func of[T any](items []T, may func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(items), func(i T) bool { return !may(i) })
}

package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// AuditItem is a change that somebody made, or tried to make. It goes over the wire as the ledger has it.
type AuditItem = ledger.Change

// AuditFilter narrows a list of changes.
type AuditFilter = ledger.ChangeQuery

// Outcomes of an AuditItem.
const (
	OutcomeDone    = "done"
	OutcomeRefused = "refused" // nothing was changed: it could not be
	OutcomeFailed  = "failed"  // something is broken: it may have been changed all the same
)

// Audit keeps who changed what. Errors are *schemas.Error.
type Audit interface {
	// BeginChange keeps a change before it is tried, EndChange what became of it.
	BeginChange(ctx context.Context, c AuditItem) (id int64, err error)
	EndChange(ctx context.Context, id int64, c AuditItem) error
	Changes(ctx context.Context, f AuditFilter) (Page[AuditItem], error)
}

// unnamed is the actor where nobody has to prove who they are.
const unnamed = "loopback"

// change asks a question, and keeps it in the audit if it changes something: before it is asked, or it is not; and then what became of it.
// A process without the stream role has no audit: what it can do with quarantined deliveries and with sources, no process of the stream alone could
// do in its place, so it is done without a row.
func (s *server) change(ctx context.Context, asks *access.Who, q route, r *http.Request) (any, error) {
	if q.change == "" || s.Audit == nil || q.unknownVerb(r) { // which the question refuses
		return q.ask(ctx, r)
	}
	body, err := io.ReadAll(r.Body)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, errTooLarge
	}
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	var request struct {
		Reason, By, Name, Team, Subscription string
		DryRun                               bool `json:"dry_run"`
	}
	_ = json.Unmarshal(body, &request) // the question says what is wrong with it
	if request.DryRun {
		return q.ask(ctx, r)
	}
	c := AuditItem{Actor: unnamed, Role: asks.Role, By: request.By, Action: q.action(r), Team: r.PathValue("team"), Object: q.object(r), Reason: request.Reason}
	if asks.Name == "" {
		c.Role = ""
	} else {
		c.Actor = asks.Name
	}
	switch q.change {
	case "replay.plan":
		if c.Object = request.Team + "." + request.Subscription; asks.Of(request.Team) {
			c.Team = request.Team
		}
	case "alert.silence":
		if asks.Of(request.Team) {
			c.Team = request.Team
		}
	case "token.create":
		c.Object = request.Name
	}
	before := s.before(ctx, q, r, request.Team)
	c.Team = cmp.Or(c.Team, teamOf(before))
	id, err := s.Audit.BeginChange(ctx, c)
	if err != nil {
		return nil, err // nothing is changed that is not kept
	}
	answer, err := q.ask(ctx, r)
	s.endChange(ctx, id, before, answer, err)
	return answer, err
}

// failing fails as the body did that was read; not at all, if it did not.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// auditWithin is how long the outcome of a change may take to be kept, whatever time the change took.
const auditWithin = 3 * time.Second

// endChange keeps what became of a change.
func (s *server) endChange(ctx context.Context, id int64, before, answer any, err error) {
	end := AuditItem{Outcome: OutcomeDone}
	if err != nil {
		end.Outcome, end.Detail = OutcomeRefused, err.Error()
		switch kind := schemas.KindOf(err); {
		case kind == schemas.NotFound: // such an error may name what other teams have, and the row is its team's
			end.Detail = "there is nothing of that name"
		case statuses[kind] >= http.StatusInternalServerError:
			end.Outcome = OutcomeFailed
		}
		answer = nil
	}
	was, is := changed(before, shownTo(&access.Who{}, answer))
	end.Team, end.Before, end.After = teamOf(answer), keptJSON(was), keptJSON(is)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditWithin)
	defer cancel()
	if err := s.Audit.EndChange(ctx, id, end); err != nil {
		s.Logger.Warn("the audit does not say what became of a change", "id", id, "outcome", end.Outcome, "error", err)
	}
}

// before returns what a change is about as it is before it, where a look at it is cheap; nil elsewhere, and where there is nothing yet. Team is
// the one that the change itself names.
func (s *server) before(ctx context.Context, q route, r *http.Request, team string) (item any) {
	var err error
	switch {
	case strings.HasPrefix(q.change, "destination."):
		item, err = s.Destinations.Destination(ctx, r.PathValue("team"), r.PathValue("destination"))
	case strings.HasPrefix(q.change, "subscription.") && s.Stops != nil:
		item, err = s.Stops.Subscription(ctx, r.PathValue("team"), r.PathValue("subscription"))
	case q.scope == ofAction:
		// A dry run looks at the action alone; DeadLetter counts what stands behind it, and may read its whole partition for that.
		if a, _ := s.DeadLetters.AskDeadLetter(ctx, r.PathValue("action"), r.PathValue("verb"), DeadLetterRequest{DryRun: true}); a != nil {
			withhold(&a.Response)
			item = &a.DeadLetterItem
		}
	case q.scope == ofReplay:
		item, err = s.replay(ctx, r)
	case q.scope == ofApproval:
		var a *ApprovalItem
		if _, a, err = s.oneApproval(ctx, r); err == nil {
			item = shownTo(&access.Who{}, a)
		}
	case q.change == "alert.silence":
		return s.silenceBefore(ctx, func(o *SilenceItem) bool {
			return o.Alert == r.PathValue("alert") && (o.Team == "" || o.Team == team) && maySilence(who(ctx), team) == nil
		})
	case q.change == "alert.unsilence":
		return s.silenceBefore(ctx, func(o *SilenceItem) bool {
			return strconv.FormatInt(o.ID, 10) == r.PathValue("silence") && maySilence(who(ctx), o.Team) == nil
		})
	case q.change == "token.revoke":
		return s.tokenBefore(ctx, r.PathValue("token"))
	}
	if err != nil {
		return nil // the question says what is wrong
	}
	return item
}

// silenceBefore returns the silence that ends last of those that are meant; nil if there is none.
func (s *server) silenceBefore(ctx context.Context, meant func(*SilenceItem) bool) any {
	found, err := s.Alerts.Alerts(ctx)
	if err != nil {
		return nil
	}
	var last *SilenceItem
	for i := range found.Silences {
		if o := &found.Silences[i]; meant(o) && (last == nil || o.Until.After(last.Until)) {
			last = o
		}
	}
	if last == nil {
		return nil
	}
	return last
}

// tokenBefore returns what is kept of a token, which is not the token itself; nil if there is none of that name.
func (s *server) tokenBefore(ctx context.Context, name string) any {
	all, err := s.Tokens.Tokens(ctx)
	if i := slices.IndexFunc(all, func(t TokenItem) bool { return t.Name == name }); err == nil && i >= 0 {
		return all[i]
	}
	return nil
}

// changed returns what is kept of a change: what it is about before and after. Some answers have both.
func changed(before, answer any) (was, is any) {
	type outcome struct {
		Action string     `json:"action,omitempty"`
		State  string     `json:"state"`
		Detail string     `json:"detail,omitempty"`
		To     *PlaceItem `json:"to,omitempty"`
	}
	switch a := answer.(type) {
	case *DeadLetterAnswer:
		return a.DeadLetterItem, outcome{a.Verb, a.State, a.Detail, nil}
	case *RedriveItem:
		return a.InboxItem, outcome{a.Action, a.State, a.Detail, a.To}
	case *QuarantineRedriven:
		return a.QuarantineItem, outcome{"", a.State, a.Note, a.To}
	case *TokenMade:
		return nil, a.TokenItem // never the token itself
	}
	return before, answer
}

// teamOf returns the team of what has changed, where a path does not say it.
func teamOf(answer any) string {
	switch a := answer.(type) {
	case *DeadLetterAnswer:
		return a.Team
	case *DeadLetterItem:
		return a.Team
	case *ReplayItem:
		return a.Team
	case *ApprovalItem:
		return a.Team
	case *SilenceItem:
		return a.Team
	}
	return ""
}

// mostKept is the most of an item that the audit keeps.
const mostKept = 32 << 10

// keptJSON returns an item as the audit keeps it; nil for none.
func keptJSON(item any) json.RawMessage {
	if item == nil {
		return nil
	}
	text, err := json.Marshal(item)
	if err != nil || len(text) > mostKept {
		text = fmt.Appendf(nil, `{"omitted_bytes":%d}`, len(text))
	}
	return bytes.ReplaceAll(text, []byte(`\u0000`), []byte(`\ufffd`)) // which jsonb does not take
}

// action names what a question changes: dlq.replay, where the path says it.
func (q route) action(r *http.Request) string {
	return strings.Replace(q.change, "{verb}", r.PathValue("verb"), 1)
}

// unknownVerb reports whether a path asks for what nobody can be asked for: any text would be an action of the audit.
func (q route) unknownVerb(r *http.Request) bool {
	verb := r.PathValue("verb")
	return verb != "" && !slices.Contains(verbsOf(q.change), verb)
}

// object names what a question is about, by the names in its path.
func (q route) object(r *http.Request) string {
	var names []string
	for part := range strings.SplitSeq(q.pattern, "/") {
		if name := strings.Trim(part, "{}"); name != part && name != "verb" {
			names = append(names, r.PathValue(name))
		}
	}
	return strings.Join(names, "/")
}

func (s *server) audit(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	f := AuditFilter{Team: q.Get("team"), Actor: q.Get("actor"), Action: q.Get("action"), Object: q.Get("object"), Cursor: q.Get("cursor")}
	var err error
	if f.Limit, f.Since, err = limitAndSince(q); err != nil {
		return nil, err
	}
	return paged(s.Audit.Changes(ctx, f))
}

// Changes lists who changed what, the newest first.
func (c *Client) Changes(ctx context.Context, f AuditFilter) (Page[AuditItem], error) {
	return getJSON[Page[AuditItem]](ctx, c, "/v1/audit", query(f.Limit, f.Since, map[string]string{"team": f.Team, "actor": f.Actor, "action": f.Action,
		"object": f.Object, "cursor": f.Cursor}))
}

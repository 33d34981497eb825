package alerts

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Question is what a destination is told of an action that waits for a person's word: the body of the event that it gets.
type Question struct {
	Approval     string    `json:"approval"` // its id
	Team         string    `json:"team"`
	Subscription string    `json:"subscription"`
	Action       string    `json:"action"`
	ActionID     string    `json:"action_id"`
	Destination  string    `json:"destination"` // that the action is for
	Source       string    `json:"source"`
	EventID      string    `json:"event_id"`
	Type         string    `json:"type"`
	Entity       string    `json:"entity"`
	Version      string    `json:"version"`
	Why          string    `json:"why"`   // it is asked for
	Sends        string    `json:"sends"` // what is to be sent, without the file's secrets and cut off, as `forebay approvals get` shows it
	Roles        []string  `json:"roles"` // whose word counts, beside that of admins
	FourEyes     bool      `json:"four_eyes"`
	AskedAt      time.Time `json:"asked_at"`
	ExpiresAt    time.Time `json:"expires_at"`
	State        string    `json:"state"`   // waiting, or how it has ended: approved, denied, expired, void
	By           string    `json:"by"`      // who has answered; empty: nobody has
	Reason       string    `json:"reason"`  // that was given, or why it is void
	URL          string    `json:"url"`     // of the console's page
	Command      string    `json:"command"` // that approves
	Summary      string    `json:"summary"` // in one line
	Text         string    `json:"text"`    // all of it for people; what is to be sent is cut off earlier
}

// questions is what the events of questions are from; no team has this name.
const questions = "/_forebay/approvals"

// mostShown is how many characters of what is to be sent are in the text for people.
const mostShown = 2000

// NewQuestion returns what is told of an approval that waits. console is the URL of the console, without a slash at its end.
func NewQuestion(a *ledger.Approval, console string) Question {
	id := strconv.FormatInt(a.ID, 10)
	q := Question{Approval: id, Team: a.Team, Subscription: a.Subscription, Action: a.Action, ActionID: string(a.ActionID), Destination: a.Destination,
		Source: a.Source, EventID: a.EventID,
		Type: a.Type, Entity: a.Entity, Version: a.Version, Why: a.Why, Sends: a.Sends, Roles: a.Roles, FourEyes: a.FourEyes, AskedAt: a.AskedAt.UTC(),
		ExpiresAt: a.ExpiresAt.UTC(), State: string(a.State), By: a.AnsweredBy, Reason: a.Reason,
		URL: console + "/approvals/" + url.PathEscape(id), Command: "forebay approvals approve " + id}
	q.Summary = fmt.Sprintf("Approval %s: action %s of %s.%s to %s waits for somebody's word, for entity %s", id, a.Action, a.Team, a.Subscription,
		a.Destination, shown(a.Entity))
	if a.State == ledger.ApprovalUsed {
		q.State = string(ledger.ApprovalApproved) // whether it was attempted with it meanwhile
	}
	event := "Event: " + shown(a.Type) + " " + shown(a.EventID) + ", version " + shown(a.Version)
	if a.State != ledger.ApprovalWaiting {
		q.Summary = fmt.Sprintf("Approval %s: action %s of %s.%s to %s, for entity %s, %s", id, a.Action, a.Team, a.Subscription, a.Destination, shown(a.Entity), q.ended())
		q.Text = strings.Join([]string{q.Summary, "Why it was asked: " + shown(a.Why), event}, "\n")
		return q
	}
	who := "one of " + strings.Join(a.Roles, ", ")
	if a.FourEyes {
		who = "two of " + strings.Join(a.Roles, ", ")
	}
	lines := []string{q.Summary, "Why: " + shown(a.Why), event,
		"Until " + q.ExpiresAt.Format(time.RFC3339) + ", by " + who + ":", q.URL, q.Command + " --reason TEXT", "What is to be sent:"}
	sends := a.Sends
	if utf8.RuneCountInString(sends) > mostShown {
		sends = string([]rune(sends)[:mostShown]) + "\n" + template.Cut
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(sends, "\n"), "\n") {
		lines = append(lines, "> "+shown(line)) // what an event says is never taken for a line of ours
	}
	q.Text = strings.Join(lines, "\n")
	return q
}

// ended says how it has.
func (q Question) ended() string {
	switch ledger.ApprovalState(q.State) {
	case ledger.ApprovalExpired:
		return "has expired: nobody answered in time"
	case ledger.ApprovalVoid:
		return "needs no answer any more: " + shown(q.Reason)
	}
	return "was " + q.State + " by " + shown(q.By) + ": " + shown(q.Reason)
}

// shown returns a text that an event may have chosen as one line, without characters that hide or turn text.
func shown(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\u2028' || r == '\u2029':
			return ' '
		case template.Hides(r):
			return -1
		}
		return r
	}, text)
}

// Do returns a question as a sink takes it that tells destination, of a type. Its id is made of the action's and the approval's: a destination that knows
// it again is told once, however often it is sent. That it has ended is an action of its own, with the same event, so that templates make the same of it;
// http, which gives the event on, gets another one of the same entity.
func (q Question) Do(destination, typ string) (sink.Action, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return sink.Action{}, err
	}
	id := q.ActionID + "." + q.Approval
	e := &schemas.Event{ID: id, Source: questions, Type: "forebay.approval.asked", Entity: schemas.EntityKey(id), Time: q.AskedAt, RecordedTime: q.AskedAt,
		DataContentType: "application/json", Version: schemas.Version{Kind: schemas.None}, Payload: schemas.Delta, Data: body}
	a := sink.Action{ID: schemas.NewActionID("_forebay.approvals", 0, e.Source, e.ID, destination), Name: "ask", Subscription: "_forebay.approvals",
		Destination: destination,
		Attempt:     1, Event: e}
	if q.State != string(ledger.ApprovalWaiting) {
		a.ID, a.Amends = schemas.NewActionID("_forebay.approvals", 0, e.Source, e.ID, destination+" end"), a.ID
		if typ == "http" {
			e.ID, e.Type = id+".end", "forebay.approval.ended"
		}
	}
	return a, nil
}

// SampleQuestion is one with which it is tried whether a destination can be told of any.
func SampleQuestion() Question {
	now := time.Unix(1_800_000_000, 0)
	return NewQuestion(&ledger.Approval{ID: 1, State: ledger.ApprovalWaiting, Team: "acme", Subscription: "triage", Action: "run", ActionID: "act_1", Destination: "acme/deploy",
		Source: "/acme/github", EventID: "e-1",
		Type: "com.example.sample", Entity: "e/1", Version: "1", Why: "approval of action run", Sends: "the event's body:\n{}", Roles: []string{"approver"},
		AskedAt:   now,
		ExpiresAt: now.Add(24 * time.Hour)}, "http://127.0.0.1:9090/console")
}

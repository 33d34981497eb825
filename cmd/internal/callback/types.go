package callback

import (
	"context"
	"encoding/json"
	"time"

	"github.com/forebay-io/forebay/stream/inbox/reports"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Ledger is what the listener needs of the ledger. Errors are *schemas.Error.
type Ledger interface {
	// ID tells the ledger from others.
	ID() ([16]byte, error)
	Report(ctx context.Context, r ledger.Report) (reports.State, error)
	Beat(ctx context.Context, r ledger.AttemptRef) (alive bool, err error)
	ActionState(ctx context.Context, r ledger.AttemptRef) (reports.ActionState, error)
	// Event returns what became of an event of a source, in all subscriptions that know it.
	Event(ctx context.Context, team, source, id string) (EventItem, error)
}

// Result is the result that a destination reports for its attempt.
type Result struct {
	Status string `json:"status"` // done, failed (may be tried again) or dead (is not to be tried again)
	// Retryable is for failed: false turns it into dead.
	Retryable *bool `json:"retryable"`
	// RetryAfter is the least time until the next attempt, in seconds.
	RetryAfter float64         `json:"retry_after"`
	Code       int             `json:"code"`     // an HTTP status, to show
	Error      string          `json:"error"`    // why it failed
	Cost       json.Number     `json:"cost"`     // what the run has cost, for budgets
	Response   json.RawMessage `json:"response"` // what to keep of the result, 4 KiB at most: a text as it is, anything else as JSON
	Steps      json.RawMessage `json:"steps"`    // the run's tool calls, a list of [Step], to be seen in its trace
}

// ResultItem answers a result.
type ResultItem struct {
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
	State   string `json:"state"` // recorded, or repeated: the same was said before
	// StepsRefused says what is wrong with the steps. The result counts without them.
	StepsRefused string `json:"steps_refused,omitempty"`
}

// ActionItem is the state of an action.
type ActionItem struct {
	ID           string        `json:"id"`
	Name         string        `json:"name"`
	Subscription string        `json:"subscription"`
	Destination  string        `json:"destination"`
	Source       string        `json:"source"`
	EventID      string        `json:"event_id"`
	Status       ledger.Status `json:"status"`
	Attempt      int           `json:"attempt"`                // the token's
	Attempts     int           `json:"attempts"`               // recorded so far
	ResultBy     *time.Time    `json:"result_by,omitempty"`    // while it is processing
	HeartbeatBy  *time.Time    `json:"heartbeat_by,omitempty"` // while it is processing, where heartbeats are asked for
	// Cancel is why the result is not wanted any more, while it is processing: newer. The header X-Forebay-Cancel says the same.
	Cancel string        `json:"cancel,omitempty"`
	Result *ReportedItem `json:"result,omitempty"`
}

// ReportedItem is what was reported of the token's attempt.
type ReportedItem struct {
	Status string `json:"status"`
	State  string `json:"state"` // recorded, applied or late
}

// EventItem is what became of an event.
type EventItem struct {
	Team          string        `json:"team"`
	Source        string        `json:"source"`
	ID            string        `json:"id"`
	Status        string        `json:"status"` // of the subscription that is the furthest from done; received where none knows it yet
	Subscriptions []EventInItem `json:"subscriptions"`
	// Elsewhere are subscriptions whose ledger is another process's: Status says nothing of them.
	Elsewhere []string `json:"elsewhere,omitempty"`
}

// EventInItem is what became of an event in one subscription.
type EventInItem struct {
	Subscription string            `json:"subscription"`
	Status       string            `json:"status"`
	Decision     string            `json:"decision"`
	Reason       string            `json:"reason,omitempty"`
	Actions      []EventActionItem `json:"actions"`
}

// EventActionItem is one of an event's actions.
type EventActionItem struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Status   string `json:"status"`
	Attempts int    `json:"attempts"`
}

// problem is an answer by RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

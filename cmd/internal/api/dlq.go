package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// DeadLetters answers about actions that were given up, or whose outcome is unknown. Errors are *schemas.Error.
type DeadLetters interface {
	DeadLetters(ctx context.Context, f DeadLetterFilter) (Page[DeadLetterItem], error)
	DeadLetterGroups(ctx context.Context, f DeadLetterFilter) (Page[DeadLetterGroup], error)
	DeadLetter(ctx context.Context, id string) (*DeadLetterDetail, error)
	DeadRecord(ctx context.Context, id string) (*DeadRecord, error)
	// AskDeadLetter has for a dry run an answer beside its error where the dead letter is there, and may not be asked for this.
	AskDeadLetter(ctx context.Context, id, verb string, r DeadLetterRequest) (*DeadLetterAnswer, error)
}

// DeadLetterItem is an action that was given up, or whose outcome is unknown.
type DeadLetterItem struct {
	ID           string `json:"id"`
	Team         string `json:"team"`
	Subscription string `json:"subscription"`
	Generation   int32  `json:"generation"` // 0, or the replay that ran its event again
	Source       string `json:"source"`
	EventID      string `json:"event_id"`
	Type         string `json:"type"`
	Entity       string `json:"entity"`
	Version      string `json:"version"`
	Action       string `json:"action"`
	Destination  string `json:"destination"`
	OnDead       string `json:"on_dead"`
	Status       string `json:"status"`
	Class        string `json:"class"` // of the attempt that ended it; gap if a gap did, unknown if its outcome is
	Group        string `json:"group"` // fingerprint of class, code, destination and event type; dead letters that share it are a group; empty if it is no dead letter any more
	Code         int    `json:"code"`
	Error        string `json:"error"`
	Response     string `json:"response"`
	Attempts     int    `json:"attempts"`
	Deaths       int    `json:"deaths"`  // how often it was given up: each replay may end in another death
	Flagged      bool   `json:"flagged"` // given up three times or more: a replay by filter leaves it out unless told otherwise
	// Parks says that its entity's later events wait for it. Behind is how many they are; null if they were not counted, or not to
	// the end: then BehindAtLeast says how far the count came. A DeadLetterAnswer is made without a count.
	Parks         bool       `json:"parks"`
	Behind        *int64     `json:"behind"`
	BehindAtLeast *int64     `json:"behind_at_least,omitempty"`
	Asked         bool       `json:"asked"` // a command about it waits for the partition's owner
	FirstAt       *time.Time `json:"first_at"`
	DiedAt        time.Time  `json:"died_at"` // if the outcome is unknown, when its last attempt was marked or ended; if it is no dead letter any more, when it ended or, while it runs again, when its last attempt did
	Topic         string     `json:"topic"`
	Partition     int32      `json:"partition"`
	Offset        int64      `json:"offset"`
	Owner         string     `json:"owner"`
}

// Dead reports whether it is one still: given up, or its outcome unknown, and not run again, discarded or resolved since.
func (i *DeadLetterItem) Dead() bool {
	return i.Status == string(ledger.Dead) || i.Status == string(ledger.Unknown)
}

// Ended reports whether it is done, overtaken, discarded or resolved, and runs no more. Neither Dead nor Ended: it runs again.
func (i *DeadLetterItem) Ended() bool {
	return ledger.Status(i.Status).Closed()
}

// DeadLetterDetail is one dead letter with its attempts and what operators asked of it.
type DeadLetterDetail struct {
	DeadLetterItem
	URL      string        `json:"url,omitempty"` // of its destination, as that has it
	History  []AttemptItem `json:"history"`
	Commands []CommandItem `json:"commands"`
}

// DeadRecord is a dead letter as it is exported: the original key, headers and body, and more headers, which give the reason.
type DeadRecord struct {
	ID      string       `json:"id"`
	Topic   string       `json:"topic"` // dead.<team>.<subscription>
	Key     []byte       `json:"key"`
	Headers []DeadHeader `json:"headers"`
	Value   []byte       `json:"value"`
	Lost    string       `json:"lost,omitempty"` // why key, headers and value of the original are gone
}

// DeadHeader is a header of a record. Its value is text.
type DeadHeader struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// What can be asked of a dead letter.
const (
	VerbReplay  = "replay"
	VerbDiscard = "discard"
	VerbResolve = "resolve"
)

var verbs = []string{VerbReplay, VerbDiscard, VerbResolve}

// DeadLetterRequest asks something of a dead letter. By is who says so, as the client tells it.
type DeadLetterRequest struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
	// Force lets a replay run a snapshot although its entity has a newer version.
	Force bool `json:"force,omitempty"`
	// OutcomeUnknown lets a replay run an action that its destination may have done already: it may be done twice.
	OutcomeUnknown bool `json:"outcome_unknown,omitempty"`
	// Watch has the answer to a replay wait up to two seconds for whether the action runs, or is stale.
	Watch  bool `json:"watch,omitempty"`
	NoWait bool `json:"no_wait,omitempty"` // answer at once, before the partition's owner has applied the command
	DryRun bool `json:"dry_run,omitempty"`
}

// DeadLetterAnswer is the dead letter as it was before the request, and what became of the request; State is as in RedriveItem.
type DeadLetterAnswer struct {
	DeadLetterItem
	Verb    string `json:"verb"`
	State   string `json:"state"`
	Detail  string `json:"detail"`
	Command int64  `json:"command,omitempty"`
}

func (s *server) deadLetters(ctx context.Context, r *http.Request) (any, error) {
	f, err := deadLetterFilter(r)
	if err != nil {
		return nil, err
	}
	return paged(s.DeadLetters.DeadLetters(ctx, f))
}

func (s *server) deadLetterGroups(ctx context.Context, r *http.Request) (any, error) {
	f, err := deadLetterFilter(r)
	if err != nil {
		return nil, err
	}
	return paged(s.DeadLetters.DeadLetterGroups(ctx, f))
}

func (s *server) deadLetter(ctx context.Context, r *http.Request) (any, error) {
	return s.DeadLetters.DeadLetter(ctx, r.PathValue("action"))
}

func (s *server) deadRecord(ctx context.Context, r *http.Request) (any, error) {
	return s.DeadLetters.DeadRecord(ctx, r.PathValue("action"))
}

// askDeadLetter replays, discards or resolves a dead letter, by the verb in the path.
func (s *server) askDeadLetter(ctx context.Context, r *http.Request) (any, error) {
	verb := r.PathValue("verb")
	if !slices.Contains(verbs, verb) {
		return nil, nothingAt(r)
	}
	var req DeadLetterRequest
	if err := readBody(r, &req, &req.By, &req.Reason, &req.DryRun); err != nil {
		return nil, err
	}
	return s.DeadLetters.AskDeadLetter(ctx, r.PathValue("action"), verb, req)
}

// deadLetterFilter reads the filter from the query.
func deadLetterFilter(r *http.Request) (DeadLetterFilter, error) {
	q := r.URL.Query()
	f := DeadLetterFilter{Team: q.Get("team"), Subscription: q.Get("subscription"), Source: q.Get("source"), Entity: schemas.EntityKey(q.Get("entity")), Type: q.Get("type"),
		Destination: q.Get("destination"), Class: q.Get("class"), Group: q.Get("group"), Cursor: q.Get("cursor"), Uncounted: q.Has("behind")}
	var err error
	f.Limit, f.Since, err = limitAndSince(q)
	if behind := q.Get("behind"); err == nil && behind != "" && behind != "false" {
		err = schemas.Errorf(schemas.Invalid, "", "behind may only be false")
	}
	return f, err
}

func deadLetterQuery(f DeadLetterFilter) url.Values {
	behind := ""
	if f.Uncounted {
		behind = "false"
	}
	return query(f.Limit, f.Since, map[string]string{"behind": behind, "team": f.Team, "subscription": f.Subscription, "source": f.Source, "entity": string(f.Entity), "type": f.Type,
		"destination": f.Destination, "class": f.Class, "group": f.Group, "cursor": f.Cursor})
}

// DeadLetters lists dead letters and unknown outcomes, in lane order.
func (c *Client) DeadLetters(ctx context.Context, f DeadLetterFilter) (Page[DeadLetterItem], error) {
	return getJSON[Page[DeadLetterItem]](ctx, c, "/v1/dlq", deadLetterQuery(f))
}

// DeadLetterGroups counts dead letters by group, the largest groups first.
func (c *Client) DeadLetterGroups(ctx context.Context, f DeadLetterFilter) (Page[DeadLetterGroup], error) {
	return getJSON[Page[DeadLetterGroup]](ctx, c, "/v1/dlq-groups", deadLetterQuery(f))
}

// DeadLetter returns the dead letter of an action.
func (c *Client) DeadLetter(ctx context.Context, id string) (*DeadLetterDetail, error) {
	return getJSON[*DeadLetterDetail](ctx, c, "/v1/dlq/"+url.PathEscape(id), nil)
}

// DeadRecord returns the dead letter of an action as it is exported.
func (c *Client) DeadRecord(ctx context.Context, id string) (*DeadRecord, error) {
	return getJSON[*DeadRecord](ctx, c, "/v1/dlq/"+url.PathEscape(id)+"/record", nil)
}

// AskDeadLetter replays, discards or resolves a dead letter by the verb; a dry run says what would follow.
func (c *Client) AskDeadLetter(ctx context.Context, id, verb string, r DeadLetterRequest) (*DeadLetterAnswer, error) {
	return postJSON[*DeadLetterAnswer](ctx, c, "/v1/dlq/"+url.PathEscape(id)+"/"+verb, r)
}

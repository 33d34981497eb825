package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
)

// Replays plans, starts, shows and cancels replays. Errors are *schemas.Error.
type Replays interface {
	// PlanReplay makes a plan, and counts for a while.
	PlanReplay(ctx context.Context, r ReplayPlan) (*ReplayItem, error)
	// CountReplay counts on in a plan for a while.
	CountReplay(ctx context.Context, id int64) (*ReplayItem, error)
	StartReplay(ctx context.Context, id int64, r ReplayRequest) (*ReplayItem, error)
	CancelReplay(ctx context.Context, id int64, r ReplayRequest) (*ReplayItem, error)
	Replay(ctx context.Context, id int64) (*ReplayItem, error)
	Replays(ctx context.Context, f ReplayFilter) (Page[ReplayItem], error)
}

// ReplayFilter narrows a list of replays. An empty Team or Subscription means all.
type ReplayFilter struct {
	Team, Subscription string
	Limit              int
	Cursor             string
}

// ReplayPlan says what is to be replayed. What is left out is no bound.
type ReplayPlan struct {
	Team         string         `json:"team"`
	Subscription string         `json:"subscription"`
	Mode         string         `json:"mode"`
	Since        *time.Time     `json:"since,omitempty"` // append times of the records
	Until        *time.Time     `json:"until,omitempty"`
	Offsets      []ReplayOffset `json:"offsets,omitempty"` // with them, only these partitions; and neither since nor until
	// Events are ids as lists print them, at most 100. With neither times nor offsets the range is from the first to the last of them.
	Events    []string `json:"events,omitempty"`
	Sources   []string `json:"sources,omitempty"` // names of the subscription's sources
	Types     []string `json:"types,omitempty"`   // patterns
	Entity    string   `json:"entity,omitempty"`
	Decisions []string `json:"decisions,omitempty"`
	Statuses  []string `json:"statuses,omitempty"`   // as the inbox has them; of its own run, when the replay comes to an event
	EvenStale bool     `json:"even_stale,omitempty"` // of reprocess: older snapshots run again, too
	Rate      int      `json:"rate"`                 // events that run in a second; 0: no bound
	MaxErrors int      `json:"max_errors"`           // dead letters, unknown outcomes among them; with one more it ends
	By        string   `json:"by"`
}

// ReplayOffset bounds a partition by offsets, [From, To).
type ReplayOffset struct {
	Topic     string `json:"topic,omitempty"` // may be left out where the subscription has one
	Partition int32  `json:"partition"`
	From      *int64 `json:"from,omitempty"`
	To        *int64 `json:"to,omitempty"`
}

// ReplayRequest starts or cancels a replay.
type ReplayRequest struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// ReplayItem is a plan, and what came of it since it was started.
type ReplayItem struct {
	ID              string            `json:"id"`
	Team            string            `json:"team"`
	Subscription    string            `json:"subscription"`
	Mode            string            `json:"mode"`
	EvenStale       bool              `json:"even_stale"`
	State           string            `json:"state"` // counting, planned, running, done, failed, cancelled
	Detail          string            `json:"detail"`
	Events          []string          `json:"events"`
	Sources         []string          `json:"sources"`
	Types           []string          `json:"types"`
	Entity          string            `json:"entity"`
	Decisions       []string          `json:"decisions"`
	Statuses        []string          `json:"statuses"`
	Rate            int               `json:"rate"`
	MaxErrors       int               `json:"max_errors"`
	PlannedAt       *time.Time        `json:"planned_at"`
	PlannedBy       string            `json:"planned_by"`
	CountedAt       *time.Time        `json:"counted_at"`
	StartedAt       *time.Time        `json:"started_at"`
	StartedBy       string            `json:"started_by"`
	Reason          string            `json:"reason"`
	CancelledAt     *time.Time        `json:"cancelled_at"`
	CancelledBy     string            `json:"cancelled_by"`
	CancelledReason string            `json:"cancelled_reason"`
	Range           ReplayRange       `json:"range"` // of all partitions
	Records         int64             `json:"records"`
	Runs            int64             `json:"runs"`    // events that may run: wanted, and not decided when they were counted; of reprocess, decided
	Actions         int64             `json:"actions"` // at most, by these
	Seconds         int64             `json:"seconds"` // that these take by the rate; 0: it has none
	ByType          map[string]int64  `json:"by_type"`
	ByDecision      map[string]int64  `json:"by_decision"`
	ByEntity        map[string]int64  `json:"by_entity"`
	EntityRest      bool              `json:"entity_rest"` // there are more entities
	Done            int64             `json:"done"`        // records of the replay that were decided before (of reprocess: in it), and left out
	Applied         int64             `json:"applied"`     // this and the next four: what became of the others; of shadow, what would
	Late            int64             `json:"late"`
	Stale           int64             `json:"stale"`
	Waits           int64             `json:"waits"`
	Rejected        int64             `json:"rejected"`
	Errors          int               `json:"errors"` // its actions that are dead letters now, unknown outcomes among them
	Partitions      []ReplayPartition `json:"partitions"`
	// Only of one replay. Notes say of a plan what its counts do not. Left is the command that plans what a replay that failed or was
	// cancelled has left; empty: nothing is, or only all of it can be planned again.
	Notes []string `json:"notes,omitempty"`
	Left  string   `json:"left,omitempty"`
	// Of shadow, and only of one replay: what it has found, by type, and the first events of each partition that differ.
	Shadow      []ReplayShadow     `json:"shadow,omitempty"`
	Differences []ReplayDifference `json:"differences,omitempty"`
}

// ReplayShadow counts events of a type that were decided so, and would be now.
type ReplayShadow = inbox.ShadowCount

// ReplayDifference is an event of which something else would run now.
type ReplayDifference struct {
	Event   string `json:"event"` // its name, as inbox get takes it
	Type    string `json:"type"`
	Entity  string `json:"entity"`
	Was     string `json:"was"`     // its decision; undecided: there is none
	Would   string `json:"would"`   // the decision now
	Differs string `json:"differs"` // new: it would run, and did not; gone: it ran, and would not; other: other actions
	Ran     string `json:"ran"`     // the actions of then: "name to destination", in their order; empty: none
	Runs    string `json:"runs"`    // those of now
}

// ReplayRange is how many offsets a replay has, how many were counted, and up to how many it has come.
type ReplayRange struct {
	Offsets int64 `json:"offsets"`
	Counted int64 `json:"counted"`
	Passed  int64 `json:"passed"`
}

// ReplayPartition is the range of a replay in a partition, and how far it has come.
type ReplayPartition struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	From      int64      `json:"from"`
	To        int64      `json:"to"`
	Counted   int64      `json:"counted"`
	FirstAt   *time.Time `json:"first_at"`
	Next      *int64     `json:"next"` // null: it was not started
	MovedAt   *time.Time `json:"moved_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Failure   string     `json:"failure"`
	Detail    string     `json:"detail"`
	Owner     string     `json:"owner"`
}

func (s *server) planReplay(ctx context.Context, r *http.Request) (any, error) {
	var req ReplayPlan
	var reason string
	planned := true // a plan has no effect, and needs no reason
	if err := readBody(r, &req, &req.By, &reason, &planned); err != nil {
		return nil, err
	}
	if !who(ctx).Of(req.Team) {
		return nil, errNotYours
	}
	return s.Replays.PlanReplay(ctx, req)
}

func (s *server) countReplay(ctx context.Context, r *http.Request) (any, error) {
	id, err := replayID(r)
	if err != nil {
		return nil, err
	}
	return s.Replays.CountReplay(ctx, id)
}

func (s *server) startReplay(ctx context.Context, r *http.Request) (any, error) {
	id, req, err := replayRequest(r)
	if err != nil {
		return nil, err
	}
	return s.Replays.StartReplay(ctx, id, req)
}

func (s *server) cancelReplay(ctx context.Context, r *http.Request) (any, error) {
	id, req, err := replayRequest(r)
	if err != nil {
		return nil, err
	}
	return s.Replays.CancelReplay(ctx, id, req)
}

func (s *server) replay(ctx context.Context, r *http.Request) (any, error) {
	id, err := replayID(r)
	if err != nil {
		return nil, err
	}
	return s.Replays.Replay(ctx, id)
}

func (s *server) replays(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := parseLimit(q.Get("limit"))
	if err != nil {
		return nil, err
	}
	return paged(s.Replays.Replays(ctx, ReplayFilter{Team: q.Get("team"), Subscription: q.Get("subscription"), Limit: limit, Cursor: q.Get("cursor")}))
}

func replayRequest(r *http.Request) (id int64, req ReplayRequest, err error) {
	if id, err = replayID(r); err == nil {
		err = readBody(r, &req, &req.By, &req.Reason, new(bool))
	}
	return id, req, err
}

// replayID reads the id of a replay from the path.
func replayID(r *http.Request) (int64, error) {
	id, err := strconv.ParseInt(r.PathValue("replay"), 10, 64)
	if err != nil || id < 1 {
		return 0, schemas.Errorf(schemas.Invalid, "", "%q is no id of a replay: `forebay replay list -o id` prints them", r.PathValue("replay"))
	}
	return id, nil
}

func replayPath(id, verb string) string {
	path := "/v1/replays/" + url.PathEscape(id)
	if verb != "" {
		path += "/" + verb
	}
	return path
}

// PlanReplay makes a plan. While its state is counting, CountReplay goes on with it.
func (c *Client) PlanReplay(ctx context.Context, r ReplayPlan) (*ReplayItem, error) {
	return postJSON[*ReplayItem](ctx, c, "/v1/replays", r)
}

// CountReplay counts on in a plan.
func (c *Client) CountReplay(ctx context.Context, id string) (*ReplayItem, error) {
	return postJSON[*ReplayItem](ctx, c, replayPath(id, "count"), struct{}{})
}

// AskReplay starts or cancels a replay; verb is start or cancel.
func (c *Client) AskReplay(ctx context.Context, id, verb string, r ReplayRequest) (*ReplayItem, error) {
	return postJSON[*ReplayItem](ctx, c, replayPath(id, verb), r)
}

// Replay returns a replay.
func (c *Client) Replay(ctx context.Context, id string) (*ReplayItem, error) {
	return getJSON[*ReplayItem](ctx, c, replayPath(id, ""), nil)
}

// Replays lists replays, the newest first.
func (c *Client) Replays(ctx context.Context, f ReplayFilter) (Page[ReplayItem], error) {
	return getJSON[Page[ReplayItem]](ctx, c, "/v1/replays", query(f.Limit, time.Time{}, map[string]string{"team": f.Team, "subscription": f.Subscription, "cursor": f.Cursor}))
}

package api

import (
	"context"
	"net/http"
	"time"
)

// Steering says how far subscriptions are behind, and steers them. Errors are *schemas.Error: of kind Conflict, if what is to be paused is
// paused already or what is to be resumed is not.
type Steering interface {
	Lag(ctx context.Context, team, name string) ([]LagItem, error)
	Pause(ctx context.Context, team, name string, r PauseRequest) (*SubscriptionItem, error)
	Resume(ctx context.Context, team, name string, r PauseRequest) (*SubscriptionItem, error)
	// PauseScope and ResumeScope are the same for all subscriptions, those of a team, or the destinations of an agent; Pauses lists what
	// stands of these.
	PauseScope(ctx context.Context, scope, name string, r PauseRequest) (*ScopeItem, error)
	ResumeScope(ctx context.Context, scope, name string, r PauseRequest) (*ScopeItem, error)
	Pauses(ctx context.Context) ([]ScopeItem, error)
	// Seek moves positions: all of the partitions that the request selects are asked to move, or none.
	Seek(ctx context.Context, team, name string, r SeekRequest) ([]SeekAskedItem, error)
	// Seeks lists the seeks that were asked for: those that are open, then the newest first.
	Seeks(ctx context.Context, team, name string) ([]SeekAskedItem, error)
}

// SeekRequest asks for a change of position. By is who says so, as the client tells it.
type SeekRequest struct {
	To        string `json:"to"`                  // start, end, an offset, an RFC 3339 time, or how long ago: -1h
	Topic     string `json:"topic,omitempty"`     // empty: all that it reads
	Partition *int32 `json:"partition,omitempty"` // null: all
	Reason    string `json:"reason"`
	By        string `json:"by"`
	DryRun    bool   `json:"dry_run,omitempty"`
}

// States of a SeekAskedItem.
const (
	SeekPlanned   = "planned"   // a dry run
	SeekUnchanged = "unchanged" // the position is there already
	SeekWaiting   = "waiting"   // for the partition's owner
	SeekMoved     = "moved"
	SeekRefused   = "refused" // the topic was created again since: nothing was moved
	SeekReplaced  = "replaced"
)

// SeekAskedItem is what was asked of one partition, and what became of it.
type SeekAskedItem struct {
	ID           int64  `json:"id"` // 0: nothing was asked
	Team         string `json:"team"`
	Subscription string `json:"subscription"`
	Topic        string `json:"topic"`
	Partition    int32  `json:"partition"`
	From         *int64 `json:"from_offset"` // the position before; null: it was not moved yet
	To           int64  `json:"to_offset"`
	State        string `json:"state"`
	Detail       string `json:"detail"` // why it was refused, or for whom it waits
	// Again are the offsets that are read again, and KnownDone, an estimate, those of them that were decided: they are skipped. Skipped are
	// the offsets that are not decided and will not be. They are null in a list of what was asked for before.
	Again     *int64     `json:"read_again"`
	KnownDone *int64     `json:"known_done"`
	Skipped   *int64     `json:"skipped"`
	By        string     `json:"by"`
	Reason    string     `json:"reason"`
	AskedAt   *time.Time `json:"asked_at"`
	EndedAt   *time.Time `json:"ended_at"`
}

// LagItem is how far a subscription is behind in one partition. It is of the brokers and of the ledger, whichever process has the
// partition, if one has it at all. What cannot be told is null.
type LagItem struct {
	Team         string `json:"team"`
	Subscription string `json:"subscription"`
	Topic        string `json:"topic"`
	Partition    int32  `json:"partition"`
	State        string `json:"state"`     // running, claiming, stopped, unread or paused
	Detail       string `json:"detail"`    // why nothing is decided
	Owner        string `json:"owner"`     // the process that has claimed it, HOST/PID; if it is unread, that one does not read it any more. Empty: none has
	LogStart     int64  `json:"log_start"` // the first offset that the log still has
	LogEnd       int64  `json:"log_end"`   // the offset that the next record gets
	// Position is the offset of the next record to decide, in the ledger: what counts. null: no process has claimed the partition yet.
	Position *int64 `json:"position"`
	// Mirror is the group's committed offset in Kafka, which follows the position and is what Kafka's tools show. null: there is none.
	Mirror *int64 `json:"mirror"`
	// Records are from the position to the end of the log, offsets without a record (transactions' marks) included.
	Records *int64 `json:"lag_records"`
	// Seconds is the age of the oldest record that is not decided; 0: all are. null: it could not be read in time, or is behind an open transaction.
	Seconds  *float64   `json:"lag_seconds"`
	OldestAt *time.Time `json:"oldest_at"` // when that record was appended
	// OpenActions are those of decided events that were not tried yet, or tried and have not ended. null: there are too many to count in time.
	OpenActions *int64 `json:"open_actions"`
	// OpenSeconds is for how long the first of them has been to run that goes on without an operator; 0: there is none. null: not known.
	OpenSeconds *float64 `json:"open_seconds"`
	Waiting     *int64   `json:"waiting_events"` // null: not counted, as OpenActions
}

func (s *server) lag(ctx context.Context, r *http.Request) (any, error) {
	return listed(s.Steering.Lag(ctx, r.PathValue("team"), r.PathValue("subscription")))
}

func (s *server) pauseSubscription(ctx context.Context, r *http.Request) (any, error) {
	return changePause(ctx, r, r.PathValue("team"), r.PathValue("subscription"), s.Steering.Pause)
}

func (s *server) resumeSubscription(ctx context.Context, r *http.Request) (any, error) {
	return changePause(ctx, r, r.PathValue("team"), r.PathValue("subscription"), s.Steering.Resume)
}

func (s *server) seek(ctx context.Context, r *http.Request) (any, error) {
	var req SeekRequest
	if err := readBody(r, &req, &req.By, &req.Reason, &req.DryRun); err != nil {
		return nil, err
	}
	return listed(s.Steering.Seek(ctx, r.PathValue("team"), r.PathValue("subscription"), req))
}

func (s *server) seeks(ctx context.Context, r *http.Request) (any, error) {
	return listed(s.Steering.Seeks(ctx, r.PathValue("team"), r.PathValue("subscription")))
}

// Seek asks for a change of position and does not wait for it: Seeks says what has become of it. A dry run asks for nothing.
func (c *Client) Seek(ctx context.Context, team, name string, r SeekRequest) (Page[SeekAskedItem], error) {
	return postJSON[Page[SeekAskedItem]](ctx, c, subscriptionPath(team, name)+"/seek", r)
}

// Seeks lists the seeks that were asked for: those that are open, then the newest first.
func (c *Client) Seeks(ctx context.Context, team, name string) (Page[SeekAskedItem], error) {
	return getJSON[Page[SeekAskedItem]](ctx, c, subscriptionPath(team, name)+"/seeks", nil)
}

// PauseSubscription pauses a subscription in all processes and returns its state after that; a dry run changes nothing.
func (c *Client) PauseSubscription(ctx context.Context, team, name string, r PauseRequest) (*SubscriptionItem, error) {
	return postJSON[*SubscriptionItem](ctx, c, subscriptionPath(team, name)+"/pause", r)
}

// ResumeSubscription ends a pause in all processes and returns the subscription's state after that; a dry run changes nothing.
func (c *Client) ResumeSubscription(ctx context.Context, team, name string, r PauseRequest) (*SubscriptionItem, error) {
	return postJSON[*SubscriptionItem](ctx, c, subscriptionPath(team, name)+"/resume", r)
}

// Lag returns how far a subscription is behind, by partition.
func (c *Client) Lag(ctx context.Context, team, name string) (Page[LagItem], error) {
	return getJSON[Page[LagItem]](ctx, c, subscriptionPath(team, name)+"/lag", nil)
}

package inbox

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Replay is a plan, and what came of it since it was started.
type Replay struct {
	ID           int64
	Subscription string // "<team>.<subscription>"
	Mode         ledger.ReplayMode
	EvenStale    bool // of ReplayReprocess: older snapshots run again, too
	Filter       ledger.ReplayFilter
	Config       string // a digest of what decides, as it was when the plan was made
	Bounds       []ReplayBounds
	Counts       ReplayCounts
	Rate         int // events that run in a second, in all processes together; 0: no bound
	MaxErrors    int // dead letters, unknown outcomes among them; with one more it ends

	PlannedAt, CountedAt, StartedAt, CancelledAt *time.Time // CountedAt is nil while it is being counted
	PlannedBy, StartedBy, Reason                 string
	CancelledBy, CancelledReason                 string

	Parts  []ReplayProgress
	Errors int // of its actions that are dead letters now, unknown outcomes among them
}

// ReplayBounds is the range of a plan in one partition. Its JSON is a column of the ledger.
type ReplayBounds struct {
	Fence     int32  `json:"fence"`
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"` // hexadecimal
	Partition int32  `json:"partition"`
	// Partitions is how many the topic had.
	Partitions int32 `json:"partitions"`
	From       int64 `json:"from"`
	To         int64 `json:"to"`
	Counted    int64 `json:"counted"` // up to where it was counted
	// FirstAt is the append time of the first record; nil: there is none.
	FirstAt *time.Time `json:"first_at,omitempty"`
	// Short says that the plan asked for more: the range begins where the log does, behind the time that it was to begin with.
	Short bool `json:"short,omitempty"`
}

// TopicIDText is how bounds have a topic's id.
func TopicIDText(id ledger.TopicID) string { return hex.EncodeToString(id[:]) }

// ReplayCounts is what a plan has counted. Its JSON is a column of the ledger.
type ReplayCounts struct {
	Records    int64                   `json:"records"` // that the filter wants
	Runs       int64                   `json:"runs"`    // of those, events that may run: wanted, and not decided; to run again, decided
	Types      map[string]int64        `json:"types"`
	Decisions  map[gate.Decision]int64 `json:"decisions"`   // what the ledger knew of them
	Entities   map[string]int64        `json:"entities"`    // those with the most
	EntityRest bool                    `json:"entity_rest"` // there were more entities than are kept, so that those kept may have more events than it says
	// Hole is an entity with versions that must follow each other, of which the filter wants some events and leaves out others that were
	// never decided either: those behind would wait for them in vain. Empty: none was found.
	Hole schemas.EntityKey `json:"hole,omitempty"`
}

// ReplayProgress is how far a replay has come in a partition.
type ReplayProgress struct {
	Topic                                       string
	Partition                                   int32
	From, To, Next                              int64
	Done, Applied, Late, Stale, Waits, Rejected int64
	MovedAt, EndedAt                            *time.Time
	Failure                                     *string // nil: it is under way; empty: it ended well
	Detail                                      string
	Owner                                       string // empty: nobody has the partition
}

// States of a replay.
const (
	ReplayCounting  = "counting"
	ReplayPlanned   = "planned"
	ReplayRunning   = "running"
	ReplayDone      = "done"
	ReplayFailed    = "failed"
	ReplayCancelled = "cancelled"
)

// State returns the state of the replay. While one partition is under way the replay is running, although another may have failed.
func (r *Replay) State() string {
	switch {
	case r.CancelledAt != nil:
		return ReplayCancelled
	case r.CountedAt == nil:
		return ReplayCounting
	case r.StartedAt == nil:
		return ReplayPlanned
	}
	state := ReplayDone
	for i := range r.Parts {
		switch f := r.Parts[i].Failure; {
		case f == nil: // this partition has not ended
			return ReplayRunning
		case *f != "":
			state = ReplayFailed
		}
	}
	return state
}

// Position is where a subscription stands in a partition of a topic, by the topic's id.
type Position struct {
	Fence     int32
	Topic     string
	TopicID   ledger.TopicID
	Partition int32
	Next      int64
	Copied    *time.Time // when it went over from the topic of which this one is a copy; nil: it is none
}

// Positions returns where a subscription stands, in every partition that it ever claimed; of a topic that was created again, in those of
// both. Former generations of the subscription are left out.
func (b *Inbox) Positions(ctx context.Context, subscription string) ([]Position, error) {
	rows, err := b.look.Query(ctx, `SELECT f.id, f.topic, f.topic_id, f.partition, p.next_offset,
		(SELECT t.left_at FROM topics t WHERE t.subscription = s.id AND t.topic_id = f.copy_of)
		FROM subscriptions s JOIN fences f ON f.subscription = s.id JOIN progress p ON p.fence = f.id
		WHERE s.name = $1 AND s.generation = 0 ORDER BY f.topic, f.partition, f.id`, subscription)
	var list []Position
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Position])
	}
	return list, ledger.Unavailable("read the positions of "+subscription, err)
}

// Remembers returns since when the dedupe of a subscription remembers what was decided; zero: it has forgotten nothing.
func (b *Inbox) Remembers(ctx context.Context, subscription string) (time.Time, error) {
	since, err := ledger.Remembers(ctx, b.look, subscription)
	if err != nil {
		return time.Time{}, ledger.Unavailable("read what dedupe remembers of "+subscription, err)
	}
	return since, nil
}

// SaveReplay stores a plan that is to be counted, and returns its id.
func (b *Inbox) SaveReplay(ctx context.Context, r *Replay) (id int64, err error) {
	const op = "plan a replay"
	err = asking(ctx, b.look, op, ledger.AboutSubscription, r.Subscription, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `INSERT INTO replays (subscription, mode, filter, config, bounds, counts, rate, max_errors, planned_by, even_stale)
			SELECT id, $2, $3, $4, $5, $6, $7, $8, $9, $10 FROM subscriptions WHERE name = $1 AND generation = 0 RETURNING id`,
			r.Subscription, string(r.Mode), r.Filter, r.Config, r.Bounds, r.Counts, r.Rate, r.MaxErrors, ledger.Clean(r.PlannedBy, 200), r.EvenStale).Scan(&id)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, schemas.Errorf(schemas.NotFound, op, "the ledger has no subscription %s: it never ran", r.Subscription)
	}
	if err != nil {
		return 0, ledger.Unavailable("store the plan of a replay", err)
	}
	return id, nil
}

// CountReplay stores what was counted of a plan meanwhile: r as it is now, where the ledger has it as it was before. Kind Conflict says that
// somebody else has counted on.
func (b *Inbox) CountReplay(ctx context.Context, r *Replay, before []ReplayBounds, complete bool) error {
	op := fmt.Sprintf("count replay %d", r.ID)
	var tag pgconn.CommandTag
	err := asking(ctx, b.look, op, ledger.AboutReplay, r.ID, func(tx pgx.Tx) (err error) {
		tag, err = tx.Exec(ctx, `UPDATE replays SET bounds = $2, counts = $3, counted_at = CASE WHEN $4 THEN now() END
			WHERE id = $1 AND counted_at IS NULL AND cancelled_at IS NULL AND bounds = $5`, r.ID, r.Bounds, r.Counts, complete, before)
		return err
	})
	if err != nil {
		return ledger.Unavailable(op, err)
	}
	if tag.RowsAffected() == 0 {
		return schemas.Errorf(schemas.Conflict, op, "somebody else counts it, or it was cancelled: `forebay replay get %d` shows it", r.ID)
	}
	return nil
}

const replaySelect = `-- replays
SELECT r.id, s.name, r.mode, r.even_stale, r.filter, r.config, r.bounds, r.counts, r.rate, r.max_errors, r.planned_at, r.counted_at, r.started_at, r.cancelled_at,
       r.planned_by, coalesce(r.started_by, ''), coalesce(r.reason, ''), coalesce(r.cancelled_by, ''), coalesce(r.cancelled_reason, ''),
       coalesce((SELECT jsonb_agg(jsonb_build_object('Topic', f.topic, 'Partition', f.partition, 'From', p.from_offset, 'To', p.to_offset, 'Next', p.next_offset,
           'Done', p.done, 'Applied', p.applied, 'Late', p.late, 'Stale', p.stale, 'Waits', p.waits, 'Rejected', p.rejected, 'MovedAt', p.moved_at,
           'EndedAt', p.ended_at, 'Failure', p.failure, 'Detail', coalesce(p.detail, ''), 'Owner', CASE WHEN f.released THEN '' ELSE f.owner END)
           ORDER BY f.topic, f.partition) FROM replay_parts p JOIN fences f ON f.id = p.fence WHERE p.replay = r.id), '[]'),
       (SELECT count(*) FROM (` + ledger.DeadOfReplay + `) d)::int
FROM replays r JOIN subscriptions s ON s.id = r.subscription `

// Replay returns a replay. Kind NotFound if there is none of that id.
func (b *Inbox) Replay(ctx context.Context, id int64) (*Replay, error) {
	var list []Replay
	err := b.inWindows(ctx, `s.id = (SELECT subscription FROM replays WHERE id = $1)`, func(of scope) (err error) {
		list, err = b.replays(ctx, of, `WHERE r.id = $1`, id)
		return err
	}, id)
	if err != nil {
		return nil, ledger.Unavailable(fmt.Sprintf("read replay %d", id), err)
	}
	if len(list) == 0 {
		return nil, noReplay(fmt.Sprintf("read replay %d", id))
	}
	return &list[0], nil
}

func noReplay(op string) error {
	return schemas.Errorf(schemas.NotFound, op, "there is none; `forebay replay list` shows those that there are")
}

// Replays returns the newest replays whose id is below before, the newest first: of a subscription, which has its team before it, of a team, or
// of all if both are empty.
func (b *Inbox) Replays(ctx context.Context, team, subscription string, before int64, limit int) (list []Replay, err error) {
	rows, err := b.slow.Query(ctx, `SELECT r.id FROM replays r JOIN subscriptions s ON s.id = r.subscription
		WHERE $1 IN ('', split_part(s.name, '.', 1)) AND $2 IN ('', s.name) AND r.id < $3 ORDER BY r.id DESC LIMIT $4`, team, subscription, before, limit)
	var ids []int64
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	if err == nil {
		err = b.inWindows(ctx, `s.id IN (SELECT subscription FROM replays WHERE id = ANY ($1))`, func(of scope) error {
			more, err := b.replays(ctx, of, `WHERE r.id = ANY ($1) AND r.subscription IN (SELECT subscription FROM windows WHERE id = ANY ($2))`, ids, []int32(of))
			list = append(list, more...)
			return err
		}, ids)
	}
	if err != nil {
		return nil, ledger.Unavailable("read the replays", err)
	}
	slices.SortFunc(list, func(x, y Replay) int { return cmp.Compare(y.ID, x.ID) })
	return list, nil
}

func (b *Inbox) replays(ctx context.Context, of scope, where string, args ...any) ([]Replay, error) {
	rows, err := b.slow.Query(ctx, of.sql(replaySelect+where), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Replay, err error) {
		return r, row.Scan(&r.ID, &r.Subscription, &r.Mode, &r.EvenStale, &r.Filter, &r.Config, &r.Bounds, &r.Counts, &r.Rate, &r.MaxErrors, &r.PlannedAt, &r.CountedAt, &r.StartedAt,
			&r.CancelledAt, &r.PlannedBy, &r.StartedBy, &r.Reason, &r.CancelledBy, &r.CancelledReason, &r.Parts, &r.Errors)
	})
}

// planAge is how old a plan may be: what it has counted is to be what its reader decided on.
const planAge = 24 * time.Hour

// StartReplay starts a plan, once, unless another replay of the subscription is under way: the owners of its partitions run it. The caller has
// compared the plan with the log and the configuration. skew is how far the brokers' clocks and the database's may differ: the ledger must
// remember so much more than the plan goes back.
func (b *Inbox) StartReplay(ctx context.Context, r *Replay, by, reason string, skew time.Duration) error {
	op := fmt.Sprintf("start replay %d", r.ID)
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return err
	}
	tx, err := b.look.Begin(ctx)
	if err != nil {
		return ledger.Unavailable(op, err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // after a commit it does nothing
	if err := mayStart(ctx, tx, op, r, skew); err != nil {
		return err
	}
	if _, err = tx.Exec(ctx, `UPDATE replays SET started_at = now(), started_by = $2, reason = $3 WHERE id = $1`, r.ID, ledger.Clean(by, 200), ledger.Clean(reason, 1000)); err != nil {
		return ledger.Unavailable(op, err)
	}
	for _, p := range r.Bounds {
		if p.From >= p.To {
			continue
		}
		tag, err := tx.Exec(ctx, `INSERT INTO replay_parts (replay, fence, topic_id, from_offset, to_offset, next_offset)
			SELECT $1, id, topic_id, $4, $5, $4 FROM fences WHERE id = $2 AND topic_id = $3::uuid ON CONFLICT (fence) WHERE ended_at IS NULL DO NOTHING`, r.ID, p.Fence, p.TopicID, p.From, p.To)
		if err != nil {
			return ledger.Unavailable(op, err)
		}
		if tag.RowsAffected() == 0 {
			return schemas.Errorf(schemas.Conflict, op, "%s/%d is not the partition that was planned, or another replay runs in it (`forebay replay list`); plan it again", p.Topic, p.Partition)
		}
	}
	if err = notifyOwners(ctx, tx, r.ID); err == nil {
		err = tx.Commit(ctx)
	}
	return ledger.Unavailable(op, err)
}

// mayStart locks what decides whether a replay may be started, and returns why it may not. What it locks it reads afterwards, in a statement of
// its own: one that waits for a lock goes on with what it saw before.
func mayStart(ctx context.Context, tx pgx.Tx, op string, r *Replay, skew time.Duration) error {
	refuse := func(format string, args ...any) error { return schemas.Errorf(schemas.Conflict, op, format, args...) }
	var counted, started, cancelled, old, running bool
	// The subscription's row comes first: of two starts one is made. Windows are locked so that none is dropped before the parts are there.
	_, err := tx.Exec(ctx, `SELECT FROM subscriptions s WHERE s.id = (SELECT subscription FROM replays WHERE id = $1) FOR NO KEY UPDATE`, r.ID)
	if err == nil {
		err = ledger.NotMoving(ctx, tx, op, ledger.AboutReplay, r.ID)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `SELECT FROM replays WHERE id = $1 FOR NO KEY UPDATE`, r.ID)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `SELECT w.id FROM windows w JOIN replays r ON r.subscription = w.subscription WHERE r.id = $1 FOR SHARE OF w`, r.ID)
	}
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT r.counted_at IS NOT NULL, r.started_at IS NOT NULL, r.cancelled_at IS NOT NULL, r.planned_at < now() - $2::interval,
			EXISTS (SELECT FROM replay_parts p JOIN replays o ON o.id = p.replay WHERE o.subscription = r.subscription AND p.ended_at IS NULL)
			FROM replays r WHERE r.id = $1`, r.ID, planAge).Scan(&counted, &started, &cancelled, &old, &running)
	}
	var since time.Time
	if err == nil {
		since, err = ledger.Remembers(ctx, tx, r.Subscription)
	}
	switch {
	case err != nil:
		return ledger.Unavailable(op, err)
	case cancelled:
		return refuse("it was cancelled; plan it again")
	case !counted:
		return refuse("it is still being counted: `forebay replay plan --continue %d` goes on with that", r.ID)
	case started:
		return refuse("it was started before: `forebay replay get %d` shows what came of it; plan what is left", r.ID)
	case old:
		return refuse("the plan is older than %s; plan it again", planAge)
	case running:
		return refuse("another replay of %s is under way: `forebay replay list` shows it; wait for it, or cancel it", r.Subscription)
	}
	return checkRemembered(op, r.Bounds, since, skew)
}

// checkRemembered refuses ranges of a time whose decisions dedupe may have forgotten: nobody knows what ran then.
func checkRemembered(op string, bounds []ReplayBounds, since time.Time, skew time.Duration) error {
	for _, p := range bounds {
		if !since.IsZero() && p.FirstAt != nil && p.FirstAt.Before(since.Add(skew)) {
			return schemas.Errorf(schemas.Conflict, op, "%s/%d has records of %s, and dedupe remembers decisions since %s only: what ran before cannot be told from what never did; plan from there on (--since %s)",
				p.Topic, p.Partition, p.FirstAt.UTC().Format(time.RFC3339), since.UTC().Format(time.RFC3339), since.Add(skew+time.Second).UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// CheckRemembered is the check of StartReplay on what dedupe remembers, for a plan that is being made.
func (b *Inbox) CheckRemembered(ctx context.Context, subscription string, bounds []ReplayBounds, skew time.Duration) error {
	since, err := b.Remembers(ctx, subscription)
	if err != nil {
		return err
	}
	return checkRemembered("plan a replay of "+subscription, bounds, since, skew)
}

// CancelReplay ends a replay, or a plan that was not started. After it returns, nothing more is decided by the replay; what was decided
// before runs. Kinds: NotFound, Conflict if it has ended, Unavailable.
func (b *Inbox) CancelReplay(ctx context.Context, id int64, by, reason string) error {
	op := fmt.Sprintf("cancel replay %d", id)
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return err
	}
	err := b.cancelReplay(ctx, op, id, by, reason)
	for try := 1; try < 5 && deadlocked(err) && ctx.Err() == nil; try++ {
		err = b.cancelReplay(ctx, op, id, by, reason)
	}
	if err == nil || schemas.KindOf(err) == schemas.Conflict || schemas.KindOf(err) == schemas.NotFound {
		return err
	}
	return ledger.Unavailable(op, err)
}

// deadlocked reports whether Postgres ended a transaction because it and another one waited for each other: it can be tried again at once.
func deadlocked(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answer.Code == "40P01"
}

func (b *Inbox) cancelReplay(ctx context.Context, op string, id int64, by, reason string) error {
	tx, err := b.look.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // after a commit it does nothing
	if err := ledger.NotMoving(ctx, tx, op, ledger.AboutReplay, id); err != nil {
		return err
	}
	// A step that is under way holds its part's row, and the second statement waits for it. FOR UPDATE in the first one would have a step
	// that writes what refers to the replay wait for this in turn.
	var started, over bool
	err = tx.QueryRow(ctx, `SELECT started_at IS NOT NULL, cancelled_at IS NOT NULL FROM replays WHERE id = $1 FOR NO KEY UPDATE`, id).Scan(&started, &over)
	if errors.Is(err, pgx.ErrNoRows) {
		return noReplay(op)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `SELECT fence FROM replay_parts WHERE replay = $1 AND ended_at IS NULL ORDER BY fence FOR UPDATE`, id)
	}
	var ended int64
	if err == nil {
		tag, e := tx.Exec(ctx, `UPDATE replay_parts SET ended_at = now(), failure = 'cancelled' WHERE replay = $1 AND ended_at IS NULL`, id)
		ended, err = tag.RowsAffected(), e
	}
	if err == nil && (over || ended == 0 && started) {
		return schemas.Errorf(schemas.Conflict, op, "it has ended already: `forebay replay get %d` shows how", id)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE replays SET cancelled_at = now(), cancelled_by = $2, cancelled_reason = $3 WHERE id = $1`, id, ledger.Clean(by, 200), ledger.Clean(reason, 1000))
	}
	if err == nil {
		err = notifyOwners(ctx, tx, id)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	return err
}

// notifyOwners tells the owners of a replay's subscription that there is something to look at. Who misses it sweeps.
func notifyOwners(ctx context.Context, tx pgx.Tx, id int64) error {
	_, err := tx.Exec(ctx, `SELECT pg_notify('forebay_commands_' || current_schema(), subscription::text) FROM replays WHERE id = $1`, id)
	return err
}

// ReplaysAlone is how long nobody may have worked on a partition until replays of a subscription that is gone end there: a process
// with a file of before still runs it, or one with a file of other teams is restarted.
const ReplaysAlone = time.Hour

// EndReplaysAlone ends the replays of these subscriptions, "<team>.<subscription>", for which no process decides, and returns their ids. Nobody
// would run them, and they would keep another replay from being started, and dedupe windows from being dropped.
func (b *Inbox) EndReplaysAlone(ctx context.Context, gone []string) ([]int64, error) {
	rows, err := b.slow.Query(ctx, `WITH ended AS (UPDATE replay_parts p SET ended_at = now(), failure = $2, detail = 'the subscription is not configured any more, so nobody runs its replays'
		FROM fences f JOIN subscriptions s ON s.id = f.subscription LEFT JOIN progress g ON g.fence = f.id, replays r
		WHERE p.fence = f.id AND p.replay = r.id AND p.ended_at IS NULL AND s.name = ANY ($1::text[])
		  AND NOT EXISTS (SELECT FROM deciders d WHERE d.counts_until > now() AND d.decides ? s.name)
		  AND greatest(f.claimed_at, g.processed_at, p.moved_at, r.started_at) < now() - $3::interval RETURNING p.replay)
		SELECT DISTINCT replay FROM ended ORDER BY replay`, gone, string(ledger.ReplayLeft), ReplaysAlone)
	var ids []int64
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	return ids, ledger.Unavailable("end the replays that nobody runs", err)
}

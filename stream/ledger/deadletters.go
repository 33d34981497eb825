package ledger

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// FlaggedDeaths is from how many deaths on an action is flagged: to run it again by a filter once more helps nobody.
const FlaggedDeaths = 3

// DeadLetter is an action that was given up, or whose outcome nobody knows.
type DeadLetter struct {
	ID           schemas.ActionID `db:"-"`
	Team         string           `db:"-"`
	Subscription string
	Generation   int32
	Source       string
	EventID      string
	Type         string
	Entity       schemas.EntityKey
	Version      string `db:"-"`
	Action       string `db:"name"`
	Destination  string
	OnDead       OnDead
	Status       Status
	Class        string // reason class
	Fingerprint  string // of reason class, code, destination and type
	Code         int32
	Error        string
	Response     []byte
	Attempts     int32
	Deaths       int32
	FirstAt      *time.Time // of the first attempt, or of the mark before it
	DiedAt       time.Time  // of an unknown outcome, when its last attempt was marked or ended
	LaneSeq      int64
	Topic        string
	Partition    int32
	Offset       int64  `db:"log_offset"`
	Owner        string // of its partition; empty where nobody owns it
	// HasCommand says that a command about it has not been applied yet.
	HasCommand bool `db:"asked"`
	// Parks says that its entity stands still behind it.
	Parks bool
	Fence int32
	// Pointer is where its bytes are, if the ledger has no copy.
	Pointer Pointer `db:"-"`
}

// Flagged says that it has died so often that it is run again by its name only.
func (d *DeadLetter) Flagged() bool { return d.Deaths >= FlaggedDeaths }

// DeadSelect is one row per dead letter. Plan: actions_w*_dead of each window, in order, with probes of the others. OFFSET 0 leaves no other one:
// asked for an entity or a type, the planner read all events.
var DeadSelect = `SELECT * FROM (
    SELECT s.name AS subscription, coalesce(e.replay, s.generation) AS generation, e.replay IS NOT NULL AS again, e.source, e.event_id, e.type, e.entity, e.kind, e.clock, e.epoch, e.value, e.version_text, e.sub,
           x.name, x.destination, x.on_dead, a.status, CASE a.status WHEN 'unknown' THEN 'unknown' ELSE coalesce(a.class, '') END AS class,
           substr(md5(concat_ws(E'\x1f', CASE a.status WHEN 'unknown' THEN 'unknown' ELSE coalesce(a.class, '') END, a.code, x.destination, e.type)), 1, 12) AS fingerprint,
           a.code, coalesce(a.error, '') AS error, a.response, a.attempts, a.deaths + (a.status = 'dead_letter')::int AS deaths, a.first_at,
           coalesce(a.finished_at, (SELECT max(t.ended_at) FROM {attempts} t WHERE t.fence = a.fence AND t.lane_seq = a.lane_seq), a.first_at, a.created_at) AS died_at,
           a.lane_seq, f.topic, ` + TopicAtLaneSeq("a.lane_seq") + `, f.partition, e.log_offset, e.leader_epoch, e.event_key, e.hash,
           CASE WHEN f.released THEN '' ELSE f.owner END AS owner,
           EXISTS (SELECT FROM commands c WHERE c.fence = a.fence AND c.lane_seq = a.lane_seq AND c.ended_at IS NULL) AS asked,
           a.status IN ('dead_letter', 'unknown') AND ` + ParksLane + ` AS parks, a.fence
    FROM {actions} a JOIN fences f ON f.id = a.fence JOIN subscriptions s ON s.id = f.subscription JOIN effects x ON x.id = a.effect
    CROSS JOIN LATERAL (SELECT * FROM {events} v WHERE v.window_id = a.event_window AND v.event_key = a.event_key OFFSET 0) e`

// deadRow is a row of DeadSelect; its subscription has the team before it.
type deadRow struct {
	DeadLetter
	versionColumns
	TopicID     [16]byte
	LeaderEpoch int32
	EventKey    [16]byte
	Hash        [16]byte
	Reprocessed bool `db:"again"`
}

// ScanDeadLetter reads a row of DeadSelect.
func ScanDeadLetter(row pgx.CollectableRow) (DeadLetter, error) {
	r, err := pgx.RowToStructByName[deadRow](row)
	d := r.DeadLetter
	d.ID = schemas.NewActionID(d.Subscription, d.Generation, d.Source, d.EventID, d.Action)
	d.Team, d.Subscription, _ = strings.Cut(d.Subscription, ".")
	v := r.version()
	d.Version = v.Sortable()
	d.Pointer = Pointer{TopicID: r.TopicID, Topic: d.Topic, Partition: d.Partition, Offset: d.Offset, LeaderEpoch: r.LeaderEpoch, Key: keyInLog(r.EventKey, r.Reprocessed, d.Source, d.EventID), Hash: r.Hash}
	return d, err
}

const deadPayload = `SELECT packed FROM {actions} a WHERE fence = $1 AND lane_seq = $2 AND packed IS NOT NULL`

// DeadPayload says where the bytes of a dead letter are: packed in the ledger (never nil then), else at the pointer.
func (l *Ledger) DeadPayload(ctx context.Context, d DeadLetter) (packed []byte, p Pointer, err error) {
	return l.deadPayload(ctx, l.look, d)
}

func (l *Ledger) deadPayload(ctx context.Context, from *Pool, d DeadLetter) (packed []byte, p Pointer, err error) {
	err = l.InWindowsOf(ctx, from, d.Fence, func(windows []int32) error {
		return from.QueryRow(ctx, OfWindows(windows, deadPayload), d.Fence, d.LaneSeq).Scan(&packed)
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, Pointer{}, pg.Unavailable("read a payload", err)
	}
	return packed, d.Pointer, nil
}

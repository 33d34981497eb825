package ledger

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5"
)

// FlaggedDeaths is from how many deaths on an action is flagged: to run it again by a filter once more helps nobody.
const FlaggedDeaths = 3

// DeadLetterQuery selects dead letters and actions whose outcome is unknown. Empty fields select everything.
type DeadLetterQuery struct {
	Team, Subscription string // Subscription without its team
	Source             string // "/<team>/<source>"
	Entity             schemas.EntityKey
	Type               string
	Destination        string // "<team>/<destination>"
	Class              string // reason class: an attempt's, "gap", or "unknown"
	Fingerprint        string
	Since              time.Time // a lower bound of the death's time
	Limit              int       // at most 1000; 0 is 100
	Cursor             string    // DeadLetterPage.Next of the page before
}

// DeadLetter is an action that was given up, or whose outcome nobody knows.
type DeadLetter struct {
	ID           schemas.ActionID
	Team         string
	Subscription string
	Generation   int32
	Source       string
	EventID      string
	Type         string
	Entity       schemas.EntityKey
	Version      string
	Action       string
	Destination  string
	OnDead       OnDead
	Status       Status
	Class        string // reason class
	Fingerprint  string // of reason class, destination and type
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
	Offset       int64
	Owner        string // of its partition; empty where nobody owns it
	// Asked says that a command about it has not been obeyed yet.
	Asked bool
	// Parks says that its entity stands still behind it, and Behind how many events do; nil: nobody has counted them.
	Parks  bool
	Behind *Behind

	fence   int32
	pointer Pointer
}

// Flagged says that it has died so often that it is run again by its name only.
func (d *DeadLetter) Flagged() bool { return d.Deaths >= FlaggedDeaths }

// DeadLetterPage is a page of dead letters, in lane order: of an entity the one that runs first stands first.
type DeadLetterPage struct {
	Items []DeadLetter
	Next  string // empty on the last page
}

// DeadLetterGroup is the dead letters of one fingerprint.
type DeadLetterGroup struct {
	Fingerprint string
	Class       string
	Destination string
	Type        string
	Count       int64
	Entities    int64
	Flagged     int64
	First, Last time.Time // deaths
}

// deadSelect is one row per dead letter. Plan: actions_w*_dead of each window, in order, with probes of the others.
var deadSelect = `SELECT * FROM (
    SELECT s.name AS subscription, s.generation, e.source, e.event_id, e.type, e.entity, e.kind, e.clock, e.epoch, e.value, e.word, e.sub,
           x.name, x.destination, x.on_dead, a.status, CASE a.status WHEN 'unknown' THEN 'unknown' ELSE coalesce(a.class, '') END AS class,
           substr(md5(concat_ws(E'\x1f', CASE a.status WHEN 'unknown' THEN 'unknown' ELSE coalesce(a.class, '') END, x.destination, e.type)), 1, 12) AS fingerprint,
           a.code, coalesce(a.error, '') AS error, a.response, a.attempts, a.deaths + (a.status = 'dead_letter')::int AS deaths, a.first_at,
           coalesce(a.finished_at, (SELECT max(t.ended_at) FROM {attempts} t WHERE t.fence = a.fence AND t.lane_seq = a.lane_seq), a.first_at, a.created_at) AS died_at,
           a.lane_seq, f.topic, ` + topicThen("a.lane_seq") + `, f.partition, e.log_offset, e.leader_epoch, e.event_key, e.hash,
           CASE WHEN f.released THEN '' ELSE f.owner END AS owner,
           EXISTS (SELECT FROM commands c WHERE c.fence = a.fence AND c.lane_seq = a.lane_seq AND c.ended_at IS NULL) AS asked,
           a.status IN ('dead_letter', 'unknown') AND ` + parksLane + ` AS parks, a.fence
    FROM {actions} a JOIN fences f ON f.id = a.fence JOIN subscriptions s ON s.id = f.subscription JOIN effects x ON x.id = a.effect
    JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key`

const deadOnly = ` WHERE a.status IN ('dead_letter', 'unknown')) d`

func (q DeadLetterQuery) validate() error {
	switch {
	case q.Limit < 0 || q.Limit > 1000:
		return fmt.Errorf("limit %d is not in 1..1000", q.Limit)
	case strings.ContainsRune(q.Team+q.Subscription+q.Source+string(q.Entity)+q.Type+q.Destination+q.Class+q.Fingerprint, 0):
		return errors.New("a filter contains a NUL character")
	}
	return nil
}

// conditions builds the WHERE clause; values are only ever parameters.
func (q DeadLetterQuery) conditions() (string, []any, error) {
	where, args := []string{"true"}, []any{}
	add := func(wanted bool, cond string, values ...any) {
		if !wanted {
			return
		}
		for _, v := range values {
			args = append(args, v)
			cond = strings.Replace(cond, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		where = append(where, cond)
	}
	add(q.Team != "", "split_part(subscription, '.', 1) = ?", q.Team)
	add(q.Subscription != "", "substr(subscription, strpos(subscription, '.') + 1) = ?", q.Subscription)
	add(q.Source != "", "source = ?", q.Source)
	add(q.Entity != "", "entity = ?", string(q.Entity))
	add(q.Type != "", "type = ?", q.Type)
	add(q.Destination != "", "destination = ?", q.Destination)
	add(q.Class != "", "class = ?", q.Class)
	add(q.Fingerprint != "", "fingerprint = ?", q.Fingerprint)
	add(!q.Since.IsZero(), "died_at >= ?", q.Since)
	if q.Cursor != "" {
		var fence int32
		var laneSeq int64
		text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err == nil {
			_, err = fmt.Sscanf(string(text), "%d.%d", &fence, &laneSeq)
		}
		if err != nil {
			return "", nil, fmt.Errorf("cursor %q is not one of ours", q.Cursor)
		}
		add(true, "(fence, lane_seq) > (?, ?)", fence, laneSeq)
	}
	return strings.Join(where, " AND "), args, nil
}

// DeadLetters lists dead letters and unknown outcomes, and how many events stand behind those that park their entity.
func (l *Ledger) DeadLetters(ctx context.Context, q DeadLetterQuery) (page DeadLetterPage, err error) {
	const op = "list the dead letters"
	err = q.validate()
	where, args, bad := q.conditions()
	if err = errors.Join(err, bad); err != nil {
		return page, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	page.Items, err = deadLetters(ctx, l.read, ofAll(deadSelect)+deadOnly+fmt.Sprintf(" WHERE %s ORDER BY fence, lane_seq LIMIT $%d", where, len(args)+1), append(args, q.Limit+1))
	if err == nil && len(page.Items) > q.Limit {
		page.Items = page.Items[:q.Limit]
		last := &page.Items[q.Limit-1]
		page.Next = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", last.fence, last.LaneSeq))
	}
	if err == nil {
		err = l.deadBehind(ctx, page.Items)
	}
	if err != nil {
		return page, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	}
	return page, nil
}

// maxGroups bounds the groups of one answer.
const maxGroups = 1000

// DeadLetterGroups counts dead letters by fingerprint, the most frequent first, at most 1000; more says that there are others.
func (l *Ledger) DeadLetterGroups(ctx context.Context, q DeadLetterQuery) (list []DeadLetterGroup, more bool, err error) {
	const op = "group the dead letters"
	q.Cursor, q.Limit = "", 0
	where, args, _ := q.conditions()
	if err := q.validate(); err != nil {
		return nil, false, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	rows, err := l.read.Query(ctx, fmt.Sprintf(`SELECT fingerprint, class, destination, type, count(*), count(DISTINCT (fence, entity)),
		count(*) FILTER (WHERE deaths >= %d), min(died_at), max(died_at) FROM (%s%s WHERE %s) g
		GROUP BY fingerprint, class, destination, type ORDER BY count(*) DESC, fingerprint LIMIT %d`, FlaggedDeaths, ofAll(deadSelect), deadOnly, where, maxGroups+1), args...)
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[DeadLetterGroup])
	}
	if err != nil {
		return nil, false, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	}
	return list[:min(len(list), maxGroups)], len(list) > maxGroups, nil
}

// DeadLetterDetail is all that is known of an action that has a row.
type DeadLetterDetail struct {
	DeadLetter
	History  []InboxAttempt
	Commands []CommandStatus // what was asked about it, the oldest first
}

// FindDeadLetter reads one action by its id, whatever its status is by now, without counting what stands behind it. Kind
// NotFound where it has no row.
func (l *Ledger) FindDeadLetter(ctx context.Context, id schemas.ActionID) (d DeadLetter, err error) {
	ref, err := l.FindAction(ctx, id)
	if err != nil {
		return d, err
	}
	op := "read action " + string(id)
	items, err := deadLetters(ctx, l.quick, ofAll(deadSelect)+` WHERE a.fence = $1 AND a.lane_seq = $2) d`, []any{ref.Fence, ref.LaneSeq})
	switch {
	case err != nil:
		return d, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	case len(items) == 0:
		return d, schemas.Errorf(schemas.NotFound, op, "it is gone")
	}
	return items[0], nil
}

// DeadLetter is FindDeadLetter with all that is known of the action.
func (l *Ledger) DeadLetter(ctx context.Context, id schemas.ActionID) (d DeadLetterDetail, err error) {
	found, err := l.FindDeadLetter(ctx, id)
	if err != nil {
		return d, err
	}
	items := []DeadLetter{found}
	if err = l.deadBehind(ctx, items); err == nil {
		d.DeadLetter = items[0]
		d.History, d.Commands, err = l.deadHistory(ctx, &found)
	}
	if err != nil {
		return d, &schemas.Error{Kind: schemas.Unavailable, Op: "read action " + string(id), Err: redact(err)}
	}
	return d, nil
}

func (l *Ledger) deadHistory(ctx context.Context, d *DeadLetter) (attempts []InboxAttempt, commands []CommandStatus, err error) {
	rows, err := l.read.Query(ctx, `SELECT attempt, ended_at, status, class, code, latency_us / 1000.0::float8, error, response, `+traceText+` FROM attempts
		WHERE fence = $1 AND lane_seq = $2 ORDER BY attempt`, d.fence, d.LaneSeq)
	if err == nil {
		attempts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[InboxAttempt])
	}
	if err != nil {
		return nil, nil, err
	}
	rows, err = l.read.Query(ctx, `SELECT c.id, c.kind, c.asked_by, c.reason, c.asked_at, c.ended_at, coalesce(c.outcome, ''), '' FROM commands c
		WHERE c.fence = $1 AND c.lane_seq = $2 ORDER BY c.id`, d.fence, d.LaneSeq)
	if err == nil {
		commands, err = pgx.CollectRows(rows, pgx.RowToStructByPos[CommandStatus])
	}
	return attempts, commands, err
}

func deadLetters(ctx context.Context, pool *pool, sql string, args []any) ([]DeadLetter, error) {
	rows, err := pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (d DeadLetter, err error) {
		var (
			name      string
			v         schemas.Version
			topicID   [16]byte
			key, hash [16]byte
			p         = &d.pointer
		)
		err = r.Scan(&name, &d.Generation, &d.Source, &d.EventID, &d.Type, &d.Entity, &v.Kind, &v.Clock, &v.Epoch, &v.Value, &v.Word, &v.Sub,
			&d.Action, &d.Destination, &d.OnDead, &d.Status, &d.Class, &d.Fingerprint, &d.Code, &d.Error, &d.Response, &d.Attempts, &d.Deaths, &d.FirstAt,
			&d.DiedAt, &d.LaneSeq, &d.Topic, &topicID, &d.Partition, &d.Offset, &p.LeaderEpoch, &key, &hash, &d.Owner, &d.Asked, &d.Parks, &d.fence)
		d.ID = schemas.NewActionID(name, d.Generation, d.Source, d.EventID, d.Action)
		d.Team, d.Subscription, _ = strings.Cut(name, ".")
		d.Version = v.Text()
		p.TopicID, p.Topic, p.Partition, p.Offset, p.Key, p.Hash = topicID, d.Topic, d.Partition, d.Offset, key, hash
		return d, err
	})
}

const deadPayload = `SELECT packed FROM {actions} a WHERE fence = $1 AND lane_seq = $2 AND packed IS NOT NULL`

// DeadPayload says where the bytes of a dead letter are: packed in the ledger (never nil then), else at the pointer.
func (l *Ledger) DeadPayload(ctx context.Context, d DeadLetter) (packed []byte, p Pointer, err error) {
	err = l.inWindowsOf(ctx, d.fence, func(windows []int32) error {
		return l.quick.QueryRow(ctx, ofWindows(windows, deadPayload), d.fence, d.LaneSeq).Scan(&packed)
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, Pointer{}, &schemas.Error{Kind: schemas.Unavailable, Op: "read a payload", Err: redact(err)}
	}
	return packed, d.pointer, nil
}

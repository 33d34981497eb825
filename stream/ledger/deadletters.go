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
	"github.com/jackc/pgx/v5/pgconn"
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
	// Parks says that its entity stands still behind it, and Behind how many events do.
	Parks  bool
	Behind int64

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
const deadSelect = `SELECT * FROM (
    SELECT s.name AS subscription, s.generation, e.source, e.event_id, e.type, e.entity, e.kind, e.clock, e.epoch, e.value, e.word, e.sub,
           x.name, x.destination, x.on_dead, a.status, CASE a.status WHEN 'unknown' THEN 'unknown' ELSE coalesce(a.class, '') END AS class,
           substr(md5(concat_ws(E'\x1f', CASE a.status WHEN 'unknown' THEN 'unknown' ELSE coalesce(a.class, '') END, x.destination, e.type)), 1, 12) AS fingerprint,
           a.code, coalesce(a.error, '') AS error, a.response, a.attempts, a.deaths + (a.status = 'dead_letter')::int AS deaths, a.first_at,
           coalesce(a.finished_at, (SELECT max(t.ended_at) FROM attempts t WHERE t.fence = a.fence AND t.lane_seq = a.lane_seq), a.first_at, a.created_at) AS died_at,
           a.lane_seq, f.topic, f.topic_id, f.partition, e.log_offset, e.leader_epoch, e.event_key, e.hash,
           CASE WHEN f.released THEN '' ELSE f.owner END AS owner,
           EXISTS (SELECT FROM commands c WHERE c.fence = a.fence AND c.lane_seq = a.lane_seq AND c.ended_at IS NULL) AS asked,
           a.status IN ('dead_letter', 'unknown') AND ` + parksLane + ` AS parks, a.fence
    FROM actions a JOIN fences f ON f.id = a.fence JOIN subscriptions s ON s.id = f.subscription JOIN effects x ON x.id = a.effect
    JOIN events e ON e.window_id = a.event_window AND e.event_key = a.event_key`

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
	page.Items, err = l.deadLetters(ctx, deadSelect+deadOnly+fmt.Sprintf(" WHERE %s ORDER BY fence, lane_seq LIMIT $%d", where, len(args)+1), append(args, q.Limit+1))
	if err == nil && len(page.Items) > q.Limit {
		page.Items = page.Items[:q.Limit]
		last := &page.Items[q.Limit-1]
		page.Next = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", last.fence, last.LaneSeq))
	}
	if err == nil {
		err = l.behind(ctx, page.Items)
	}
	if err != nil {
		return page, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	}
	return page, nil
}

// DeadLetterGroups counts dead letters by fingerprint, the most frequent first.
func (l *Ledger) DeadLetterGroups(ctx context.Context, q DeadLetterQuery) ([]DeadLetterGroup, error) {
	const op = "group the dead letters"
	q.Cursor, q.Limit = "", 0
	where, args, _ := q.conditions()
	if err := q.validate(); err != nil {
		return nil, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	rows, err := l.read.Query(ctx, fmt.Sprintf(`SELECT fingerprint, class, destination, type, count(*), count(DISTINCT (fence, entity)),
		count(*) FILTER (WHERE deaths >= %d), min(died_at), max(died_at) FROM (%s%s WHERE %s) g
		GROUP BY fingerprint, class, destination, type ORDER BY count(*) DESC, fingerprint LIMIT 1000`, FlaggedDeaths, deadSelect, deadOnly, where), args...)
	var list []DeadLetterGroup
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[DeadLetterGroup])
	}
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	}
	return list, nil
}

// DeadLetterDetail is all that is known of an action that has a row.
type DeadLetterDetail struct {
	DeadLetter
	History  []InboxAttempt
	Commands []CommandStatus // what was asked about it, the oldest first
}

// DeadLetter reads one action by its id, whatever its status is by now. Kind NotFound where it has no row.
func (l *Ledger) DeadLetter(ctx context.Context, id schemas.ActionID) (d DeadLetterDetail, err error) {
	ref, err := l.FindAction(ctx, id)
	if err != nil {
		return d, err
	}
	op := "read action " + string(id)
	items, err := l.deadLetters(ctx, deadSelect+` WHERE a.fence = $1 AND a.lane_seq = $2) d`, []any{ref.Fence, ref.LaneSeq})
	switch {
	case err == nil && len(items) == 0:
		return d, schemas.Errorf(schemas.NotFound, op, "it is gone")
	case err == nil:
		err = l.behind(ctx, items)
	}
	if err == nil {
		d.DeadLetter = items[0]
		d.History, d.Commands, err = l.deadHistory(ctx, ref)
	}
	if err != nil {
		return d, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	}
	return d, nil
}

func (l *Ledger) deadHistory(ctx context.Context, ref ActionRef) (attempts []InboxAttempt, commands []CommandStatus, err error) {
	rows, err := l.read.Query(ctx, `SELECT attempt, ended_at, status, class, code, latency_us / 1000.0::float8, error, response, `+traceText+` FROM attempts
		WHERE fence = $1 AND lane_seq = $2 ORDER BY attempt`, ref.Fence, ref.LaneSeq)
	if err == nil {
		attempts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[InboxAttempt])
	}
	if err != nil {
		return nil, nil, err
	}
	rows, err = l.read.Query(ctx, `SELECT c.id, c.kind, c.asked_by, c.reason, c.asked_at, c.ended_at, coalesce(c.outcome, ''), '' FROM commands c
		WHERE c.fence = $1 AND c.lane_seq = $2 ORDER BY c.id`, ref.Fence, ref.LaneSeq)
	if err == nil {
		commands, err = pgx.CollectRows(rows, pgx.RowToStructByPos[CommandStatus])
	}
	return attempts, commands, err
}

func (l *Ledger) deadLetters(ctx context.Context, sql string, args []any) ([]DeadLetter, error) {
	rows, err := l.read.Query(ctx, sql, args...)
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

// behindCount counts the events of entities behind their heads, in one walk over what lies behind the first of them: by the
// index of their lanes those that were decided on their own, by their rows those that left the gap buffer.
const behindCount = `-- behind
WITH h AS (SELECT unnest($1::int[]) AS fence, unnest($2::bigint[]) AS lane_seq, unnest($3::text[]) AS entity),
     lowest AS (SELECT fence, min(lane_seq) AS lane_seq FROM h GROUP BY fence),
     e AS (
    SELECT e.fence, e.lane_seq, e.entity FROM lowest CROSS JOIN LATERAL (SELECT fence, lane_seq, entity FROM events
           WHERE fence = lowest.fence AND lane_seq > lowest.lane_seq AND lane_seq IS NOT NULL AND lane_window IS NULL OFFSET 0) e
    UNION
    SELECT e.fence, e.lane_seq, e.entity FROM lowest JOIN actions a ON a.fence = lowest.fence AND a.lane_seq > lowest.lane_seq AND a.open
      AND a.class IS DISTINCT FROM '` + deadClass + `' JOIN events e ON e.window_id = a.event_window AND e.event_key = a.event_key AND e.lane_window IS NOT NULL)
SELECT h.fence, h.lane_seq, count(*) FROM h JOIN e ON e.fence = h.fence AND e.entity = h.entity AND e.lane_seq > h.lane_seq GROUP BY h.fence, h.lane_seq`

// heads are the heads of parked lanes.
type heads struct {
	fences   []int32
	lanes    []int64
	entities []string
}

func (h *heads) add(fence int32, laneSeq int64, entity schemas.EntityKey) {
	h.fences, h.lanes, h.entities = append(h.fences, fence), append(h.lanes, laneSeq), append(h.entities, string(entity))
}

// countBehind tells how many events stand behind each head. Where they are too many to be counted in time it tells nothing.
func (l *Ledger) countBehind(ctx context.Context, h heads, tell func(fence int32, laneSeq, n int64)) error {
	if len(h.fences) == 0 {
		return nil
	}
	var fence int32
	var laneSeq, n int64
	rows, err := l.read.Query(ctx, behindCount, h.fences, h.lanes, h.entities)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&fence, &laneSeq, &n}, func() error { tell(fence, laneSeq, n); return nil })
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "57014" && ctx.Err() == nil {
		return nil
	}
	return err
}

// behind counts what stands behind those that park their entity.
func (l *Ledger) behind(ctx context.Context, items []DeadLetter) error {
	var h heads
	at := map[ActionRef]*DeadLetter{}
	for i := range items {
		if d := &items[i]; d.Parks {
			h.add(d.fence, d.LaneSeq, d.Entity)
			at[ActionRef{Fence: d.fence, LaneSeq: d.LaneSeq}] = d
		}
	}
	return l.countBehind(ctx, h, func(fence int32, laneSeq, n int64) { at[ActionRef{Fence: fence, LaneSeq: laneSeq}].Behind = n })
}

// inboxBehind counts what stands behind the events of a page that park their entity.
func (l *Ledger) inboxBehind(ctx context.Context, items []InboxItem) error {
	var fences, counts []int32
	var lanes []int64
	at := map[ActionRef]*InboxItem{}
	for n := range items {
		if i := &items[n]; i.laneSeq != nil && (i.Status == string(Dead) || i.Status == string(Unknown)) {
			fences, lanes, counts = append(fences, i.fence), append(lanes, *i.laneSeq), append(counts, i.laneCount)
			at[ActionRef{Fence: i.fence, LaneSeq: *i.laneSeq}] = i
		}
	}
	if len(fences) == 0 {
		return nil
	}
	rows, err := l.read.Query(ctx, `SELECT DISTINCT h.fence, h.lane_seq FROM unnest($1::int[], $2::bigint[], $3::int[]) AS h(fence, lane_seq, n)
		JOIN actions a ON a.fence = h.fence AND a.lane_seq >= h.lane_seq AND a.lane_seq < h.lane_seq + h.n JOIN effects x ON x.id = a.effect
		WHERE a.status IN ('dead_letter', 'unknown') AND `+parksLane, fences, lanes, counts)
	if err != nil {
		return err
	}
	var h heads
	var ref ActionRef
	_, err = pgx.ForEachRow(rows, []any{&ref.Fence, &ref.LaneSeq}, func() error {
		h.add(ref.Fence, ref.LaneSeq, schemas.EntityKey(at[ref].Entity))
		return nil
	})
	if err != nil {
		return err
	}
	return l.countBehind(ctx, h, func(fence int32, laneSeq, n int64) { at[ActionRef{Fence: fence, LaneSeq: laneSeq}].Behind = n })
}

// DeadPayload says where the bytes of a dead letter are: packed in the ledger (never nil then), else at the pointer.
func (l *Ledger) DeadPayload(ctx context.Context, d DeadLetter) (packed []byte, p Pointer, err error) {
	err = l.read.QueryRow(ctx, `SELECT packed FROM actions WHERE fence = $1 AND lane_seq = $2 AND packed IS NOT NULL`, d.fence, d.LaneSeq).Scan(&packed)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, Pointer{}, &schemas.Error{Kind: schemas.Unavailable, Op: "read a payload", Err: redact(err)}
	}
	return packed, d.pointer, nil
}

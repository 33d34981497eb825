package inbox

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// Item is what became of one event, or of one record that is no event, in one subscription. Its JSON is what operators read.
type Item struct {
	Team         string        `json:"team"`
	Subscription string        `json:"subscription"`
	Source       string        `json:"source"` // the source's name; CESource if it is another team's
	EventID      string        `json:"event_id"`
	DeliveryID   string        `json:"delivery_id,omitempty"` // the provider's; only where it was asked for, or read from the log
	Entity       string        `json:"entity"`
	Type         string        `json:"type"`
	Version      string        `json:"version"`
	VersionKind  string        `json:"version_kind"`
	VersionClock string        `json:"version_clock"`
	Generation   int32         `json:"generation"` // 0, or the replay that ran the event again: what became of that
	Status       string        `json:"status"`
	Decision     gate.Decision `json:"decision"`
	Reason       gate.Reason   `json:"reason"`
	Attempts     int           `json:"attempts"`
	Duplicates   int           `json:"duplicates"`
	NextActionAt *time.Time    `json:"next_action_at"`
	LastError    string        `json:"last_error"`
	Owner        string        `json:"owner"`
	Topic        string        `json:"topic"`
	Partition    int32         `json:"partition"`
	Offset       int64         `json:"offset"`
	ReceivedAt   *time.Time    `json:"received_at"` // null if the record has no readable time
	DecidedAt    time.Time     `json:"decided_at"`
	// Behind is how many events wait behind this one, if it parks its entity. BehindAtLeast is set instead if the count was cut
	// off. Both only from List.
	Behind        *int64    `json:"behind,omitempty"`
	BehindAtLeast *int64    `json:"behind_at_least,omitempty"`
	Redriven      *Redriven `json:"redriven,omitempty"`  // of a quarantined record that was produced again
	Discarded     *Redriven `json:"discarded,omitempty"` // of a rejected record that an operator has seen and leaves at that

	Actions  []Action       `json:"-"` // only from Inbox.Item
	CESource string         `json:"-"` // the source as events carry it: "/<team>/<source>"
	Fence    int32          `json:"-"`
	Pointer  ledger.Pointer `json:"-"` // where its bytes are, if the ledger has no copy

	of      scope // the windows of its subscription, and of others maybe
	window  int32
	key     [16]byte // of its row; zero if that has none
	replay  *int32   // that runs the event again: the item is of that generation
	laneSeq *int64   // of its first action; nil if it has none
	actions int32    // how many
	// Of the event in all its generations; only from Inbox.Item.
	keys        [][16]byte
	reprocesses []Reprocess
}

// Action is one action of an event. An action that succeeded at its first attempt may have no History.
type Action struct {
	ID          schemas.ActionID
	Name        string
	Destination string
	Replay      int32 // the replay that runs the event again; 0: none
	LaneSeq     int64
	Status      ledger.Status
	Attempts    int
	Class       string
	Code        int
	Error       string
	Response    []byte
	LatencyMS   float64
	CreatedAt   time.Time
	NextAt      *time.Time
	FinishedAt  *time.Time
	History     []Attempt // the oldest first
}

// Attempt is one attempt of an action.
type Attempt struct {
	Attempt   int
	EndedAt   time.Time
	Status    ledger.Status
	Class     string
	Code      int
	LatencyMS float64
	Error     string
	Response  []byte
	TraceID   string // 32 hex digits
}

// Item reads what became of an event in a subscription, with its actions and attempts: those of its own, and behind them those of the
// replays that run it again. If dedupe has forgotten the event itself, it is as the first of these has it. Kinds: NotFound if none knows the
// event, Unavailable.
func (b *Inbox) Item(ctx context.Context, team, subscription, source, eventID string) (Item, error) {
	const op = "read the inbox"
	name, key := team+"."+subscription, schemas.NewEventKey(source, eventID)
	args := []any{name, [16]byte(key), ledger.Clean(source, 4096), ledger.Clean(eventID, 4096)}
	var items []Item
	err := b.inScope(ctx, team, subscription, func(of scope) error {
		found, err := b.items(ctx, of, selectAll+` WHERE subscription = $1 AND event_key = $2 AND source = $3 AND event_id = $4
			ORDER BY generation DESC, (decision = 'conflict'), decided_at DESC LIMIT 1`, args)
		var reprocessed []Item
		if err == nil {
			reprocessed, err = b.reprocessed(ctx, of, name, key)
		}
		items = append(append(items, found...), reprocessed...)
		return err
	})
	if err == nil && len(items) == 0 {
		return Item{}, schemas.Errorf(schemas.NotFound, op, "subscription %s.%s knows no event %s of source %s; `forebay inbox list --delivery ID` tells one that is accepted and not decided yet",
			team, subscription, eventID, strings.TrimPrefix(source, "/"))
	}
	for n := range items {
		if err == nil && items[n].laneSeq != nil {
			items[n].Actions, err = b.actions(ctx, &items[n])
		}
	}
	if err != nil {
		return Item{}, ledger.Unavailable(op, err)
	}
	return inAllGenerations(items), nil
}

// inAllGenerations returns the first of an event's items with the actions of all.
func inAllGenerations(items []Item) Item {
	all := items[0]
	for n := range items {
		all.keys = append(all.keys, items[n].key)
		if n > 0 {
			all.Actions = append(all.Actions, items[n].Actions...)
		}
		if items[n].replay != nil {
			all.reprocesses = append(all.reprocesses, Reprocess{Replay: *items[n].replay, At: items[n].DecidedAt})
		}
	}
	return all
}

// mostReprocesses is of how many replays, the last ones, an event is looked for.
const mostReprocesses = 100

// reprocessed reads what became of an event in the replays that run it again, the first one first.
func (b *Inbox) reprocessed(ctx context.Context, of scope, subscription string, key schemas.EventKey) ([]Item, error) {
	rows, err := b.look.Query(ctx, `SELECT r.id FROM replays r JOIN subscriptions s ON s.id = r.subscription
		WHERE s.name = $1 AND r.mode = $2 AND r.started_at IS NOT NULL ORDER BY r.id DESC LIMIT $3`, subscription, string(ledger.ReplayReprocess), mostReprocesses)
	if err != nil {
		return nil, err
	}
	replays, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(replays) == 0 {
		return nil, err
	}
	keys := make([][16]byte, len(replays))
	for n, id := range replays {
		keys[n] = key.OfGeneration(id)
	}
	return b.items(ctx, of, selectHead+selectEvents+selectTail+` WHERE subscription = $1 AND event_key = ANY ($2) ORDER BY replay`, []any{subscription, keys})
}

// firstOpen returns the lane_seq of the first action that has not ended; if all have, that of the event.
func (i *Item) firstOpen() int64 {
	for n := range i.Actions {
		if !i.Actions[n].Status.Closed() {
			return i.Actions[n].LaneSeq
		}
	}
	return *i.laneSeq
}

// Place reads the rejected record at an offset of the log (a record that could not be decoded has no other name), in the newest
// generation that knows it. Kinds: NotFound if none does, Unavailable.
func (b *Inbox) Place(ctx context.Context, team, subscription, topic string, partition int32, offset int64) (Item, error) {
	const op = "read the inbox"
	var items []Item
	err := b.inScope(ctx, team, subscription, func(of scope) error {
		found, err := b.items(ctx, of, selectHead+selectRejected+selectTail+` WHERE subscription = $1 AND topic = $2 AND partition = $3 AND log_offset = $4
			ORDER BY generation DESC, decided_at DESC LIMIT 1`, []any{team + "." + subscription, ledger.Clean(topic, 249), partition, offset})
		items = append(items, found...)
		return err
	})
	if err != nil {
		return Item{}, ledger.Unavailable(op, err)
	}
	if len(items) == 0 {
		return Item{}, schemas.Errorf(schemas.NotFound, op, "subscription %s.%s has no rejected record at %s/%d@%d", team, subscription, topic, partition, offset)
	}
	return items[0], nil
}

// actions reads the actions of an event, each with its attempts.
func (b *Inbox) actions(ctx context.Context, item *Item) ([]Action, error) {
	rows, err := b.slow.Query(ctx, item.of.sql(`SELECT e.lane_seq + n.i, f.name, f.destination,
		coalesce(x.status, CASE WHEN c.at IS NULL THEN 'pending' WHEN c.superseded THEN 'superseded' ELSE 'done' END),
		coalesce(x.attempts, (NOT c.superseded)::int, 0),
		coalesce(x.class, ''), coalesce(x.code, c.code, 0), coalesce(x.error, ''), coalesce(x.response, c.response[c.at]),
		coalesce(x.latency_us, c.latency_us[c.at], 0), coalesce(x.created_at, e.decided_at), coalesce(x.next_at, x.result_by), coalesce(x.finished_at, c.finished_at)
		FROM {events} e LEFT JOIN plans p ON p.id = e.plan CROSS JOIN LATERAL `+ledger.ActionStates+`
		JOIN effects f ON f.id = coalesce(x.effect, p.effects[n.i + 1])
		WHERE e.window_id = $1 AND e.event_key = $2 ORDER BY n.i`), item.window, item.key)
	if err != nil {
		return nil, err
	}
	actions, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Action, error) {
		var (
			a  Action
			us int32
		)
		err := r.Scan(&a.LaneSeq, &a.Name, &a.Destination, &a.Status, &a.Attempts, &a.Class, &a.Code, &a.Error, &a.Response, &us,
			&a.CreatedAt, &a.NextAt, &a.FinishedAt)
		a.LatencyMS = float64(us) / 1000
		if item.replay != nil {
			a.Replay = *item.replay
		}
		a.ID = schemas.NewActionID(item.Team+"."+item.Subscription, item.Generation, item.CESource, item.EventID, a.Name)
		return a, err
	})
	if err != nil {
		return nil, err
	}
	return actions, b.history(ctx, item, actions)
}

// traceText is an attempt's trace id as traces are written.
const traceText = `coalesce(replace(trace::text, '-', ''), '')`

// history sets the History of each of an item's actions, which are in the order of their lane_seq.
func (b *Inbox) history(ctx context.Context, item *Item, actions []Action) error {
	rows, err := b.slow.Query(ctx, item.of.sql(`SELECT lane_seq, attempt, ended_at, status, class, code, latency_us, error, response, `+traceText+` FROM {attempts} t
		WHERE fence = $1 AND lane_seq >= $2 AND lane_seq < $2 + $3 ORDER BY lane_seq, attempt`), item.Fence, *item.laneSeq, int64(item.actions))
	if err != nil {
		return err
	}
	var (
		laneSeq int64
		us      int32
		a       Attempt
	)
	scan := []any{&laneSeq, &a.Attempt, &a.EndedAt, &a.Status, &a.Class, &a.Code, &us, &a.Error, &a.Response, &a.TraceID}
	_, err = pgx.ForEachRow(rows, scan, func() error {
		a.LatencyMS = float64(us) / 1000
		if i := laneSeq - *item.laneSeq; i >= 0 && i < int64(len(actions)) {
			actions[i].History = append(actions[i].History, a)
		}
		a.Response = nil // the next row must not be read into this one's bytes
		return nil
	})
	return err
}

// Payload returns an item's bytes if the ledger has them: the payload copy of an event, or what was kept of a quarantined record. If it
// has none, packed is nil, and the bytes are in the log at the pointer.
func (b *Inbox) Payload(ctx context.Context, item Item) (packed []byte, p ledger.Pointer, err error) {
	err = b.slow.QueryRow(ctx, item.of.sql(`SELECT packed FROM (
		SELECT b.packed, 1 AS rank FROM buffer b WHERE b.fence = $1 AND b.log_offset = $2 AND b.event_key = $4
		UNION ALL SELECT d.raw, 2 FROM {rejected_records} d WHERE d.fence = $1 AND d.log_offset = $2 AND d.decision = $5
		UNION ALL SELECT a.packed, 3 FROM {actions} a WHERE a.fence = $1 AND a.lane_seq = $3) c
		WHERE packed IS NOT NULL ORDER BY rank LIMIT 1`), item.Fence, item.Offset, item.laneSeq, item.key, string(item.Decision)).Scan(&packed)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, ledger.Pointer{}, ledger.Unavailable("read a payload", err)
	}
	return packed, item.Pointer, nil
}

// items reads the items of a query with the columns of selectHead.
func (b *Inbox) items(ctx context.Context, of scope, sql string, args []any) ([]Item, error) {
	rows, err := b.slow.Query(ctx, of.sql(sql), args...)
	if err != nil {
		return nil, err
	}
	items, err := pgx.CollectRows(rows, scanItem)
	for i := range items {
		items[i].of = of
	}
	return items, err
}

// scanItem reads a row with the columns of selectHead.
func scanItem(r pgx.CollectableRow) (Item, error) {
	var (
		i         Item
		name      string
		v         schemas.Version
		key, hash *[16]byte
		topicID   [16]byte
		// Of a record that was redriven.
		at      *time.Time
		by, why *string
	)
	p := &i.Pointer
	err := r.Scan(&name, &i.Generation, &i.CESource, &i.EventID, &i.Type, &i.Entity, &v.Kind, &v.Clock, &v.Epoch, &v.Value, &v.Text, &v.Sub,
		&i.Status, &i.Decision, &i.Reason, &i.Duplicates, &i.Attempts, &i.NextActionAt, &i.LastError, &i.Topic, &topicID, &i.Partition,
		&i.Offset, &p.LeaderEpoch, &key, &hash, &i.replay, &i.Owner, &i.ReceivedAt, &i.DecidedAt, &at, &by, &why, &i.Fence, &i.window, &i.laneSeq, &i.actions)
	if err != nil {
		return i, err
	}
	i.Team, i.Subscription, _ = strings.Cut(name, ".")
	i.Source = strings.TrimPrefix(i.CESource, "/"+i.Team+"/")
	i.VersionKind, i.VersionClock = string(v.Kind), v.Clock
	if i.Decision != gate.Quarantined || i.Reason == gate.ReasonMisplaced || i.Reason.KnowsEvent() { // of quarantined records only those have a version
		i.Version = v.Sortable()
	}
	i.DecidedAt = i.DecidedAt.UTC()
	if at != nil && by != nil && why != nil {
		note := &Redriven{At: at.UTC(), By: *by, Reason: *why}
		if i.Status == string(ledger.Discarded) {
			i.Discarded = note
		} else {
			i.Redriven = note
		}
	}
	p.Topic, p.TopicID, p.Partition, p.Offset = i.Topic, topicID, i.Partition, i.Offset
	if key != nil && hash != nil {
		i.key, p.Key, p.Hash = *key, *key, *hash
	}
	if i.replay != nil { // in the log it is the event itself
		p.Key = schemas.NewEventKey(i.CESource, i.EventID)
	}
	return i, nil
}

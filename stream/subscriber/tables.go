package subscriber

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
)

// known is what the tables know of a unit's events and version lines.
type known struct {
	state *gate.State
	// lines are the version lines as they were.
	lines  map[gate.VersionLineKey]gate.VersionLine
	waited map[schemas.EventKey]waited
	// long are the version lines of which more may wait than was read, with the lowest version that waits.
	long map[gate.VersionLineKey]schemas.Version
}

// waited is an event that waits.
type waited struct {
	record *kgo.Record
	event  *schemas.Event
}

// read reads what the gate needs to know for a unit, in one round trip, and locks the version lines: an entity's events are in one
// partition, unless a producer places them otherwise.
func (w *worker) read(ctx context.Context, tx pgx.Tx, d *decided) (*known, error) {
	k := &known{
		state: gate.NewState(), lines: map[gate.VersionLineKey]gate.VersionLine{},
		waited: map[schemas.EventKey]waited{}, long: map[gate.VersionLineKey]schemas.Version{},
	}
	var keys [][]byte
	var entities, clocks []string
	for _, line := range d.ended {
		entities, clocks = append(entities, string(line.Entity)), append(clocks, line.Clock)
	}
	for i := range d.records {
		if r := &d.records[i]; r.Broken == "" {
			keys, entities, clocks = append(keys, r.Key[:]), append(entities, string(r.Entity)), append(clocks, r.Version.Clock)
		}
	}
	b := &pgx.Batch{}
	b.Queue(`SELECT event_key, hash, decision FROM forebay_events WHERE consumer_group = $1 AND event_key = ANY($2)`, w.Group, keys).
		Query(k.readSeen)
	b.Queue(`SELECT l.entity, l.clock, l.kind, l.version, l.event_key, l.skipped FROM forebay_lines l
		JOIN (SELECT DISTINCT * FROM unnest($3::text[], $4::text[]) u(entity, clock)) u USING (entity, clock)
		WHERE l.consumer_group = $1 AND l.topic = $2 ORDER BY l.entity, l.clock FOR UPDATE OF l`, w.Group, w.topic, entities, clocks).
		Query(k.readLines)
	// Of what waits on a line the lowest are read, with all of the last one's version: the gate looks for the last of one version.
	b.Queue(`SELECT u.entity, u.clock, $6 AND EXISTS (SELECT FROM forebay_events e WHERE e.consumer_group = $1 AND e.topic = $2
			AND e.entity = u.entity AND e.clock = u.clock AND e.record IS NOT NULL AND e.deadline <= $5), e.version, e.record
		FROM (SELECT DISTINCT * FROM unnest($3::text[], $4::text[]) u(entity, clock)) u
		CROSS JOIN LATERAL (SELECT version, record FROM forebay_events e WHERE e.consumer_group = $1 AND e.topic = $2
			AND e.entity = u.entity AND e.clock = u.clock AND e.record IS NOT NULL
			ORDER BY version COLLATE "C" FETCH FIRST $7 ROWS WITH TIES) e`,
		w.Group, w.topic, entities, clocks, d.asOf, len(d.ended) > 0, d.most).
		Query(func(rows pgx.Rows) error { return k.readWaiting(rows, d) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("read what is known of %d events of %s: %w", len(keys), w.place, err)
	}
	return k, nil
}

func (k *known) readSeen(rows pgx.Rows) error {
	for rows.Next() {
		var key, hash []byte
		var seen gate.Seen
		if err := rows.Scan(&key, &hash, &seen.Decision); err != nil {
			return err
		}
		copy(seen.Hash[:], hash)
		k.state.Seen[schemas.EventKey(key)] = seen
	}
	return rows.Err()
}

func (k *known) readLines(rows pgx.Rows) error {
	for rows.Next() {
		var line gate.VersionLine
		var at gate.VersionLineKey
		var kind schemas.VersionKind
		var version string
		var key []byte
		var skipped []int64
		if err := rows.Scan(&at.Entity, &at.Clock, &kind, &version, &key, &skipped); err != nil {
			return err
		}
		v, err := schemas.ParseVersion(at.Clock, kind, version)
		if err != nil {
			return fmt.Errorf("forebay_lines: %w", err)
		}
		line.At, line.Key = v, schemas.EventKey(key)
		for i := 0; i+1 < len(skipped); i += 2 {
			line.Skipped = append(line.Skipped, gate.Span{From: skipped[i], To: skipped[i+1]})
		}
		k.lines[at] = line
		line.Skipped = slices.Clone(line.Skipped) // the gate advances it in place
		k.state.Lines[at] = &line
	}
	return rows.Err()
}

// readWaiting reads the gap buffer, as far as one transaction may empty it. Of the version lines whose waits are to end, those stay on which one was overdue.
func (k *known) readWaiting(rows pgx.Rows, d *decided) error {
	overdue := map[gate.VersionLineKey]bool{}
	for rows.Next() {
		var at gate.VersionLineKey
		var isOverdue bool
		var version string
		var packed []byte
		if err := rows.Scan(&at.Entity, &at.Clock, &isOverdue, &version, &packed); err != nil {
			return err
		}
		r, err := record.Unpack(packed)
		if err != nil {
			return fmt.Errorf("forebay_events: %w", err)
		}
		e, err := record.Decode(r)
		if err != nil {
			return fmt.Errorf("forebay_events: %w", err)
		}
		g := gateRecord(r, e)
		if g.Version, err = schemas.ParseVersion(at.Clock, e.Version.Kind, version); err != nil {
			return fmt.Errorf("forebay_events: %w", err)
		}
		k.state.Waiting[at] = append(k.state.Waiting[at], gate.Waiting{Record: g, Decision: gate.Buffered})
		k.state.Buffered++
		k.state.BufferedBytes += g.Size
		k.waited[g.Key] = waited{r, e}
		overdue[at] = overdue[at] || isOverdue
	}
	for at, all := range k.state.Waiting {
		sort.Slice(all, func(i, j int) bool {
			c := all[i].Version.Compare(all[j].Version)
			return c < 0 || c == 0 && all[i].Offset < all[j].Offset
		})
		if len(all) >= d.most {
			k.long[at] = all[0].Version
		}
	}
	d.ended = slices.DeleteFunc(slices.Clone(d.ended), func(at gate.VersionLineKey) bool { return !overdue[at] })
	return rows.Err()
}

// write writes what was decided, and the position, in one round trip.
func (w *worker) write(ctx context.Context, tx pgx.Tx, d *decided) error {
	b := &pgx.Batch{}
	w.writeEvents(b, d)
	w.writeLines(b, d)
	b.Queue(`UPDATE forebay_positions SET next_offset = $4, leader_epoch = $5, leader_epoch_of = $4
		WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND next_offset <> $4`, w.Group, w.topic, w.partition, d.next, d.readIn)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("write what was decided of %s: %w", w.place, err)
	}
	return nil
}

// writeEvents writes the last decision of every event, and what is set aside.
func (w *worker) writeEvents(b *pgx.Batch, d *decided) {
	var keys []schemas.EventKey // in the order of their first outcomes
	last := map[schemas.EventKey]gate.Outcome{}
	for _, o := range d.out {
		if o.Decision.Rejects() {
			r := d.events[o.Record]
			w.keepRecord(b, r, string(o.Decision), string(o.Reason), d.errors[o.Record])
			continue
		}
		if o.Decision == gate.Duplicate {
			continue
		}
		r, e := d.eventOf(o)
		key := e.Key()
		if _, ok := last[key]; !ok {
			keys = append(keys, key)
		}
		last[key] = o
		if why, ok := d.givenUp[key]; ok && o.Decision.Runs() {
			w.keepRecord(b, r, string(o.Decision), "handler_failed", clean(why))
			w.Logger.Error("event set aside: its handler went on failing", "group", w.Group, "topic", r.Topic, "partition", r.Partition,
				"offset", r.Offset, "event_id", e.ID, "source", e.Source, "error", why)
		}
	}
	for _, key := range keys {
		o := last[key]
		r, e := d.eventOf(o)
		switch {
		case o.Decision == gate.Buffered:
			b.Queue(`INSERT INTO forebay_events (consumer_group, event_key, hash, decision, reason, topic, partition, entity, clock, version, record, deadline)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, clock_timestamp() + $12::interval)`,
				w.Group, key[:], e.Hash[:], o.Decision, o.Reason, r.Topic, r.Partition, e.Entity, e.Version.Clock, o.Version.Sortable(), record.Pack(r), w.Policy.GapWait)
		case d.known.waited[key].event != nil:
			b.Queue(`UPDATE forebay_events SET decision = $3, reason = $4, decided_at = now(), version = NULL, record = NULL, deadline = NULL
				WHERE consumer_group = $1 AND event_key = $2`, w.Group, key[:], o.Decision, o.Reason)
		default:
			b.Queue(`INSERT INTO forebay_events (consumer_group, event_key, hash, decision, reason, topic, partition, entity, clock)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
				w.Group, key[:], e.Hash[:], o.Decision, o.Reason, r.Topic, r.Partition, e.Entity, e.Version.Clock)
		}
	}
}

// keepRecord keeps a record for somebody to look at.
func (w *worker) keepRecord(b *pgx.Batch, r *kgo.Record, decision, reason, why string) {
	b.Queue(`INSERT INTO forebay_set_aside (consumer_group, topic, partition, log_offset, decision, reason, error, record)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
		w.Group, r.Topic, r.Partition, r.Offset, decision, reason, why, record.Pack(r))
}

// writeLines writes the version lines that have changed.
func (w *worker) writeLines(b *pgx.Batch, d *decided) {
	for at, line := range d.known.state.Lines {
		before, exists := d.known.lines[at]
		if exists && before.At == line.At && before.Key == line.Key && slices.Equal(before.Skipped, line.Skipped) {
			continue
		}
		statement := `INSERT INTO forebay_lines (consumer_group, topic, entity, clock, kind, version, event_key, skipped)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
		if exists {
			statement = `UPDATE forebay_lines SET kind = $5, version = $6, event_key = $7, skipped = $8
				WHERE consumer_group = $1 AND topic = $2 AND entity = $3 AND clock = $4`
		}
		skipped := []int64{}
		for _, s := range line.Skipped {
			skipped = append(skipped, s.From, s.To)
		}
		b.Queue(statement, w.Group, w.topic, at.Entity, at.Clock, line.At.Kind, line.At.Sortable(), line.Key[:], skipped)
	}
}

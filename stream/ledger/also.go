package ledger

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Second keys (gate.Record.Also). The first round trip reads which events came first with those of the batch, the gate decides, and the second
// writes those that came first now. The key of the table decides between two processes: the second insert waits for the first transaction
// and is refused once that has committed, and the batch is tried again (see batchWriter.apply), reads the row, and finds a duplicate. So a
// row whose time has passed is deleted first, by its event: another may have replaced it meanwhile.

// alsoKept is how much longer than it counts a row is kept: a rewind within this time finds it.
const alsoKept = 7 * 24 * time.Hour

// alsoKeys are the second keys of a batch.
type alsoKeys struct {
	stored map[gate.Also]schemas.EventKey // as the table has them
	first  map[gate.Also]gate.Said        // as the gate leaves them
}

func newAlsoKeys() *alsoKeys {
	return &alsoKeys{stored: map[gate.Also]schemas.EventKey{}, first: map[gate.Also]gate.Said{}}
}

// readAlso queues the read of the events that came first with the batch's second keys.
func (t *batchTx) readAlso(ctx context.Context) error {
	if t.n.spec.Policy.Also == 0 {
		return nil
	}
	var keys pg.UUIDs
	for _, w := range t.parts {
		for i := range w.Records {
			if r := &w.Records[i]; r.Also != (gate.Also{}) && !r.Filtered && !w.broken(i) {
				keys.Add(r.Also)
			}
		}
	}
	if keys.Len() == 0 {
		return nil
	}
	return t.p.Add(ctx, alsoRead, func(r *pg.Row) {
		key, event := gate.Also(r.UUID()), schemas.EventKey(r.UUID())
		t.also.stored[key], t.also.first[key] = event, gate.Said{Key: event, At: r.Time(), Recent: r.Bool()}
	}, pg.Int32Param(t.n.id), keys.Param(), pg.Int64Param(t.n.spec.Policy.Also.Microseconds()))
}

// write adds the rows of the events that came first with a key now, sorted: the table's part of the lock order.
func (a *alsoKeys) write(w *writer) {
	keys := slices.SortedFunc(maps.Keys(a.first), func(x, y gate.Also) int { return bytes.Compare(x[:], y[:]) })
	for _, key := range keys {
		first := a.first[key]
		before, stored := a.stored[key]
		if before == first.Key {
			continue
		}
		if stored {
			w.alsoGone.key.Add(key)
			w.alsoGone.event.Add(before)
		}
		w.also.key.Add(key)
		w.also.event.Add(first.Key)
		w.also.at.Add(first.At)
	}
}

// alsoRows are the parameters of alsoInsert.
type alsoRows struct {
	columns
	key, event pg.UUIDs
	at         pg.Times
}

func newAlsoRows() *alsoRows {
	r := &alsoRows{}
	r.columns = columns{{"key", &r.key}, {"event_key", &r.event}, {"appended_at", &r.at}}
	return r
}

// alsoGoneRows are the parameters of alsoDelete.
type alsoGoneRows struct {
	columns
	key, event pg.UUIDs
}

func newAlsoGoneRows() *alsoGoneRows {
	r := &alsoGoneRows{}
	r.columns = columns{{"key", &r.key}, {"event_key", &r.event}}
	return r
}

// FirstWith returns the source and id of the event that a second key is of; empty where none is remembered. Kind Unavailable.
func (n *Namespace) FirstWith(ctx context.Context, key gate.Also) (source, id string, err error) {
	err = n.inWindows(ctx, func(win *windowSet) error {
		return n.ledger.read.QueryRow(ctx, win.own(firstWith), n.id, [16]byte(key)).Scan(&source, &id)
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", "", Unavailable("read which event came first with a second key", err)
	}
	return source, id, nil
}

const firstWith = `-- firstWith: two probes by key
SELECT e.source, e.event_id FROM second_keys k CROSS JOIN LATERAL (SELECT source, event_id FROM {events} v WHERE v.event_key = k.event_key LIMIT 1) e
WHERE k.subscription = $1 AND k.key = $2`

var (
	alsoRead = pg.NewStatement(`-- alsoRead: one probe of second_keys_pkey per key
SELECT key, event_key, appended_at, decided_at > now() - $3::bigint * interval '1 microsecond' FROM second_keys
WHERE subscription = $1 AND key = ANY ($2::uuid[])`)

	alsoDelete = pg.NewFresh(`-- alsoDelete
DELETE FROM second_keys k USING ` + newAlsoGoneRows().from(2, "u") + `
WHERE k.subscription = $1 AND k.key = u.key AND k.event_key = u.event_key`)

	alsoInsert = pg.NewStatement(`-- alsoInsert
INSERT INTO second_keys (subscription, key, event_key, appended_at, decided_at, gone_at)
SELECT $1, u.key, u.event_key, coalesce(u.appended_at, 'epoch'), now(), now() + $2::bigint * interval '1 microsecond'
FROM ` + newAlsoRows().zip(3))
)

package inbox

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// EntityQuery selects entities. Empty fields select everything.
type EntityQuery struct {
	Team, Subscription string   // Subscription without its team
	Topics             []string // nil: all
	// Gaps selects entities of which something waits behind a gap or is held: with Waits only for what is missing (buffered), or for an
	// operator (parked). Since selects those of which something waits since this time or later. Both are of Gaps alone.
	Gaps  bool
	Waits gate.Decision
	Since time.Time
	// Limit is at least 1.
	Limit int
	// Cursor is what [Inbox.Entities] has returned with the page before.
	Cursor string
}

// ListedEntity is where an entity stands in one partition of a subscription, in short.
type ListedEntity struct {
	Team, Subscription, Topic string
	Partition                 int32
	Entity                    schemas.EntityKey
	Lines                     []Line
	Waiting                   int64 // events of it that wait
	// First is the longest wait and the nearest deadline of these, and whether all are held; zero if nothing waits.
	First Wait

	fence int32
}

// Entities lists the entities that the ledger keeps a version of, or of which something waits, in the order of partition and key, with the
// cursor of the next page; empty on the last one. Kinds: Invalid if the cursor is none, Unavailable.
func (b *Inbox) Entities(ctx context.Context, q EntityQuery) (list []ListedEntity, next string, err error) {
	const op = "list entities"
	fence, entity, err := parseEntityCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	sql, args := q.sql(fence, entity)
	rows, err := b.slow.Query(ctx, sql, args...)
	if err == nil {
		list, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (e ListedEntity, err error) {
			var name string
			err = r.Scan(&e.fence, &name, &e.Topic, &e.Partition, &e.Entity)
			e.Team, e.Subscription, _ = strings.Cut(name, ".")
			return e, err
		})
	}
	if len(list) > q.Limit {
		list = list[:q.Limit]
		last := &list[q.Limit-1]
		next = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", last.fence, last.Entity))
	}
	for rest := list; err == nil && len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].fence == rest[0].fence {
			n++
		}
		err, rest = b.describe(ctx, rest[:n]), rest[n:]
	}
	if err != nil {
		return nil, "", ledger.Unavailable(op, err)
	}
	return list, next, nil
}

// sql returns the statement that reads one entity more than a page has.
func (q EntityQuery) sql(fence int32, entity string) (string, []any) {
	const key = ` AND %[1]s.entity > CASE WHEN f.id = $1 THEN $2 ELSE '' END ORDER BY %[1]s.entity LIMIT $3)`
	args := []any{fence, entity, q.Limit + 1, q.Team, q.Subscription, q.Topics}
	waits := `(SELECT DISTINCT b.entity FROM buffer b WHERE b.fence = f.id`
	switch {
	case q.Waits == gate.Buffered:
		waits += ` AND b.decision = 'buffered'`
	case q.Waits == gate.Parked:
		waits += ` AND b.decision <> 'buffered'`
	}
	if !q.Since.IsZero() {
		args = append(args, q.Since)
		waits += ` AND b.buffered_at >= $7`
	}
	of := waits + fmt.Sprintf(key, "b")
	if !q.Gaps {
		of = `(SELECT u.entity FROM ((SELECT DISTINCT l.entity FROM version_lines l WHERE l.fence = f.id` + fmt.Sprintf(key, "l") + ` UNION ` + of + `) u ORDER BY u.entity LIMIT $3)`
	}
	return `-- entities: fences by their ids until the page is full; of each, ranges of version_lines_pkey and buffer_by_line
SELECT f.id, s.name, f.topic, f.partition, e.entity FROM fences f JOIN subscriptions s ON s.id = f.subscription CROSS JOIN LATERAL ` + of + ` e
WHERE s.generation = 0 AND f.id >= $1 AND ($4 = '' OR split_part(s.name, '.', 1) = $4) AND ($5 = '' OR substr(s.name, strpos(s.name, '.') + 1) = $5)
  AND ($6::text[] IS NULL OR f.topic = ANY ($6)) ORDER BY f.id, e.entity LIMIT $3`, args
}

// describe adds to entities of one partition where they stand, and what waits of them.
func (b *Inbox) describe(ctx context.Context, list []ListedEntity) error {
	at := map[string]*ListedEntity{}
	var keys []string
	for n := range list {
		key := string(list[n].Entity)
		at[key], keys = &list[n], append(keys, key)
	}
	lines, err := b.linesOf(ctx, list[0].fence, keys)
	if err != nil {
		return err
	}
	for key, of := range lines {
		at[key].Lines = of
	}
	rows, err := b.slow.Query(ctx, `SELECT entity, count(*), min(buffered_at), min(deadline), bool_and(decision = 'held'), coalesce(min(stage) FILTER (WHERE deadline IS NOT NULL), '')
		FROM buffer WHERE fence = $1 AND entity = ANY ($2) GROUP BY entity`, list[0].fence, keys)
	if err != nil {
		return err
	}
	var (
		key string
		n   int64
		w   Wait
	)
	_, err = pgx.ForEachRow(rows, []any{&key, &n, &w.Since, &w.Until, &w.Held, &w.Stage}, func() error {
		w.Since = w.Since.UTC()
		if w.Until != nil {
			w.Until = new(w.Until.UTC())
		}
		at[key].Waiting, at[key].First = n, w
		return nil
	})
	return err
}

// parseEntityCursor returns the fence and the entity behind which a page begins.
func parseEntityCursor(cursor string) (fence int32, entity string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	number, entity, ok := strings.Cut(string(raw), " ")
	id, failed := strconv.ParseInt(number, 10, 32)
	if err != nil || failed != nil || !ok || strings.ContainsRune(entity, 0) {
		return 0, "", schemas.Errorf(schemas.Invalid, "list entities", "cursor is not one of this list's")
	}
	return int32(id), entity, nil
}

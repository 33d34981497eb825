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
	Lines                     []VersionLine
	// Waiting is how many events of it wait. With More the count was cut off: there are more.
	Waiting int64
	More    bool
	// First is the longest wait and the nearest deadline of those that were counted, and whether all of these are held; zero if nothing waits.
	First Wait

	fence int32
}

// waitingReads is how many events of an entity are read where a list says what waits of it: nothing bounds how many are parked.
const waitingReads = 1000

// Entities lists the entities that the ledger keeps a version of, or of which something waits, in the order of partition and key, with the
// cursor of the next page; empty on the last one. Kinds: Invalid if the cursor is none, Unavailable.
func (b *Inbox) Entities(ctx context.Context, q EntityQuery) (list []ListedEntity, next string, err error) {
	const op = "list entities"
	fence, entity, err := parseEntityCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	sql, args := q.sql(fence, entity)
	err = inOrder(ctx, b.slow, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (e ListedEntity, err error) {
			var name string
			err = r.Scan(&e.fence, &name, &e.Topic, &e.Partition, &e.Entity)
			e.Team, e.Subscription, _ = strings.Cut(name, ".")
			return e, err
		})
		return err
	})
	if len(list) > q.Limit {
		list = list[:q.Limit]
		last := &list[q.Limit-1]
		next = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", last.fence, last.Entity))
	}
	if err == nil {
		err = b.addWaits(ctx, list)
	}
	for rest := list; err == nil && len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].fence == rest[0].fence {
			n++
		}
		err, rest = b.addLines(ctx, rest[:n]), rest[n:]
	}
	if err != nil {
		return nil, "", ledger.Unavailable(op, err)
	}
	return list, next, nil
}

// sql returns the statement that reads one entity more than a page has.
func (q EntityQuery) sql(fence int32, entity string) (string, []any) {
	const behind = `CASE WHEN f.id = $1 THEN $2 ELSE '' END`
	args := []any{fence, entity, q.Limit + 1, q.Team, q.Subscription, q.Topics}
	since := ""
	if !q.Since.IsZero() {
		args = append(args, q.Since)
		since = ` AND b.buffered_at >= $7`
	}
	of := nextWaiting(behind, since)
	switch q.Waits {
	case gate.Buffered: // few, as gap.max_events bounds them, where an entity has any number of parked ones to step over
		of = `(SELECT DISTINCT b.entity FROM (SELECT entity, buffered_at FROM buffer WHERE fence = f.id AND deadline IS NOT NULL OFFSET 0) b
			WHERE b.entity > ` + behind + since + ` ORDER BY b.entity LIMIT $3)`
	case gate.Parked:
		of = nextWaiting(behind, since+` AND b.deadline IS NULL`)
	}
	if !q.Gaps {
		of = `(SELECT u.entity FROM ((SELECT DISTINCT l.entity FROM version_lines l WHERE l.fence = f.id AND l.entity > ` + behind + ` ORDER BY l.entity LIMIT $3) UNION ` + of + `) u ORDER BY u.entity LIMIT $3)`
	}
	return `-- entities: fences by their ids until the page is full; of each, ranges of version_lines_pkey, and steps along buffer_by_line
SELECT f.id, s.name, f.topic, f.partition, e.entity FROM fences f JOIN subscriptions s ON s.id = f.subscription CROSS JOIN LATERAL ` + of + ` e
WHERE s.generation = 0 AND f.id >= $1 AND ($4 = '' OR split_part(s.name, '.', 1) = $4) AND ($5 = '' OR substr(s.name, strpos(s.name, '.') + 1) = $5)
  AND ($6::text[] IS NULL OR f.topic = ANY ($6)) ORDER BY f.id, e.entity LIMIT $3`, args
}

// nextWaiting returns the query for the next $3 entities of fence f.id in the gap buffer: one probe for each, however many events of it wait.
func nextWaiting(behind, condition string) string {
	step := func(behind string) string {
		return `(SELECT b.entity FROM buffer b WHERE b.fence = f.id AND b.entity > ` + behind + condition + ` ORDER BY b.entity LIMIT 1)`
	}
	return `(WITH RECURSIVE r AS (SELECT b.entity, 1 AS n FROM ` + step(behind) + ` b
			UNION ALL SELECT b.entity, r.n + 1 FROM r CROSS JOIN LATERAL ` + step("r.entity") + ` b WHERE r.n < $3::bigint)
		SELECT entity FROM r)`
}

// addWaits adds to entities what waits of them.
func (b *Inbox) addWaits(ctx context.Context, list []ListedEntity) error {
	fences, keys := make([]int32, len(list)), make([]string, len(list))
	for i := range list {
		fences[i], keys[i] = list[i].fence, string(list[i].Entity)
	}
	return inOrder(ctx, b.slow, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `-- what waits of entities: of each, a range of buffer_by_line up to the limit
SELECT k.n - 1, w.* FROM unnest($1::int[], $2::text[]) WITH ORDINALITY k(fence, entity, n) CROSS JOIN LATERAL (
    SELECT count(*) AS events, min(buffered_at), min(deadline), bool_and(decision = 'held'), coalesce(min(stage) FILTER (WHERE deadline IS NOT NULL), '')
    FROM (SELECT * FROM buffer b WHERE b.fence = k.fence AND b.entity = k.entity ORDER BY b.clock, b.value LIMIT $3) b) w
WHERE w.events > 0`, fences, keys, waitingReads+1)
		if err != nil {
			return err
		}
		var (
			at int
			n  int64
			w  Wait
		)
		_, err = pgx.ForEachRow(rows, []any{&at, &n, &w.Since, &w.Until, &w.Held, &w.Stage}, func() error {
			w.Since = w.Since.UTC()
			if w.Until != nil {
				w.Until = new(w.Until.UTC())
			}
			list[at].Waiting, list[at].More, list[at].First = min(n, waitingReads), n > waitingReads, w
			return nil
		})
		return err
	})
}

// addLines adds to entities of one partition where they stand.
func (b *Inbox) addLines(ctx context.Context, list []ListedEntity) error {
	keys := make([]string, len(list))
	for i := range list {
		keys[i] = string(list[i].Entity)
	}
	lines, err := b.linesOf(ctx, list[0].fence, keys)
	for i := range list {
		list[i].Lines = lines[keys[i]]
	}
	return err
}

// Counts returns how many events wait: as exact if all were counted, as atLeast if the count was cut off.
func (e *ListedEntity) Counts() (exact, atLeast *int64) {
	if e.More {
		return nil, &e.Waiting
	}
	return &e.Waiting, nil
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

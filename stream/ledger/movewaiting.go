package ledger

// `topics rekey` hands a subscription over to a copy of its topic. What waits for a gap moves to the copy too, because the
// filler may be there, unread. The first claim of a partition of the copy moves the waiting events of its entities. The
// hand-over itself does not: until the copy is claimed, the subscription may go on in the old topic, and the hand-over may
// be repeated or become void; see checkCopies. Rejected records stay with the old topic, where their offsets are.
//
//	lock    the new fence, by the claim; nobody writes in the old ones, which the hand-over has fenced
//	read    which entities have something in the buffer of the old partitions, and belong here
//	write   events, commands, backfills, and buffer last, by which the others are found: fence and log_offset

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	binding "github.com/forebay-io/forebay/schemas/record"
)

// moveWaiting moves to a partition that is claimed for the first time what waits for its entities in the topic that it was
// handed over from. Nobody writes there: the hand-over has fenced its owners, and checkCopies lets nobody claim it.
func (t *claimTx) moveWaiting(ctx context.Context) error {
	tx, c := t.tx, t.c
	if c.Epoch > 1 || c.copyOf == nil {
		return nil
	}
	old, err := ints(ctx, tx, `SELECT f.id FROM fences t JOIN fences f ON f.subscription = t.subscription AND f.topic_id = t.copy_of
		WHERE t.id = $1 AND EXISTS (SELECT FROM buffer b WHERE b.fence = f.id) ORDER BY f.id`, c.ID)
	if err != nil || len(old) == 0 {
		return err
	}
	if err := tx.Unbounded(ctx); err != nil {
		return err
	}
	fences, entities, err := t.waitingFor(ctx, old)
	if err != nil || len(fences) == 0 {
		return err
	}
	return t.moveRows(ctx, fences, entities)
}

// waitingFor lists the entities of a claim's partition for which events wait in the old partitions, and in which.
func (t *claimTx) waitingFor(ctx context.Context, old []int32) (fences []int32, entities []string, err error) {
	tx, c := t.tx, t.c
	var count int32 // of the copy's partitions when it was made
	err = tx.QueryRow(ctx, `SELECT count(*) FROM fences t JOIN fences f ON f.subscription = t.subscription AND f.topic_id = t.topic_id AND f.copy_of = t.copy_of
		WHERE t.id = $1`, c.ID).Scan(&count)
	if err != nil {
		return nil, nil, err
	}
	rows, err := tx.Query(ctx, `SELECT fence, entity FROM buffer WHERE fence = ANY ($1) GROUP BY fence, entity`, old)
	if err != nil {
		return nil, nil, err
	}
	var (
		fence  int32
		entity string
	)
	_, err = pgx.ForEachRow(rows, []any{&fence, &entity}, func() error {
		if partitionOf(entity, count) == c.Partition.Number {
			fences, entities = append(fences, fence), append(entities, entity)
		}
		return nil
	})
	return fences, entities, err
}

// partitionOf is where an entity's events are in a topic: the entity is their key.
func partitionOf(entity string, partitions int32) int32 {
	return binding.PartitionOf([]byte(entity), partitions)
}

// firstPlace is below the places of what is moved, which are not offsets of the copy's log. They lie below the ranges of
// claims (see outOfLogFrom), in the order of the old offsets.
const firstPlace = math.MinInt64

// moving lists the rows of the buffer that move, with their new places.
const moving = `WITH e AS (SELECT unnest($2::int[]) AS fence, unnest($3::text[]) AS entity),
    g AS (SELECT b.fence, b.log_offset, b.window_id, b.event_key, b.entity, b.clock, $4::bigint + row_number() OVER (ORDER BY b.log_offset, b.fence) AS place
          FROM e JOIN buffer b ON b.fence = e.fence AND b.entity = e.entity)
`

// moveRows moves what waits with all that belongs to it: events, open commands and backfill requests. Deadlines stay as
// they are. The buffer comes last, because the other statements use it to find what moves.
func (t *claimTx) moveRows(ctx context.Context, fences []int32, entities []string) error {
	tx, c := t.tx, t.c
	windows, err := ints(ctx, tx, `SELECT DISTINCT b.window_id FROM unnest($1::int[], $2::text[]) AS e(fence, entity)
		JOIN buffer b ON b.fence = e.fence AND b.entity = e.entity ORDER BY b.window_id`, fences, entities)
	if err != nil {
		return err
	}
	var all []string
	for _, w := range windows {
		all = append(all, OfWindow(w, moving+`UPDATE events_w{w} v SET fence = $1, log_offset = g.place FROM g
			WHERE g.window_id = {w} AND v.event_key = g.event_key AND v.fence = g.fence AND v.log_offset = g.log_offset`))
	}
	all = append(all,
		moving+`UPDATE commands k SET fence = $1, log_offset = g.place FROM g
			WHERE k.fence = g.fence AND k.log_offset = g.log_offset AND k.event_key = g.event_key AND k.ended_at IS NULL`,
		moving+`UPDATE backfills SET fence = $1 WHERE id IN (SELECT max(f.id) FROM g
			JOIN backfills f ON f.fence = g.fence AND f.entity = g.entity AND f.clock = g.clock AND f.ended_at IS NULL GROUP BY g.entity, g.clock)`,
		moving+`UPDATE buffer b SET fence = $1, log_offset = g.place FROM g WHERE b.fence = g.fence AND b.log_offset = g.log_offset`)
	for _, sql := range all {
		if _, err := tx.Exec(ctx, sql, c.ID, fences, entities, int64(firstPlace)); err != nil {
			return err
		}
	}
	return nil
}

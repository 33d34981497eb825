package ledger

// `topics rekey` hands a subscription over from a topic to a copy of what it has not read, in one transaction, which may be repeated.
//
//	lock      the subscription's row; fences of the old topic: whoever owns one ends its transaction first, and is refused then (epoch + 1).
//	          It still stands where it was copied from
//	fences    those of older copies: void; those of the new partitions: made
//	lines     version_lines of the old fences, copied to their new ones
//	finish    stops of the old topic end, topics.left_at, begins of the new partitions

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// Reader is one generation of a subscription that reads a topic.
type Reader struct {
	Subscription string // "<team>.<subscription>"
	Generation   int32
	Next         map[int32]int64 // by partition; one that is not in it is read from 0
	Waiting      int64           // events that wait for others, or for an operator
	Seeks        int64           // of operators, which no claim has carried out yet
	Replays      []int64         // under way in the topic
	GoneTo       string          // the copy of the topic that it reads instead, after a hand-over; empty: none
	id           int32
	revision     int64 // of all partitions: each claim and each batch makes it higher
}

// readerStands counts what a reader has been asked, and all that it has done, and says which replays go on.
const readerStands = `SELECT count(q.fence), coalesce(sum(p.revision), 0)::bigint, ARRAY(SELECT DISTINCT y.replay FROM fences o
	JOIN replay_parts y ON y.fence = o.id AND y.ended_at IS NULL WHERE o.subscription = $1 AND o.topic_id = $2 ORDER BY 1) FROM fences f LEFT JOIN progress p ON p.fence = f.id
	LEFT JOIN seek_requests q ON q.fence = f.id AND q.ended_at IS NULL AND q.topic_id = f.topic_id WHERE f.subscription = $1 AND f.topic_id = $2`

// Readers lists the subscription's generations that have read the topic with an id.
func (l *Ledger) Readers(ctx context.Context, subscription string, id TopicID) ([]Reader, error) {
	rows, err := l.read.Query(ctx, `SELECT s.id, s.generation, n.partition, n.next_offset
		FROM subscriptions s JOIN topics t ON t.subscription = s.id AND t.topic_id = $2
		LEFT JOIN LATERAL (
			SELECT f.partition, p.next_offset FROM fences f JOIN progress p ON p.fence = f.id WHERE f.subscription = s.id AND f.topic_id = $2
			UNION ALL SELECT b.partition, b.log_offset FROM begins b WHERE b.subscription = s.id AND b.topic_id = $2 AND NOT EXISTS (
				SELECT FROM fences f JOIN progress p ON p.fence = f.id WHERE f.subscription = s.id AND f.topic_id = $2 AND f.partition = b.partition)
		) n ON true WHERE s.name = $1 ORDER BY s.generation, n.partition`, subscription, [16]byte(id))
	if err != nil {
		return nil, pg.Unavailable("list readers", err)
	}
	var (
		out         []Reader
		reader, gen int32
		partition   *int32
		next        *int64
	)
	_, err = pgx.ForEachRow(rows, []any{&reader, &gen, &partition, &next}, func() error {
		if n := len(out); n == 0 || out[n-1].id != reader {
			out = append(out, Reader{Subscription: subscription, Generation: gen, Next: map[int32]int64{}, id: reader})
		}
		if partition != nil {
			out[len(out)-1].Next[*partition] = *next
		}
		return nil
	})
	for i := range out {
		if err == nil {
			err = l.read.QueryRow(ctx, `SELECT count(*) FROM fences f JOIN buffer b ON b.fence = f.id WHERE f.subscription = $1 AND f.topic_id = $2`,
				out[i].id, [16]byte(id)).Scan(&out[i].Waiting)
		}
		if err == nil {
			err = l.read.QueryRow(ctx, readerStands, out[i].id, [16]byte(id)).Scan(&out[i].Seeks, &out[i].revision, &out[i].Replays)
		}
		if err == nil {
			out[i].GoneTo, err = l.copyRead(ctx, out[i].id, id)
		}
	}
	if err != nil {
		return nil, pg.Unavailable("list readers", err)
	}
	return out, nil
}

// copyRead is the copy of a topic that the subscription has begun to read; empty: none.
func (l *Ledger) copyRead(ctx context.Context, subscription int32, id TopicID) (topic string, err error) {
	err = l.read.QueryRow(ctx, `SELECT coalesce(min(topic), '') FROM fences WHERE subscription = $1 AND copy_of = $2 AND epoch > 0`, subscription, [16]byte(id)).Scan(&topic)
	return topic, err
}

// HandOver has a reader go on in another topic that holds the events that it has not read: with another number of partitions, and in the
// same order per entity.
type HandOver struct {
	Reader   Reader
	From, To Partition // numbers do not matter
	// Begins is where it goes on in To, by number; its length is To's number of partitions.
	Begins map[int32]int64
	// Ends is where the partitions of From ended when they were copied, by number; nil: the first claims of To do not compare.
	Ends map[int32]int64
}

// handBatch is how many entities' lines move in one statement.
const handBatch = 5000

// HandOver stores where the reader begins in the new topic, gives the new partitions the version lines of their entities,
// so that what is stale stays stale, and returns how many lines. What waits comes with the first claim of its new partition; see
// moveWaiting. The subscription's processes must be stopped; owners that live on are fenced. It may be repeated. Until the new topic
// is claimed, a claim of the old one voids it; see checkCopies. Kind Conflict where the new topic, or another copy of the old one, is
// claimed already, and where somebody has claimed the old one, or asked for a seek or a replay there, since the reader was read.
func (l *Ledger) HandOver(ctx context.Context, h HandOver) (lines int64, err error) {
	op := fmt.Sprintf("hand %s over to %s", h.Reader.Subscription, h.To.Topic)
	var reads *string
	err = l.read.QueryRow(ctx, `SELECT min(topic) FROM fences WHERE subscription = $1 AND (topic_id = $2 OR copy_of = $3) AND epoch > 0`,
		h.Reader.id, [16]byte(h.To.TopicID), [16]byte(h.From.TopicID)).Scan(&reads)
	if err == nil && reads != nil {
		return 0, schemas.Errorf(schemas.Conflict, op, "the subscription reads %s already; to have another number of partitions, copy that one", *reads)
	}
	if err == nil {
		err = l.transact(ctx, func(tx pgx.Tx) (err error) {
			t := &handing{HandOver: h, tx: tx.(*pg.Tx), subscription: h.Reader.id}
			lines, err = t.run(ctx)
			return err
		})
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return lines, &schemas.Error{Kind: e.Kind, Op: op, Err: err}
	}
	return lines, pg.Unavailable(op, err)
}

// columnsOf is a map's two columns, row by row.
func columnsOf(m map[int32]int64) (numbers []int32, offsets []int64) {
	for n := range int32(len(m)) {
		numbers, offsets = append(numbers, n), append(offsets, m[n])
	}
	return numbers, offsets
}

// handing is one try of a hand-over.
type handing struct {
	HandOver
	tx           *pg.Tx
	subscription int32

	fences  []int32 // of the new partitions, by number
	columns string  // of a version line that go over as they are
	newer   string  // sets them to those of another line
}

// run hands the reader over, and returns how many version lines went along.
func (t *handing) run(ctx context.Context) (lines int64, err error) {
	if err := t.tx.Unbounded(ctx); err != nil {
		return 0, err
	}
	old, err := t.lock(ctx)
	if err != nil {
		return 0, err
	}
	if err := t.makeFences(ctx); err != nil {
		return 0, err
	}
	for _, fence := range old {
		n, err := t.handLines(ctx, fence)
		if lines += n; err != nil {
			return lines, err
		}
	}
	return lines, t.finish(ctx)
}

// lock fences the old topic's owners, when their transactions have ended: from here on only a claim goes on there, and that finds the copy.
// It returns the old fences.
func (t *handing) lock(ctx context.Context) (old []int32, err error) {
	// A first claim under way has made a fence, which refers to the subscription: this waits for it, so that the next statement sees it.
	if err := exactly(t.tx.Exec(ctx, `SELECT FROM subscriptions WHERE id = $1 FOR UPDATE`, t.subscription)); err != nil {
		return nil, err
	}
	if err := NotMoving(ctx, t.tx, "", AboutSubscription, t.Reader.Subscription); err != nil {
		return nil, err
	}
	old, err = ints(ctx, t.tx, `SELECT id FROM fences WHERE subscription = $1 AND topic_id = $2 ORDER BY id FOR UPDATE`, t.subscription, [16]byte(t.From.TopicID))
	if err != nil {
		return nil, err
	}
	var seeks, revision int64
	var replays []int64
	if err := t.tx.QueryRow(ctx, readerStands, t.subscription, [16]byte(t.From.TopicID)).Scan(&seeks, &revision, &replays); err != nil {
		return nil, err
	}
	if seeks > t.Reader.Seeks || len(replays) > len(t.Reader.Replays) || revision != t.Reader.revision {
		return nil, pg.Refuse(schemas.Errorf(schemas.Conflict, "", "a process has claimed %s, or a seek or a replay was asked for there, since the plan was made: stop the processes that read it", t.From.Topic))
	}
	_, err = t.tx.Exec(ctx, `UPDATE fences SET epoch = epoch + 1, token = NULL WHERE id = ANY ($1) AND epoch > 0`, old)
	return old, err
}

// makeFences voids earlier hand-overs, and makes the fences of the new topic's partitions, unclaimed.
func (t *handing) makeFences(ctx context.Context) error {
	tx, from, to := t.tx, [16]byte(t.From.TopicID), [16]byte(t.To.TopicID)
	if err := forgetCopies(ctx, tx, t.subscription, t.To); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE fences SET copy_void = true WHERE subscription = $1 AND copy_of = $2 AND topic_id <> $3 AND epoch = 0`,
		t.subscription, from, to) // the last hand-over counts
	if err != nil {
		return err
	}
	numbers, _ := columnsOf(t.Begins)
	_, ends := columnsOf(t.Ends)
	_, err = tx.Exec(ctx, `INSERT INTO fences (subscription, topic, topic_id, partition, copy_of, copy_ends) SELECT $1, $2, $3, unnest($4::int[]), $5, $6
		ON CONFLICT (subscription, topic_id, partition) DO UPDATE SET copy_of = EXCLUDED.copy_of, copy_ends = EXCLUDED.copy_ends, copy_void = false`,
		t.subscription, t.To.Topic, to, numbers, from, ends)
	if err != nil {
		return err
	}
	t.fences, err = ints(ctx, tx, `SELECT id FROM fences WHERE subscription = $1 AND topic_id = $2 ORDER BY partition`, t.subscription, to)
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM version_lines WHERE fence = ANY ($1)`, t.fences) // of this hand-over, made before
	}
	if err != nil {
		return err
	}
	// as_of does not go over: it counts the old partition's lane_seqs, and the new one's begin at 1.
	return tx.QueryRow(ctx, `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum), string_agg(format('%1$I = EXCLUDED.%1$I', attname), ', ') FROM pg_attribute
		WHERE attrelid = 'version_lines'::regclass AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('fence', 'as_of')`).Scan(&t.columns, &t.newer)
}

// copyReplaced are the fences of an earlier hand-over to a copy of the same name that was never read and has been made again
// since.
const copyReplaced = `SELECT id FROM fences WHERE subscription = $1 AND topic = $2 AND topic_id <> $3 AND epoch = 0 ORDER BY id FOR UPDATE`

// forgetCopies deletes what hand-overs stored for copies of the name that were never read.
func forgetCopies(ctx context.Context, tx pgx.Tx, subscription int32, to Partition) error {
	fences, err := ints(ctx, tx, copyReplaced, subscription, to.Topic, [16]byte(to.TopicID))
	if err != nil || len(fences) == 0 {
		return err
	}
	if err := forgetHandedOver(ctx, tx, fences); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM fences WHERE id = ANY ($1)`, fences)
	return err
}

// forgetHandedOver deletes the lines and begins of copies' partitions that were never read and never will be.
func forgetHandedOver(ctx context.Context, tx pgx.Tx, fences []int32) error {
	for _, sql := range []string{
		`DELETE FROM version_lines WHERE fence = ANY ($1)`,
		`DELETE FROM begins b USING fences f WHERE f.id = ANY ($1) AND b.subscription = f.subscription AND b.topic_id = f.topic_id AND b.partition = f.partition`,
	} {
		if _, err := tx.Exec(ctx, sql, fences); err != nil {
			return err
		}
	}
	return nil
}

// handLines copies the lines of one old fence to where their entities are now. An entity may have lines in two old fences, where a topic was created
// again with another number of partitions while events of it waited: the newer one goes over.
func (t *handing) handLines(ctx context.Context, from int32) (lines int64, err error) {
	if err := foldLines(ctx, t.tx, from); err != nil {
		return 0, err
	}
	rows, err := t.tx.Query(ctx, `SELECT DISTINCT entity FROM version_lines WHERE fence = $1 ORDER BY entity`, from)
	if err != nil {
		return 0, err
	}
	entities, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(entities, handBatch) {
		to := make([]int32, len(some))
		for i, e := range some {
			to[i] = t.fences[partitionOf(e, int32(len(t.Begins)))]
		}
		tag, err := t.tx.Exec(ctx, `INSERT INTO version_lines (fence, `+t.columns+`) SELECT u.fence, l.* FROM unnest($2::int[], $3::text[]) AS u(fence, entity)
			CROSS JOIN LATERAL (SELECT `+t.columns+` FROM version_lines WHERE fence = $1 AND entity = u.entity OFFSET 0) l
			ON CONFLICT (fence, entity, clock) DO UPDATE SET `+t.newer+`
			WHERE (EXCLUDED.epoch, EXCLUDED.value, EXCLUDED.version_text, EXCLUDED.sub) >
				(version_lines.epoch, version_lines.value, version_lines.version_text, version_lines.sub)`, from, to, some)
		if err != nil {
			return lines, err
		}
		lines += tag.RowsAffected()
	}
	return lines, nil
}

// finish ends the stops of the old topic, notes that it was left, and stores where the new one begins.
func (t *handing) finish(ctx context.Context) error {
	tx := t.tx
	_, err := tx.Exec(ctx, `UPDATE stops SET ended_at = now(), outcome = 'moved' WHERE subscription = $1 AND topic = $2 AND ended_at IS NULL`,
		t.subscription, t.From.Topic)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE topics SET left_at = now() WHERE subscription = $1 AND topic_id = $2`, t.subscription, [16]byte(t.From.TopicID)); err != nil {
		return err
	}
	numbers, offsets := columnsOf(t.Begins)
	_, err = tx.Exec(ctx, `INSERT INTO begins (subscription, topic, topic_id, partition, log_offset)
		SELECT $1, $2, $3, u.partition, u.log_offset FROM unnest($4::int[], $5::bigint[]) AS u(partition, log_offset)
		ON CONFLICT (subscription, topic_id, partition) DO UPDATE SET log_offset = EXCLUDED.log_offset`,
		t.subscription, t.To.Topic, [16]byte(t.To.TopicID), numbers, offsets)
	return err
}

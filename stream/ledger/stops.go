package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// Stop is why a partition stands still until an operator accepts it. Kind, topic id and offsets are its identity: an
// acceptance covers that and nothing else.
type Stop struct {
	ID           int64 // of the report
	Subscription string
	Generation   int32
	Partition    Partition
	Kind         string // closed list, see the migration
	From, To     int64  // the offsets concerned: [From, To)
	Resume       int64  // where the partition goes on once they are accepted
	Records      int64  // how many records are concerned; -1: nobody can count them
	// FirstAt and LastAt are the broker's append times that they lie between, as well as could be told; zero: not known.
	FirstAt, LastAt time.Time
	Detail          string // in words
	FoundAt         time.Time
	FoundBy         string // the owner that found it
	Accepted        *Acceptance
}

// Acceptance says that an operator lets a partition go on.
type Acceptance struct {
	At         time.Time
	By, Reason string
}

// Same reports whether an acceptance of one covers the other.
func (s *Stop) Same(o *Stop) bool {
	return s != nil && o != nil && s.Kind == o.Kind && s.Partition == o.Partition && s.From == o.From && s.To == o.To
}

// Standing is what a claim may have to weigh besides the stored position.
type Standing struct {
	Epoch int64 // of the fence, before this claim
	// Stop stands until it is accepted or the position is moved; nil where there is none.
	Stop *Stop
	// High is the highest next offset that the ledger ever had; 0 before the first claim.
	High int64
	// ProcessedAt is the broker's append time up to which the partition has been processed; zero: never.
	ProcessedAt time.Time
	// Remembers is since when dedupe remembers what was decided; zero: it has forgotten nothing.
	Remembers time.Time
	// CopyOf is what the partition's topic was copied from, before the first claim; nil where it is no copy, or was read.
	CopyOf *Copied
	// TopicAdopted says that the topic was created again and accepted.
	TopicAdopted bool
}

// Copied is a topic when it was copied.
type Copied struct {
	Topic string
	ID    TopicID
	Ends  []int64 // by partition
}

// TopicError is why a topic is not what the ledger's positions are of. It comes with kind Conflict.
type TopicError struct {
	Topic         string
	ID, Known     TopicID // what it has and what the ledger knows
	Count, Counts int32   // partitions that it has, and that the ledger recorded
	// Next and ProcessedAt are where the partition that was to be claimed stood in the topic that the ledger knows; Next is
	// -1 where it was never claimed.
	Next        int64
	ProcessedAt time.Time
	// Open is how many of its actions are open, dead ones included, and Waiting how many of its events wait: they go on.
	Open, Waiting int64
}

// Recreated says that the topic has another id; otherwise it has another number of partitions.
func (e *TopicError) Recreated() bool { return e.ID != e.Known }

func (e *TopicError) Error() string {
	if e.Recreated() {
		return fmt.Sprintf("topic %s was deleted and created again: its id is %x, the ledger's positions are of %x", e.Topic, e.ID[:], e.Known[:])
	}
	return fmt.Sprintf("topic %s has %d partitions, the ledger recorded %d: entities would move between partitions and lose their order",
		e.Topic, e.Count, e.Counts)
}

const stopColumns = `k.id, s.name, s.generation, k.topic, k.topic_id, k.partition, k.kind, k.from_offset, k.to_offset, k.resume_offset,
	coalesce(k.records, -1), k.first_at, k.last_at, k.detail, k.found_at, k.found_by, k.accepted_at, coalesce(k.accepted_by, ''),
	coalesce(k.accepted_reason, '')`

const stopTables = ` FROM stops k JOIN subscriptions s ON s.id = k.subscription `

func scanStop(row pgx.CollectableRow) (Stop, error) {
	var (
		s                     Stop
		id                    [16]byte
		first, last, accepted *time.Time
		a                     Acceptance
	)
	err := row.Scan(&s.ID, &s.Subscription, &s.Generation, &s.Partition.Topic, &id, &s.Partition.Number, &s.Kind, &s.From, &s.To, &s.Resume,
		&s.Records, &first, &last, &s.Detail, &s.FoundAt, &s.FoundBy, &accepted, &a.By, &a.Reason)
	s.Partition.TopicID = id
	if first != nil {
		s.FirstAt = *first
	}
	if last != nil {
		s.LastAt = *last
	}
	if accepted != nil {
		a.At = *accepted
		s.Accepted = &a
	}
	return s, err
}

// openStop is the stop of a partition that stands, whatever incarnation of the topic it is of.
func openStop(ctx context.Context, tx pgx.Tx, subscription int32, p Partition, lock string) (*Stop, error) {
	rows, err := tx.Query(ctx, `SELECT `+stopColumns+stopTables+
		`WHERE k.subscription = $1 AND k.topic = $2 AND k.partition = $3 AND k.ended_at IS NULL`+lock, subscription, p.Topic, p.Number)
	if err != nil {
		return nil, err
	}
	s, err := pgx.CollectExactlyOneRow(rows, scanStop)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &s, err
}

// readStanding reads under the fence's lock.
func (t *claimTx) readStanding(ctx context.Context) (Standing, error) {
	tx, c := t.tx, t.c
	st := Standing{Epoch: c.Epoch - 1}
	var err error
	if st.Stop, err = openStop(ctx, tx, t.n.id, c.Partition, ""); err != nil {
		return st, err
	}
	if st.Epoch == 0 && c.copyEnds != nil {
		st.CopyOf = &Copied{ID: *c.copyOf, Ends: c.copyEnds}
		if st.CopyOf.Topic, err = t.copiedFrom(ctx); err != nil {
			return st, err
		}
	}
	if st.High, st.ProcessedAt, err = processed(ctx, tx, c.ID); err != nil {
		return st, err
	}
	// The first window opens with the subscription: where the oldest is younger, others were dropped.
	var since *time.Time
	err = tx.QueryRow(ctx, `SELECT CASE WHEN min(w.opened_at) > s.created_at THEN min(w.opened_at) END,
		EXISTS (SELECT FROM stops WHERE subscription = $1 AND topic_id = $2 AND kind = $3 AND accepted_at IS NOT NULL)
		FROM subscriptions s JOIN windows w ON w.subscription = s.id WHERE s.id = $1 GROUP BY s.id`,
		t.n.id, [16]byte(c.Partition.TopicID), recreated).Scan(&since, &st.TopicAdopted)
	if err == nil && since != nil {
		st.Remembers = *since
	}
	return st, err
}

// processed is up to which offset and append time a partition was ever processed; zero where it never was.
func processed(ctx context.Context, tx pgx.Tx, fence int32) (high int64, until time.Time, err error) {
	var at *time.Time
	err = tx.QueryRow(ctx, `SELECT high_offset, CASE WHEN isfinite(processed_at) THEN processed_at END FROM progress WHERE fence = $1`,
		fence).Scan(&high, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, until, nil
	}
	if err == nil && at != nil {
		until = *at
	}
	return high, until, err
}

// endStop ends the partition's stop with the claim that goes on; accepted is the one that the claim rests on, or 0.
func (t *claimTx) endStop(ctx context.Context, s *Stop, accepted int64) error {
	c := t.c
	if s == nil {
		return nil
	}
	if cutKinds[s.Kind] && s.Partition == c.Partition {
		if err := moveOutOfLog(ctx, t.tx, c, s.From); err != nil {
			return err
		}
	}
	_, err := t.tx.Exec(ctx, `UPDATE stops SET ended_at = now(), ended_epoch = $4, outcome = CASE WHEN id = $5 THEN 'accepted' ELSE 'moved' END
		WHERE subscription = $1 AND topic = $2 AND partition = $3 AND ended_at IS NULL`,
		t.n.id, c.Partition.Topic, c.Partition.Number, c.Epoch, accepted)
	return err
}

// Report stores a stop, for operators of any process and for the claims that come: it stands until it is accepted or the
// position is moved. The same stop is stored once; another one replaces what stood, its acceptance included. epoch is
// Standing.Epoch of the claim that found it: after a claim that went through, the report is of the past and kind Conflict.
func (n *Namespace) Report(ctx context.Context, s Stop, epoch int64) (Stop, error) {
	op := fmt.Sprintf("report the stop of %s/%d for %s", s.Partition.Topic, s.Partition.Number, n.spec.Name)
	var stored *Stop
	err := n.ledger.transact(ctx, func(tx pgx.Tx) (err error) {
		stored, err = n.report(ctx, tx, s, epoch, op)
		return err
	})
	if _, ok := errors.AsType[*schemas.Error](err); ok {
		return s, err
	}
	if err != nil {
		return s, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	return *stored, nil
}

func (n *Namespace) report(ctx context.Context, tx pgx.Tx, s Stop, epoch int64, op string) (*Stop, error) {
	p := s.Partition
	var now int64
	// A claim under way is waited for, by the lock on its fence.
	err := tx.QueryRow(ctx, `SELECT epoch FROM fences WHERE subscription = $1 AND topic_id = $2 AND partition = $3 FOR SHARE`,
		n.id, [16]byte(p.TopicID), p.Number).Scan(&now)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	if now != epoch {
		return nil, pg.Refuse(schemas.Errorf(schemas.Conflict, op, "the partition was claimed since"))
	}
	old, err := openStop(ctx, tx, n.id, p, " FOR UPDATE OF k")
	if err != nil || old.Same(&s) {
		return old, err
	}
	if old != nil {
		if err := exactly(tx.Exec(ctx, `UPDATE stops SET ended_at = now(), outcome = 'replaced' WHERE id = $1`, old.ID)); err != nil {
			return nil, err
		}
	}
	_, err = tx.Exec(ctx, `INSERT INTO stops (subscription, topic, topic_id, partition, kind, from_offset, to_offset, resume_offset, records,
		first_at, last_at, detail, found_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, nullif($9, -1), $10, $11, $12, $13)`,
		n.id, p.Topic, [16]byte(p.TopicID), p.Number, s.Kind, s.From, s.To, s.Resume, s.Records, timeOrNull(s.FirstAt), timeOrNull(s.LastAt),
		pg.Clean(s.Detail, 2000), pg.Clean(n.spec.Owner, 200))
	if err != nil {
		return nil, err
	}
	return openStop(ctx, tx, n.id, p, "")
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

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

// TopicError says how a topic differs from the one that the ledger has positions for. Its kind is Conflict.
type TopicError struct {
	Topic     string
	ID, Known TopicID // the id that it has now, and the one that the ledger recorded
	// Partitions is how many it has now, KnownPartitions how many the ledger recorded.
	Partitions, KnownPartitions int32
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
		e.Topic, e.Partitions, e.KnownPartitions)
}

const stopColumns = `k.id, s.name, s.generation, k.topic, k.topic_id, k.partition, k.kind, k.from_offset, k.to_offset, k.resume_offset,
	coalesce(k.records, -1) AS records, k.first_at, k.last_at, k.detail, k.found_at, k.found_by, k.accepted_at, coalesce(k.accepted_by, '') AS accepted_by,
	coalesce(k.accepted_reason, '') AS accepted_reason`

const stopTables = ` FROM stops k JOIN subscriptions s ON s.id = k.subscription `

type stopRow struct {
	ID             int64
	Subscription   string `db:"name"`
	Generation     int32
	Topic          string
	TopicID        [16]byte
	Partition      int32
	Kind           string
	From           int64 `db:"from_offset"`
	To             int64 `db:"to_offset"`
	Resume         int64 `db:"resume_offset"`
	Records        int64
	FirstAt        *time.Time
	LastAt         *time.Time
	Detail         string
	FoundAt        time.Time
	FoundBy        string
	AcceptedAt     *time.Time
	AcceptedBy     string
	AcceptedReason string
}

// scanStop reads a row of stopColumns.
func scanStop(row pgx.CollectableRow) (Stop, error) {
	r, err := pgx.RowToStructByName[stopRow](row)
	if err != nil {
		return Stop{}, err
	}
	s := Stop{
		ID: r.ID, Subscription: r.Subscription, Generation: r.Generation, Partition: Partition{r.Topic, r.TopicID, r.Partition},
		Kind: r.Kind, From: r.From, To: r.To, Resume: r.Resume, Records: r.Records, FirstAt: pg.TimeOrZero(r.FirstAt), LastAt: pg.TimeOrZero(r.LastAt),
		Detail: r.Detail, FoundAt: r.FoundAt, FoundBy: r.FoundBy,
	}
	if r.AcceptedAt != nil {
		s.Accepted = &Acceptance{At: *r.AcceptedAt, By: r.AcceptedBy, Reason: r.AcceptedReason}
	}
	return s, nil
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

// Report stores a stop, for operators of any process and for the claims that come: it stands until it is accepted or the
// position is moved. The same stop is stored once; another one replaces what stood, its acceptance included. epoch is
// Standing.Epoch of the claim that found it: after a claim that went through, the report is of the past and kind Conflict.
func (n *Namespace) Report(ctx context.Context, s Stop, epoch int64) (Stop, error) {
	op := fmt.Sprintf("report the stop of %s/%d for %s", s.Partition.Topic, s.Partition.Number, n.spec.Name)
	var stored *Stop
	err := n.ledger.transact(ctx, func(tx pgx.Tx) error {
		var now int64
		// A claim under way is waited for, by the lock on its fence.
		err := tx.QueryRow(ctx, `SELECT epoch FROM fences WHERE subscription = $1 AND topic_id = $2 AND partition = $3 FOR SHARE`,
			n.id, [16]byte(s.Partition.TopicID), s.Partition.Number).Scan(&now)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if now != epoch {
			return pg.Refuse(schemas.Errorf(schemas.Conflict, op, "the partition was claimed since"))
		}
		stored, err = s.report(ctx, tx, n.id, n.spec.Owner)
		return err
	})
	if _, ok := errors.AsType[*schemas.Error](err); ok {
		return s, err
	}
	if err != nil {
		return s, pg.Unavailable(op, err)
	}
	return *stored, nil
}

// report stores the stop, unless the same one stands, and returns the one that stands. owner is who found it.
func (s *Stop) report(ctx context.Context, tx pgx.Tx, subscription int32, owner string) (*Stop, error) {
	p := s.Partition
	old, err := openStop(ctx, tx, subscription, p, " FOR UPDATE OF k")
	if err != nil || old.Same(s) {
		return old, err
	}
	if old != nil {
		if err := exactly(tx.Exec(ctx, `UPDATE stops SET ended_at = now(), outcome = 'replaced' WHERE id = $1`, old.ID)); err != nil {
			return nil, err
		}
	}
	_, err = tx.Exec(ctx, `INSERT INTO stops (subscription, topic, topic_id, partition, kind, from_offset, to_offset, resume_offset, records,
			first_at, last_at, detail, found_by)
		VALUES (@subscription, @topic, @topic_id, @partition, @kind, @from, @to, @resume, nullif(@records::bigint, -1),
			@first_at, @last_at, @detail, @found_by)`, pgx.NamedArgs{
		"subscription": subscription, "topic": p.Topic, "topic_id": [16]byte(p.TopicID), "partition": p.Number,
		"kind": s.Kind, "from": s.From, "to": s.To, "resume": s.Resume, "records": s.Records,
		"first_at": timeOrNull(s.FirstAt), "last_at": timeOrNull(s.LastAt), "detail": pg.Clean(s.Detail, 2000), "found_by": pg.Clean(owner, 200),
	})
	if err != nil {
		return nil, err
	}
	return openStop(ctx, tx, subscription, p, "")
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

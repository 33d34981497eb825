package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
)

// A subscription that was handed over goes on in the topic or in its copy, never in both. The first claim decides:
//
//	first claim after the hand-over   then the copy      then the topic that was copied
//	of the copy                       is read            is refused: its waiting events and what came since are in the copy
//	of the topic that was copied      is refused: void   is read, as if nothing had been handed over
//
// A void hand-over lacks what the subscription has done since. Only another `topics rekey` leads on.

// checkCopies refuses a claim of a topic whose copy was ever claimed, and of a copy whose hand-over is void. A claim that it lets pass
// voids the hand-overs to copies of its topic that were not claimed yet: it locks their fences, as a copy's first claim does, so that only
// one of the two passes. An error takes back what it voided, with the claim's transaction.
func (t *claimTx) checkCopies(ctx context.Context) error {
	tx, c := t.tx, t.c
	if c.copyVoid {
		return t.refuseCopy(ctx)
	}
	if err := t.checkCopyCount(ctx); err != nil {
		return err
	}
	ids, err := t.incarnations(ctx)
	if err != nil {
		return err
	}
	unclaimed, err := ints(ctx, tx, `SELECT id FROM fences WHERE subscription = $1 AND copy_of = ANY ($2) AND epoch = 0 AND NOT copy_void ORDER BY id FOR UPDATE`, t.n.id, ids)
	if err == nil && len(unclaimed) > 0 {
		_, err = tx.Exec(ctx, `UPDATE fences SET copy_void = true WHERE id = ANY ($1)`, unclaimed)
	}
	if err != nil {
		return err
	}
	var claimedCopy *string
	err = tx.QueryRow(ctx, `SELECT min(topic) FROM fences WHERE subscription = $1 AND copy_of = ANY ($2) AND epoch > 0`, t.n.id, ids).Scan(&claimedCopy)
	if err != nil || claimedCopy == nil {
		return err
	}
	return schemas.Errorf(schemas.Conflict, t.op, "the subscription has gone over to %[1]s, a copy of %[2]s that `forebay topics rekey` made, and what waited is there: "+
		"write topic: %[1]s for the source; to go back, copy it with `forebay topics rekey %[1]s --partitions N --to TOPIC -c FILE`", *claimedCopy, c.Partition.Topic)
}

// incarnations returns the ids under which the claim's topic may have been copied: its own, and the one that it had before it was created
// again. A partition that was never claimed has no former id of its own, so then the ids of all partitions with the topic's name count. Not
// so for a copy: what had its name before was another topic.
func (t *claimTx) incarnations(ctx context.Context) ([][16]byte, error) {
	c := t.c
	if c.copyOf != nil || c.former != (TopicID{}) {
		return [][16]byte{c.Partition.TopicID, c.former}, nil
	}
	rows, err := t.tx.Query(ctx, `SELECT topic_id FROM fences WHERE subscription = $1 AND topic = $2
		UNION SELECT former FROM fences WHERE subscription = $1 AND topic = $2 AND former IS NOT NULL`, t.n.id, c.Partition.Topic)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[[16]byte])
}

// checkCopyCount refuses a copy that nobody has read yet and that has another number of partitions than it was made with: the hand-over
// knows its entities' partitions by that number.
func (t *claimTx) checkCopyCount(ctx context.Context) error {
	var (
		made   int32
		copied *[16]byte
	)
	err := t.tx.QueryRow(ctx, `SELECT count(*), (array_agg(copy_of))[1] FROM fences WHERE subscription = $1 AND topic_id = $2 AND copy_of IS NOT NULL HAVING max(epoch) = 0`,
		t.n.id, [16]byte(t.c.Partition.TopicID)).Scan(&made, &copied)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && made == t.req.Partitions {
		return nil
	}
	if err != nil {
		return err
	}
	from, err := t.nameOf(ctx, *copied)
	if err != nil {
		return err
	}
	return schemas.Errorf(schemas.Conflict, t.op, "it is a copy of %s with %d partitions, and has %d now: entities would move between partitions and lose their order. %s",
		from, made, t.req.Partitions, CopyAgain(from, t.c.Partition.Topic))
}

// refuseCopy says which topic is to be copied again.
func (t *claimTx) refuseCopy(ctx context.Context) error {
	from, err := t.nameOf(ctx, *t.c.copyOf)
	if err != nil {
		return err
	}
	return schemas.Errorf(schemas.Conflict, t.op, "%[1]s is a copy of %[2]s, and the subscription has read on in %[2]s since, or was handed over to another copy: "+
		"what came to %[2]s since is not in %[1]s. %[3]s", t.c.Partition.Topic, from, CopyAgain(from, t.c.Partition.Topic))
}

// CopyAgain is the way out of a copy that nobody has read and that cannot be read any more.
func CopyAgain(from, to string) string {
	return fmt.Sprintf("Stop the processes, write topic: %[1]s for the source, and run `forebay topics rekey %[1]s --partitions N -c FILE` again, "+
		"with another --to. What the intake has written to %[2]s since the switch is in no other topic: keep it", from, to)
}

// nameOf is the name of the topic that had an id when the subscription read it.
func (t *claimTx) nameOf(ctx context.Context, id [16]byte) (string, error) {
	var name *string
	err := t.tx.QueryRow(ctx, `SELECT min(topic) FROM fences WHERE subscription = $1 AND (topic_id = $2 OR former = $2)`, t.n.id, id).Scan(&name)
	if err != nil || name == nil {
		return "TOPIC", err
	}
	return *name, nil
}

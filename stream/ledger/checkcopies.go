package ledger

import (
	"context"
	"fmt"

	"github.com/forebay-io/forebay/schemas"
)

// A subscription that was handed over goes on in the topic or in its copy, never in both. The first claim decides:
//
//	first claim after the hand-over   then the copy      then the topic that was copied
//	of the copy                       is read            is refused: its waiting events and what came since are in the copy
//	of the topic that was copied      is refused: void   is read, as if nothing had been handed over
//
// A void hand-over lacks what the subscription has done since. Only another `topics rekey` leads on.

// checkCopies refuses a claim of a topic whose copy is read, and of a copy whose hand-over is void. A claim that it lets pass
// voids the hand-overs to copies of its topic. The lock on their fences, which their first claims hold, lets one of both through.
func (t *claimTx) checkCopies(ctx context.Context) error {
	tx, c := t.tx, t.c
	if c.copyVoid {
		return t.refuseCopy(ctx)
	}
	copied := [][16]byte{c.Partition.TopicID, c.former}
	unread, err := ints(ctx, tx, `SELECT id FROM fences WHERE subscription = $1 AND copy_of = ANY ($2) AND epoch = 0 AND NOT copy_void ORDER BY id FOR UPDATE`, t.n.id, copied)
	if err == nil && len(unread) > 0 {
		_, err = tx.Exec(ctx, `UPDATE fences SET copy_void = true WHERE id = ANY ($1)`, unread)
	}
	if err != nil {
		return err
	}
	var reads *string
	err = tx.QueryRow(ctx, `SELECT min(topic) FROM fences WHERE subscription = $1 AND copy_of = ANY ($2) AND epoch > 0`, t.n.id, copied).Scan(&reads)
	if err != nil || reads == nil {
		return err
	}
	return schemas.Errorf(schemas.Conflict, t.op, "the subscription has gone over to %[1]s, a copy of %[2]s that `forebay topics rekey` made, and what waited is there: "+
		"write topic: %[1]s for the source; to go back, copy it with `forebay topics rekey %[1]s --partitions N --to TOPIC -c FILE`", *reads, c.Partition.Topic)
}

// refuseCopy says which topic is to be copied again.
func (t *claimTx) refuseCopy(ctx context.Context) error {
	from, err := t.copiedFrom(ctx)
	if err != nil {
		return err
	}
	return schemas.Errorf(schemas.Conflict, t.op, "%s is a copy of %s, and the subscription has read on in %[2]s since, or was handed over to another copy: %s",
		t.c.Partition.Topic, from, CopyAgain(from, t.c.Partition.Topic))
}

// CopyAgain is the way out of a copy that lacks what came to its topic since.
func CopyAgain(from, to string) string {
	return fmt.Sprintf("what came to %[1]s since is not in %[2]s. Stop the processes, write topic: %[1]s for the source, and run `forebay topics rekey %[1]s --partitions N -c FILE` again, "+
		"with another --to. What the intake has written to %[2]s since the switch is in no other topic: keep it", from, to)
}

// copiedFrom is the name of the topic that a claim's topic is a copy of.
func (t *claimTx) copiedFrom(ctx context.Context) (string, error) {
	var from *string
	err := t.tx.QueryRow(ctx, `SELECT min(topic) FROM fences WHERE subscription = $1 AND (topic_id = $2 OR former = $2)`, t.n.id, t.c.copyOf).Scan(&from)
	if err != nil || from == nil {
		return "TOPIC", err
	}
	return *from, nil
}

package owner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// refuseStaleCopy refuses to claim a partition of a copy, for the first time (later the ledger does not say any more what it is a copy of),
// if the topic that it was copied from has grown since: the copy lacks those records. If that topic was deleted or created again, the claim is
// allowed: with that an operator accepts what the copy lacks.
func (b *broker) refuseStaleCopy(ctx context.Context, f facts) error {
	old := f.standing.CopyOf
	if old == nil {
		return nil
	}
	ends, err := b.ends(ctx, old.Topic, old.ID)
	if err != nil {
		return fmt.Errorf("look whether %s was written to after it had been copied: %w", old.Topic, err)
	}
	var newer int64
	var where []string
	for number, now := range ends {
		was := int64(0) // of a partition that the topic got since
		if number < len(old.Ends) {
			was = old.Ends[number]
		}
		if now > was {
			newer += now - was
			where = append(where, fmt.Sprintf("%s/%d from offset %d", old.Topic, number, was))
		}
	}
	if newer == 0 {
		return nil
	}
	to := f.partition.Topic
	op := fmt.Sprintf("claim %s/%d for %s", to, f.partition.Number, f.namespace)
	if old.Read {
		return schemas.Errorf(schemas.Conflict, op, "it is a copy of %[1]s, which has grown by %[2]d since it was copied, and %[1]s cannot be copied again, because the subscription "+
			"reads other partitions of %[3]s already. Stop what still writes to %[1]s; have the providers send those events again, or produce them to %[3]s with their keys and headers (%[4]s); "+
			"then delete %[1]s, and this partition goes on", old.Topic, newer, to, strings.Join(where, ", "))
	}
	return schemas.Errorf(schemas.Conflict, op, "it is a copy of %[1]s, which has grown by %[2]d since it was copied: what came to %[1]s since is not in %[3]s. %[4]s",
		old.Topic, newer, to, ledger.CopyAgain(old.Topic, to))
}

// ends returns the ends of a topic's partitions, by number; none if the topic was deleted, or has another id by now. It takes two requests
// and one more for each broker that leads a partition, however many partitions there are: the first claim of every partition of a copy
// asks.
func (b *broker) ends(ctx context.Context, topic string, id ledger.TopicID) ([]int64, error) {
	t, err := b.Topic(ctx, topic)
	if errors.Is(err, kerr.UnknownTopicOrPartition) || (err == nil && t.ID != id) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	listed, err := b.adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, err
	}
	ends := make([]int64, t.Partitions)
	for n := range ends {
		o, ok := listed.Lookup(topic, int32(n))
		if !ok {
			return nil, fmt.Errorf("end of %s/%d: the answer does not name it", topic, n)
		}
		ends[n] = o.Offset
	}
	return ends, nil
}

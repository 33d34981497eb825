package ledgertest

import (
	"context"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Source is where the events of tests come from.
const Source = "/acme/github"

// Partition returns partition n of the topic of tests.
func Partition(n int32) ledger.Partition {
	return ledger.Partition{Topic: "events.acme.github", TopicID: ledger.TopicID{1}, Number: n}
}

// Stay is a Confirm that starts where the ledger stands, else at 0.
func Stay(_ context.Context, stored *ledger.Position) (ledger.Start, error) {
	if stored != nil {
		return ledger.Start{Position: *stored}, nil
	}
	return ledger.Start{Position: ledger.Position{LeaderEpoch: -1}}, nil
}

// Seq returns a record of kind sequence.
func Seq(offset int64, entity string, value int64) ledger.Record {
	return Record(offset, fmt.Sprintf("%s-%d", entity, value), entity, schemas.Version{Kind: schemas.Sequence, Value: value})
}

// Record returns a record of an event.
func Record(offset int64, id, entity string, v schemas.Version) ledger.Record {
	r := ledger.Record{
		LeaderEpoch: 3, Source: Source, ID: id, Type: "com.github.issues.labeled", ReceivedAt: time.Unix(1_700_000_000, 0).UTC(),
		Packed: func() []byte { return []byte("packed " + id) },
	}
	r.Offset, r.AppendTime, r.Key = offset, time.Unix(1_700_000_001, 0).UTC(), schemas.NewEventKey(r.Source, id)
	r.Hash, r.Entity, r.Version, r.Payload = schemas.HashBody([]byte(id)), schemas.EntityKey(entity), v, schemas.Snapshot
	r.Size = int64(len(r.Packed()))
	return r
}

// Slice returns a slice of a claim up to behind its last record.
func Slice(c *ledger.Claim, records ...ledger.Record) ledger.Slice {
	next := c.Next
	if n := len(records); n > 0 {
		next = ledger.Position{Offset: records[n-1].Offset + 1, LeaderEpoch: records[n-1].LeaderEpoch}
	}
	return ledger.Slice{Claim: c, From: c.Next.Offset, Records: records, Next: next}
}

// Decisions returns what was decided, as "0:applied/first", "-1:applied/released".
func Decisions(a ledger.Applied) (out []string) {
	for _, o := range a.Outcomes {
		out = append(out, fmt.Sprintf("%d:%s/%s", o.Record, o.Decision, o.Reason))
	}
	return out
}

// ActionID returns the id of an event's action run.
func ActionID(event string) schemas.ActionID {
	return schemas.NewActionID("acme.triage", 0, Source, event, "run")
}

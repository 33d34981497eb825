package app

import (
	"context"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/backfill"
	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// wantsBackfill reports whether a subscription's policy asks for backfills.
func wantsBackfill(sub *config.Subscription) bool {
	return sub.Gap.Then == string(gate.ThenBackfill) || sub.Start == string(gate.StartBackfill)
}

// backfill answers a subscription's requests for backfills until ctx is done: it fetches what is missing, or the entity as it is now,
// and produces it as synthetic events.
func (s *streams) backfill(ctx context.Context, fetches *fetchers, q *batch.BackfillRequests) error {
	producer, err := backfillProducer(s.a.file())
	if err != nil {
		return err
	}
	r, err := fetches.runner(backfillRequests{q}, producer, s.a.log)
	if err == nil {
		err = r.Run(ctx)
	}
	// A request that is not answered when this ends is in the ledger still: the next owner of the partition takes it up.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if lost := producer.Close(closing); lost != nil {
		s.a.log.Warn("synthetic events not written", "error", lost)
	}
	return err
}

// backfillRequests adapts the ledger's requests to the runner of backfills.
type backfillRequests struct{ *batch.BackfillRequests }

var _ backfill.Store = backfillRequests{}

func (q backfillRequests) Next(ctx context.Context) (backfill.Request, error) {
	b, err := q.BackfillRequests.Next(ctx)
	if err != nil {
		return backfill.Request{}, err
	}
	return requestOf(b), nil
}

// requestOf returns the ledger's request as the runner takes it.
func requestOf(b ledger.Backfill) backfill.Request {
	r := backfill.Request{ID: strconv.FormatInt(b.ID, 10), Source: b.Source, Entity: b.VersionLine.Entity, Clock: b.VersionLine.Clock, Kind: b.Kind, Epoch: b.Epoch,
		From: b.From, To: b.To, Within: b.Left}
	if b.Kind != schemas.Sequence {
		r.From, r.To = 0, -1 // no range of missing events: it asks for the entity as it is now
	}
	return r
}

func (q backfillRequests) Done(ctx context.Context, id string, o backfill.Outcome) error {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return schemas.Errorf(schemas.Internal, "end a backfill", "%q is no id of one", id)
	}
	return q.End(ctx, n, ledger.BackfillEnd{Failure: string(o.Reason), Detail: o.Detail, Code: o.Code, Produced: o.Produced})
}

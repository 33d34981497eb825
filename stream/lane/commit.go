package lane

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// committer is implemented by ledgers that execute an action's statement in the transaction that records its completion.
type committer interface {
	Commit(ctx context.Context, r ledger.Result, s sink.Statement) (tag string, err error)
}

// commit is the Commit of an action whose attempt began at began; nil where the sink wants none. What it has recorded
// comes once more with the attempt's end, as every result does, and changes nothing then.
func (l *Lanes) commit(e *entry, d *destination, began time.Time) func(context.Context, sink.Statement) (string, error) {
	if _, wanted := d.Sink.(sink.Joined); !wanted {
		return nil
	}
	c, able := l.cfg.Ledger.(committer)
	if !able {
		return nil
	}
	r := ledger.Result{Claim: e.lane.part.claim, LaneSeq: e.LaneSeq, Status: ledger.Done, Attempt: e.Attempts + 1}
	return func(ctx context.Context, s sink.Statement) (string, error) {
		r.Latency = time.Since(began)
		return c.Commit(ctx, r, s)
	}
}

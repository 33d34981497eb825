package batch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Behind each deletion of version lines batches have their turn for as long as it took, however much there is to delete.
func TestBatchesHaveTheirTurnBetweenDeletions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, p, w := feeder(t, prometheus.NewRegistry())
		d := &deletions{written: w}
		l.cfg.Ledger, l.cfg.IdleSweep = d, time.Minute
		s := &idleSweep{l: l}
		ended := make(chan struct{})
		began := time.Now()
		go func() { defer close(ended); s.forgetLines([]*Partition{p, p}) }()
		for running := true; running; {
			select {
			case fn := <-l.calls: // in the place of the loop
				fn()
			case <-ended:
				running = false
			}
		}
		if busy, all := time.Duration(d.n)*deletionTime, time.Since(began); d.n < 3 || busy > all/2 {
			t.Errorf("%d deletions, %s of %s", d.n, busy, all)
		}
	})
}

const deletionTime = 5 * time.Second

// deletions is a ledger with version lines to delete for ever.
type deletions struct {
	*written
	n int
}

func (*deletions) OldLines(context.Context, *ledger.Claim) (ledger.OldLines, error) {
	return ledger.OldLines{More: true}, nil
}

func (d *deletions) ForgetLines(context.Context, *ledger.Claim, ledger.OldLines) error {
	d.n++
	time.Sleep(deletionTime)
	return nil
}

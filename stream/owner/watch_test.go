package owner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// A partition that was stopped as unreadable runs again, and is no longer unread, once reading it would have failed again: also if it
// is idle and no batch shows that.
func TestIdlePartitionIsUnreadNoLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ms, err := newMetrics(nil)
		if err != nil {
			t.Fatal(err)
		}
		o := &claimer{status: newStatus(ms)}
		ctx, cancel := context.WithCancelCause(t.Context())
		at := reader.TopicPartition{Topic: testTopic}
		a := &assignment{at: at, ctx: ctx, cancel: cancel, unread: time.Now().Add(-72 * time.Hour)}
		a.lastStop = unreadable(ledger.Partition{Topic: testTopic}, &batch.UnreadableError{Offset: 7, Since: a.unread, Err: errNotStarted})
		o.status.set(at, Stopped, a.lastStop)
		rc := newRunningClaim(a, claimed{Claim: &ledger.Claim{}})
		ended := make(chan struct{})
		go func() { defer close(ended); _ = o.watch(a, rc) }()
		time.Sleep(batch.ReadAgain - time.Second)
		synctest.Wait()
		if p := o.status.partitions()[0]; p.State != Stopped {
			t.Errorf("shown as %s before it could have failed again", p.State)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if p := o.status.partitions()[0]; p.State != Running || p.Err != nil {
			t.Errorf("shown as %s, %v", p.State, p.Err)
		}
		cancel(errRevoked)
		<-ended
		if !a.unread.IsZero() {
			t.Errorf("unread since %s", a.unread)
		}
	})
}

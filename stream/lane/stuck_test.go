package lane

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// stuck is a log that nobody reads, until it is let go.
type stuck struct {
	slog.Handler
	letGo chan struct{}
}

func (s stuck) WithAttrs([]slog.Attr) slog.Handler { return s }

func (s stuck) Handle(context.Context, slog.Record) error {
	<-s.letGo
	return nil
}

// TestLogThatNobodyReads: where the log takes no line of a destination that is away, others go on: actions are added, and run elsewhere. That
// no lane logs under the lock all tests see; see unlocked.
func TestLogThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := stuck{slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}), make(chan struct{})}
		d, err := destination.New(destination.Config{Name: destName, Logger: slog.New(log), Policy: destination.Policy{Concurrency: 4,
			Breaker: destination.Breaker{Failures: 1, Window: time.Minute, Wait: time.Hour, MaxWait: time.Hour}}})
		if err != nil {
			t.Fatal(err)
		}
		other := &script{}
		r := setup(t, sharing(d, other))
		defer r.stop()
		defer close(log.letGo)
		r.begin(t)
		r.sink.do = answerWith(sink.Outcome{}, sink.ClassNetwork)
		r.add("away")
		synctest.Wait()
		if s := d.Status(); s.Breaker != destination.Open {
			t.Fatal(s.Breaker)
		}
		r.Add(r.claim, []Item{r.make("elsewhere", toOther)})
		synctest.Wait()
		same(t, "calls elsewhere", len(other.ids()), 1)
		same(t, "attempt at what is away", r.mem.action(r.claim, 1).Status, ledger.Failed)
	})
}

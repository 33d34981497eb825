package destination

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a log that takes nothing until it is let go.
type stuck struct {
	slog.Handler
	letGo chan struct{}
	got   *[]string
}

func (s stuck) Enabled(context.Context, slog.Level) bool { return true }

func (s stuck) WithAttrs([]slog.Attr) slog.Handler { return s }

func (s stuck) Handle(_ context.Context, r slog.Record) error {
	<-s.letGo
	*s.got = append(*s.got, r.Message)
	return nil
}

// TestLogThatNobodyReads: a destination goes on whose log takes no line; the lines come in order once it does, and a thousand wait at most.
func TestLogThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		log := stuck{letGo: make(chan struct{}), got: &got}
		d, err := New(Config{Name: "acme/agent", Logger: slog.New(log), Policy: Policy{Concurrency: 4, Recovery: time.Second,
			Breaker: Breaker{Failures: 1, Window: time.Minute, Wait: time.Second, MaxWait: time.Second}}})
		if err != nil {
			t.Fatal(err)
		}
		w := d.worker("acme")
		w.Take()
		w.End(broken)
		time.Sleep(time.Second)
		if answer := w.Take(); answer != Go {
			t.Error(answer)
		}
		w.End(fine)
		if s := d.Status(); s.Breaker != Recovering {
			t.Error(s.Breaker)
		}
		synctest.Wait()
		for n := range maxLines + 10 {
			d.log.Info(fmt.Sprint(n))
		}
		close(log.letGo)
		synctest.Wait()
		want := "destination's breaker opens: next to nothing is attempted for a while"
		if got[0] != want || got[1] != "destination's breaker changes" || got[maxLines] != "the log takes no lines; what comes until it does is left out" || len(got) != maxLines+1 {
			t.Errorf("%d lines: %q ... %q", len(got), got[:4], got[len(got)-2:])
		}
	})
}

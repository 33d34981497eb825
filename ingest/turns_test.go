package ingest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns: so many of a source go to the log at once, and the next when one of them is back; who waits too long goes all the same, as behind a
// partition that takes nothing; another source waits for none of them.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flood, quiet := &Source{}, &Source{}
		var given []func()
		for range sourceTurns {
			given = append(given, flood.turn(t.Context()))
		}
		begin := time.Now()
		quiet.turn(t.Context())()
		if waited := time.Since(begin); waited > 0 {
			t.Errorf("the quiet source waited for %s", waited)
		}
		var waiting sync.WaitGroup
		var waited [3]time.Duration
		for i := range waited {
			time.Sleep(time.Millisecond) // one after the other
			waiting.Go(func() {
				began := time.Now()
				give := flood.turn(t.Context())
				waited[i] = time.Since(began)
				give()
			})
			synctest.Wait()
		}
		time.Sleep(10 * time.Millisecond)
		given[0]()
		waiting.Wait()
		for i, d := range waited { // the first has it from the one that is back, and gives it to the next
			if d > 20*time.Millisecond {
				t.Errorf("number %d waited for %s", i, d)
			}
		}
		given[0] = flood.turn(t.Context())
		begin = time.Now()
		flood.turn(t.Context())()
		if waited := time.Since(begin); waited != turnWithin {
			t.Errorf("behind what does not come back it waited for %s", waited)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		begin = time.Now()
		flood.turn(gone)()
		if waited := time.Since(begin); waited > 0 || len(flood.turns) != sourceTurns {
			t.Errorf("a sender that has gone waits for %s; %d turns are taken", waited, len(flood.turns))
		}
		for _, give := range given {
			give()
		}
		if len(flood.turns) != 0 {
			t.Errorf("%d turns are left", len(flood.turns))
		}
	})
}

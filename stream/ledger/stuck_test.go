package ledger

import (
	"strings"
	"testing"
	"time"
)

// A database that takes nothing for a while, as one whose disk is full, is told of as long as that is so.
func TestStuck(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.trigger(`RAISE disk_full;`)
	applied := make(chan error, 1)
	go func() {
		_, err := f.n.Apply(t.Context(), []Slice{slice(c, seq(0, "c", 1))})
		applied <- err
	}()
	stuck := f.n.Stuck(0)
	for end := time.Now().Add(time.Minute); stuck == nil && time.Now().Before(end); stuck = f.n.Stuck(0) {
		<-time.After(5 * time.Millisecond)
	}
	if stuck == nil || !strings.Contains(stuck.Error(), "53100") {
		t.Errorf("a batch is refused, and it says %v", stuck)
	}
	if err := f.n.Stuck(time.Hour); err != nil {
		t.Errorf("not for an hour: %v", err)
	}
	f.exec(`DROP FUNCTION refuse() CASCADE`)
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
	if err := f.n.Stuck(0); err != nil {
		t.Errorf("it was taken: %v", err)
	}
}

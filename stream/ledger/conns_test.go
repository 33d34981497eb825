package ledger

import (
	"context"
	"testing"
	"time"
)

// Claims hold a connection while they ask Kafka, which may take as long as Kafka likes. There are connections left for
// the partitions that run.
func TestClaimsLeaveConnectionsToBatches(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.l.Close()
	f.cfg.MaxConns = 4
	f.l = open(t, f.cfg)
	f.n = f.namespace()
	c := f.claim(0)
	ask, answer := make(chan struct{}, 8), make(chan struct{})
	claimed := make(chan error, 8)
	for p := range int32(7) {
		go func() {
			_, err := f.n.Claim(t.Context(), ClaimRequest{Partition: partition(p + 1), Partitions: 8, Confirm: func(context.Context, *Position) (Start, error) {
				ask <- struct{}{}
				<-answer
				return Start{Position: Position{LeaderEpoch: -1}}, nil
			}})
			claimed <- err
		}()
	}
	<-ask
	<-ask
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	out, err := f.n.Apply(ctx, []Slice{slice(c, seq(0, "e", 1))})
	if err != nil {
		t.Errorf("a batch beside claims that wait for Kafka: %v", err)
	} else if _, err := f.n.Record(ctx, []Result{{Claim: c, LaneSeq: out[0].Actions[0].LaneSeq, Status: Done, Attempt: 1}}); err != nil {
		t.Errorf("a result: %v", err)
	}
	close(answer)
	for range 7 {
		if err := <-claimed; err != nil {
			t.Error(err)
		}
	}
}

// A claim whose COMMIT is in doubt gives its broken connection back before it asks on another one.
func TestClaimInDoubtNeedsOneConnection(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.cfg.MaxConns = 1
	p, g := throughProxy(t, f)
	p.cut.Store(&cut{needle: []byte("commit\x00")})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := g.n.Claim(ctx, ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: at(0)})
	if err != nil || p.cuts.Load() != 1 {
		t.Fatalf("%d cuts: %v", p.cuts.Load(), err)
	}
	g.apply(c, seq(0, "e", 1))
}

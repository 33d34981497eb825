package owner

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
)

const (
	testTopic = streamtest.Topic
	testGroup = streamtest.Group
)

// rig is brokers, and what a group does with them.
type rig struct{ *streamtest.Rig }

func newRig(t *testing.T, partitions int32, opts ...kfake.Opt) *rig {
	t.Helper()
	return &rig{streamtest.NewRig(t, partitions, opts...)}
}

func (r *rig) config(l Ledger) Config {
	return Config{
		Group: testGroup, Topics: []string{testTopic}, Client: []kgo.Opt{r.Seed()}, Begin: Begin{All: true}, Ledger: l,
		Logger: slog.New(slog.DiscardHandler), SessionTimeout: 6 * time.Second, HeartbeatInterval: 100 * time.Millisecond,
		RebalanceTimeout: 10 * time.Second, MirrorInterval: 20 * time.Millisecond, DrainTimeout: 5 * time.Second,
	}
}

// counted is a ledger that counts the claims that it gave.
type counted struct {
	*ledgertest.Process
	memory *ledgertest.Memory
	claims int
}

func (c *counted) Claim(ctx context.Context, req ledger.ClaimRequest) (*ledger.Claim, error) {
	got, err := c.Process.Claim(ctx, req)
	if err == nil {
		c.claims++
	}
	return got, err
}

func (r *rig) ledger() *counted {
	r.T.Helper()
	m := ledgertest.New(testGroup, 0)
	p, err := m.Process("one", ledger.Spec{Name: testGroup, Owner: r.T.Name(),
		Policy:  gate.Policy{Order: gate.OrderArrival, Start: gate.StartAny, Equal: gate.EqualApply, Then: gate.ThenSkip, MaxPerEntity: 100, MaxBuffered: 1000},
		Actions: []ledger.ActionSpec{{Name: "run", Destination: "acme/agent", OnDead: ledger.Park}}})
	if err != nil {
		r.T.Fatal(err)
	}
	return &counted{Process: p, memory: m}
}

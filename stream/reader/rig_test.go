package reader

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/internal/streamtest"
)

const (
	testTopic = streamtest.Topic
	patience  = streamtest.Patience
)

var (
	event  = streamtest.Event
	placed = streamtest.Placed
)

// rig is brokers, and what reads them.
type rig struct{ *streamtest.Rig }

func newRig(t *testing.T, partitions int32, opts ...kfake.Opt) *rig {
	t.Helper()
	return &rig{streamtest.NewRig(t, partitions, opts...)}
}

func (r *rig) payloads(opts ...func(*PayloadsConfig)) *LogPayloads {
	r.T.Helper()
	cfg := PayloadsConfig{Client: []kgo.Opt{r.Seed()}, LostAfter: 300 * time.Millisecond}
	for _, o := range opts {
		o(&cfg)
	}
	l, err := NewPayloads(cfg)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(l.Close)
	return l
}

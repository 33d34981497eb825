package owner

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// asked counts what a client asks brokers about topics and offsets.
type asked struct{ n atomic.Int64 }

func (a *asked) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.Metadata) || key == int16(kmsg.ListOffsets) {
		a.n.Add(1)
	}
}

// What was written to a topic after it had been copied is found, wherever it is, and by few requests. What to do depends on whether the copy
// is read already.
func TestCopyLacksWhatCameSince(t *testing.T) {
	t.Parallel()
	const partitions = 30
	const again, deliver = "run `forebay topics rekey " + testTopic + " --partitions N -c FILE` again, with another --to", "then delete " + testTopic + ", and this partition goes on"
	for name, tt := range map[string]struct {
		since func(*rig)
		read  bool
		want  []string // nil: nothing is missing
	}{
		"nothing":               {since: func(*rig) {}},
		"nothing, a part read":  {since: func(*rig) {}, read: true},
		"a record":              {since: func(r *rig) { r.Produce(2, 7) }, want: []string{"grown by 1 since", again}},
		"a record, a part read": {since: func(r *rig) { r.Produce(2, 7) }, read: true, want: []string{"grown by 1 since", deliver, testTopic + "/2 from offset 1"}},
		"one in a partition that the topic got since": {since: func(r *rig) {
			r.Grow(partitions + 1)
			r.Parts++
			r.Produce(partitions, 7)
		}, want: []string{"grown by 1 since", again}},
		"the topic was deleted": {since: func(r *rig) {
			r.Produce(2, 7)
			r.delete()
		}},
		"the topic was created again": {since: func(r *rig) {
			r.delete()
			if _, err := r.Adm.CreateTopic(r.Ctx(), 3, 1, nil, testTopic); err != nil {
				t.Fatal(err)
			}
			r.Parts, r.Client = 3, r.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner())) // the old one remembers the old id
			r.Produce(2, 7, 8)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, partitions)
			r.Produce(2, 1)
			f := facts{namespace: testGroup, partition: ledger.Partition{Topic: "events.acme.orders.40", Number: 3},
				standing: ledger.Standing{CopyOf: &ledger.Copied{Topic: testTopic, ID: r.TopicID(), Ends: make([]int64, partitions), Read: tt.read}}}
			f.standing.CopyOf.Ends[2] = 1
			tt.since(r)
			a := &asked{}
			err := newBroker(r.NewClient(kgo.WithHooks(a)), testGroup).refuseStaleCopy(r.Ctx(), f)
			if tt.want == nil && err != nil || tt.want != nil && schemas.KindOf(err) != schemas.Conflict {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
			if n := a.n.Load(); n > 5 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func (r *rig) delete() {
	r.T.Helper()
	if _, err := r.Adm.DeleteTopic(r.Ctx(), testTopic); err != nil {
		r.T.Fatal(err)
	}
}

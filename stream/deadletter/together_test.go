package deadletter

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
)

// An agent that refuses everything makes hundreds of dead letters a second: the brokers get many in one request, in lane order.
func TestDeadLettersAreWrittenTogether(t *testing.T) { testTogether(t, false, nil) }

// Where the topic does not take that many at once, each goes alone, and keeps its value.
func TestBatchThatIsTooLarge(t *testing.T) { testTogether(t, true, nil) }

// However many there are at once, no batch is larger than the topic takes, with the least limit that it is made with. A large one goes alone.
func TestBatchesAreNoLargerThanTheTopicTakes(t *testing.T) {
	testTogether(t, false, func(seq int64) []byte {
		if seq == 50 {
			return bytes.Repeat([]byte{'x'}, 1<<20) // more than the topic takes, but for compression
		}
		value := make([]byte, 5<<10)
		if _, err := rand.Read(value); err != nil {
			panic(err)
		}
		return []byte(hex.EncodeToString(value))
	})
}

// bodies is a ledger with copies whose records have these values.
type bodies struct {
	graves
	of func(laneSeq int64) []byte
}

func (s *bodies) DeadPayload(_ context.Context, d ledger.DeadLetter) ([]byte, ledger.Pointer, error) {
	return record.Pack(&kgo.Record{Key: []byte(d.Entity), Value: s.of(d.LaneSeq)}), ledger.Pointer{}, nil
}

func testTogether(t *testing.T, refused bool, body func(laneSeq int64) []byte) {
	t.Parallel()
	topic := Topic("acme.triage")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	seed := kgo.SeedBrokers(cluster.ListenAddrs()...)
	client, err := kgo.NewClient(seed, kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	limit := "262144"
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, map[string]*string{"max.message.bytes": &limit}, topic); err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	var codecs sync.Map // what batches are compressed with
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		requests.Add(1)
		var batch kmsg.RecordBatch
		if err := batch.ReadFrom(req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records); err != nil {
			t.Error(err)
		} else if codec := batch.Attributes & 7; codec != 0 { // what does not get smaller goes as it is
			codecs.Store(codec, true)
		}
		return nil, nil, false
	})
	if refused {
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.MessageTooLarge, Count: 1})
	}
	ms, err := NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	all := graves{exported: map[int64]bool{}, of: "triage"}
	const n = 200
	for seq := range int64(n) {
		all.dead = append(all.dead, seq)
	}
	var s Ledger = &unread{all}
	if body != nil {
		s = &bodies{all, body}
	}
	x := New(Config{Subscription: "acme.triage", Ledger: s, Client: []kgo.Opt{seed}, MaxRecordBytes: 64 << 20, Metrics: ms})
	t.Cleanup(func() { x.client.Close() })
	if _, err := x.exportGroup(t.Context(), []*ledger.Claim{{ID: 1}}); err != nil {
		t.Fatal(err)
	}
	if len(all.exported) != n || !refused && requests.Load() > n/4 {
		t.Fatalf("%d are exported, in %d requests", len(all.exported), requests.Load())
	}
	codecs.Range(func(codec, _ any) bool {
		if codec != int16(3) {
			t.Errorf("compressed with %d, not with lz4", codec)
		}
		return true
	})
	if _, lz4 := codecs.Load(int16(3)); !lz4 {
		t.Error("nothing is compressed")
	}
	for next := 0; next < n; {
		for _, rec := range client.PollFetches(t.Context()).Records() {
			if want := fmt.Sprint(next); !refused && string(rec.Key) != want {
				t.Fatalf("the key of record %d is %q", next, rec.Key)
			}
			for _, h := range rec.Headers {
				if strings.Contains(string(h.Value), "than the topic takes") {
					t.Fatalf("record %s is without its value: %s", rec.Key, h.Value)
				}
			}
			next++
		}
	}
}

package integration

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// overheard is what brokers have answered to clients.
type overheard struct {
	mu        sync.Mutex
	fetched   map[fetchedAt]int        // bytes of records
	throttled map[string]time.Duration // by client id
}

type fetchedAt struct {
	clientID  string
	topicID   [16]byte
	partition int32
	broker    int
}

// see notes an answer of a broker.
func (o *overheard) see(broker int, clientID string, answer kmsg.Response) {
	o.mu.Lock()
	defer o.mu.Unlock()
	throttle := int32(0)
	switch a := answer.(type) {
	case *kmsg.FetchResponse:
		throttle = a.ThrottleMillis
		for _, t := range a.Topics {
			for _, p := range t.Partitions {
				o.fetched[fetchedAt{clientID, t.TopicID, p.Partition, broker}] += len(p.RecordBatches)
			}
		}
	case *kmsg.ProduceResponse:
		throttle = a.ThrottleMillis
	}
	o.throttled[clientID] += time.Duration(throttle) * time.Millisecond
}

func (o *overheard) bytes(at fetchedAt) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fetched[at]
}

func (o *overheard) delay(clientID string) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.throttled[clientID]
}

// zonesAndQuotas runs the product on brokers that are each in a zone of their own, and reads what these answer.
func zonesAndQuotas(t *testing.T, brokers *rig.KafkaCluster) {
	heard := &overheard{fetched: map[fetchedAt]int{}, throttled: map[string]time.Duration{}}
	k := rig.Tap(t, brokers, heard.see)
	t.Run("records are read in the process's zone", func(t *testing.T) { readsInItsZone(t, k, heard) })
	t.Run("a quota by client id", func(t *testing.T) { keepsToItsQuota(t, k, heard) })
}

// readsInItsZone has a process with a zone read from the broker there what others lead, and one without from the leaders alone. A leader sends
// nobody to a replica that lags behind, as one may on a busy machine: so not every partition has to be read in the zone.
func readsInItsZone(t *testing.T, k *rig.TappedKafka, heard *overheard) {
	r := deploy(t, k, options{replication: 3})
	r.serve("intake")
	const here, entities = 2, 24
	read := func(number int, zoned bool) {
		t.Helper()
		r.deliverAll(entities, number, issues)
		stream := r.serve("stream")
		r.agent.waitActed(t, number*entities, time.Minute)
		stream.stop()
		inZone := 0
		for _, p := range r.led(k, "events."+r.team+".github") {
			for broker := 1; broker <= 3; broker++ {
				n := heard.bytes(fetchedAt{"forebay-stream", p.TopicID, p.Partition, broker})
				switch {
				case n == 0 || broker == int(p.Leader):
				case zoned && broker == here:
					inZone++
				default:
					t.Errorf("number %d: %d bytes of partition %d, which broker %d leads, were read from broker %d", number, n, p.Partition, p.Leader, broker)
				}
			}
		}
		if zoned && inZone == 0 {
			t.Error("nothing that another broker leads was read from the one of this zone")
		}
		heard.mu.Lock()
		clear(heard.fetched)
		heard.mu.Unlock()
	}
	r.edit("session_timeout: 6s", "session_timeout: 6s, rack: zone-2")
	read(1, true)
	r.edit(", rack: zone-2", "")
	read(2, false)
}

// ledPartition is a partition, and the broker that leads it.
type ledPartition struct {
	TopicID           [16]byte
	Partition, Leader int32
}

// led returns the partitions of a topic that have records.
func (r *deployment) led(b rig.Broker, topic string) (list []ledPartition) {
	r.t.Helper()
	adm := admin(r.t, b)
	details, err := adm.ListTopics(r.t.Context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	ends, err := adm.ListEndOffsets(r.t.Context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range details[topic].Partitions.Sorted() {
		if end, ok := ends.Lookup(topic, p.Partition); ok && end.Offset > 0 {
			list = append(list, ledPartition{details[topic].ID, p.Partition, p.Leader})
		}
	}
	return list
}

// keepsToItsQuota gives the intake's client id a quota, and delivers more than it allows: the brokers hold that client up, and no other, and
// each delivery runs once, in order.
func keepsToItsQuota(t *testing.T, k *rig.TappedKafka, heard *overheard) {
	r := deploy(t, k, options{replication: 3})
	r.serve("intake,stream")
	const intake, perSecond = "forebay-intake", 10_000
	id := intake
	entity := kadm.ClientQuotaEntity{{Type: "client-id", Name: &id}}
	alter := func(none bool) {
		t.Helper()
		altered, err := admin(t, k).AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{Entity: entity,
			Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: perSecond, Remove: none}, {Key: "consumer_byte_rate", Value: perSecond, Remove: none}}}})
		if err != nil || altered[0].Err != nil {
			t.Fatal(altered, err)
		}
	}
	alter(false)
	defer alter(true) // others use the brokers next
	// Brokers look at the last ten seconds: what is over ten times the rate has to wait.
	began, sent := time.Now(), 0
	random := make([]byte, 4_000)
	var held time.Duration // by all answers but that to the last delivery, which nothing waits for
	for rev := 1; held < 2*time.Second; rev++ {
		held = heard.delay(intake)
		rand.Read(random)
		d := order("o", rev)
		d.body = fmt.Appendf(nil, `{"type":"com.shop.order.changed","order":{"id":"o","rev":%d},"noise":%q}`, rev, hex.EncodeToString(random))
		if sent += len(d.body); sent > 100*perSecond {
			t.Fatalf("%d bytes in %s, and the client %s is not held up", sent, time.Since(began), intake)
		}
		r.deliver(d)
	}
	took, accepted := time.Since(began), r.sender.acceptedByID()
	r.agent.waitActed(t, len(accepted), time.Minute)
	t.Logf("%d deliveries, %d bytes in %s; the brokers held %s up for %s", len(accepted), sent, took, intake, held)
	if took < held {
		t.Error("the client did not wait")
	}
	if others := heard.delay("forebay-stream"); others > 0 {
		t.Errorf("the client of the stream, which has no quota, was held up for %s", others)
	}
	if n := r.sender.retries.Load(); n > 0 {
		t.Errorf("%d deliveries were not taken at once", n)
	}
	judge(accepted, r.agent.snapshot()).require(t)
}

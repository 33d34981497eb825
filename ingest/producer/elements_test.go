package producer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
)

// refuse has the broker refuse what is produced to one partition, until release is called; the others take theirs.
func refuse(cluster *kfake.Cluster, partition int32) (release func()) {
	gate := make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		select {
		case <-gate:
			return nil, nil, false
		default:
		}
		for _, of := range r.(*kmsg.ProduceRequest).Topics {
			for _, p := range of.Partitions {
				if p.Partition == partition {
					return nil, errors.New("the broker is away"), true // closes the connection
				}
			}
		}
		return nil, nil, false
	})
	return func() { close(gate) }
}

// A delivery of which a part was written is answered 503. Once it is repeated, every element is in the log with its own bytes, in its order
// and under the id it had before, so that dedupe drops what was written twice.
func TestListThatWasHalfWritten(t *testing.T) {
	t.Parallel()
	p, cluster := setupOn(t, 3, nil) // each leads one partition
	for i := range int32(3) {
		if err := cluster.MoveTopicPartition(topic, i, i); err != nil {
			t.Fatal(err)
		}
	}
	in := newIntakeOf(t, p, cluster, time.Second, "/")
	var elements []string
	for i := range 300 {
		elements = append(elements, fmt.Sprintf(`{"id":%d,"type":"t","n":%d}`, i%100, i))
	}
	body := "[" + strings.Join(elements, ",") + "]"
	release := refuse(in.cluster, 1)
	if status, _, answer := in.post(body); status != http.StatusServiceUnavailable {
		t.Fatalf("answered %d %s with a third of the partitions away", status, answer)
	}
	written := in.cluster.PartitionInfo(topic, 0).HighWatermark + in.cluster.PartitionInfo(topic, 2).HighWatermark
	if written == 0 || written == 300 {
		t.Fatalf("%d of 300 were written: not a part", written)
	}
	release()
	in.source.Deadline = time.Minute
	if status, _, answer := in.post(body); status != http.StatusAccepted || answer != `{"id":null,"events":300,"quarantined":0}` {
		t.Fatalf("the repeat: %d %s", status, answer)
	}
	got := map[string]int{}
	last := map[string]int{}
	var all int64
	for partition := range int32(3) {
		all += in.cluster.PartitionInfo(topic, partition).HighWatermark
	}
	for _, r := range read(t, in.cluster, topic, int(all)) {
		got[string(r.Value)]++
		var id, n int
		if _, err := fmt.Sscanf(string(r.Value), `{"id":%d,"type":"t","n":%d}`, &id, &n); err != nil || string(r.Key) != fmt.Sprint(id) {
			t.Fatalf("%s under the key %s", r.Value, r.Key)
		}
		if n < last[string(r.Key)] && n >= 100 {
			t.Errorf("%d comes behind %d in entity %d", n, last[string(r.Key)], id)
		}
		last[string(r.Key)] = n
	}
	for _, e := range elements {
		if got[e] < 1 || got[e] > 2 {
			t.Errorf("%s is there %d times", e, got[e])
		}
	}
}

// What of a list cannot become an event is in quarantine once, however often the list is repeated before its events can be written.
func TestRestOfAListThatWasHalfWritten(t *testing.T) {
	t.Parallel()
	p, cluster := setupOn(t, 3, nil)
	for i := range int32(3) {
		if err := cluster.MoveTopicPartition(topic, i, i); err != nil {
			t.Fatal(err)
		}
	}
	in := newIntakeOf(t, p, cluster, time.Second, "/")
	var elements []string
	for i := range 100 {
		elements = append(elements, fmt.Sprintf(`{"id":%d,"type":"t"}`, i))
	}
	const unusable = 7
	for i := range unusable {
		elements = append(elements, fmt.Sprintf(`{"n":%d}`, i))
	}
	body := "[" + strings.Join(elements, ",") + "]"
	kept := func() (n int64) {
		for partition := range int32(3) {
			if info := in.cluster.PartitionInfo(aside, partition); info != nil {
				n += info.HighWatermark
			}
		}
		return n
	}
	release := refuse(in.cluster, 1)
	for range 3 {
		if status, _, answer := in.post(body); status != http.StatusServiceUnavailable || kept() != 0 {
			t.Fatalf("answered %d %s with a third of the partitions away, %d in quarantine", status, answer, kept())
		}
	}
	release()
	in.source.Deadline = time.Minute
	if status, _, answer := in.post(body); status != http.StatusAccepted || answer != `{"id":null,"events":100,"quarantined":7}` || kept() != unusable {
		t.Errorf("the repeat: %d %s, %d in quarantine", status, answer, kept())
	}
}

// Lists of hundreds of events take their time by the round trips to the brokers, not by their number.
func TestListsAreWrittenTogether(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	events := make([]*schemas.Event, 1000)
	for i := range events {
		events[i] = event(fmt.Sprint(i))
	}
	requests := 0
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		requests++
		return nil, nil, false
	})
	if err := p.AppendAll(t.Context(), never, topic, events, aside, nil); err != nil {
		t.Fatal(err)
	}
	read(t, cluster, topic, 1000)
	if requests > 100 {
		t.Errorf("%d requests for 1000 events", requests)
	}
}

package subscriber

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What a member has read and not decided is bounded by bytes: its part of QueueBytes, and what one fetch brings. The client fetches the partition
// again once half of that is left.
func TestQueueIsPausedByBytes(t *testing.T) {
	t.Parallel()
	const size = 64 << 10
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	m := &session{Config: Config{Batch: 1, QueueBytes: 2 * 4 * (size + 1000)}, client: client, workers: map[place]*worker{}} // four of them for each partition
	for partition := range int32(2) {
		at := place{"t", partition}
		m.workers[at] = newWorker(m, at)
	}
	w := m.workers[place{"t", 0}]
	var seen []bool
	look := func() {
		paused := client.PauseFetchPartitions(nil)["t"]
		if slices.Contains(paused, 1) {
			t.Fatal("its neighbour is paused")
		}
		seen = append(seen, slices.Contains(paused, 0))
	}
	for range 5 {
		w.add([]*kgo.Record{{Value: make([]byte, size)}})
		look()
	}
	for range 4 {
		if n := len(w.take()); n != 1 {
			t.Fatalf("%d records in a batch of one", n)
		}
		look()
	}
	if want := []bool{false, false, false, false, true, true, true, true, false}; !slices.Equal(seen, want) {
		t.Errorf("paused %v, want %v", seen, want)
	}
}

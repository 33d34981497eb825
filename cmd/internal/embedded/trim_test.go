package embedded

import (
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestTrimKeepsTheEnd: retention on a partition whose records are all old leaves the newest, so that a restart does not
// begin the partition at offset 0 again.
func TestTrimKeepsTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startBroker(t, BrokerConfig{Dir: dir, Retention: time.Hour})
	c := brokerClient(t, b)
	day := strconv.FormatInt((24 * time.Hour).Milliseconds(), 10)
	forever := "-1"
	createTopic(t, c, "hour", nil)
	createTopic(t, c, "day", map[string]*string{"retention.ms": &day})
	createTopic(t, c, "ever", map[string]*string{"retention.ms": &forever})
	createTopic(t, c, "empty", nil)
	now := time.Now()
	for _, topic := range []string{"hour", "day", "ever"} {
		for _, age := range []time.Duration{72 * time.Hour, 30 * time.Hour, 2 * time.Hour, 2 * time.Hour} {
			r := &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: now.Add(-age)}
			if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := trim(t.Context(), b.Addr(), time.Hour, now); err != nil {
		t.Fatal(err)
	}
	c.Close()
	b.Close()

	c = brokerClient(t, startBroker(t, BrokerConfig{Dir: dir}))
	for topic, want := range map[string][2]int64{"hour": {3, 4}, "day": {2, 4}, "ever": {0, 4}, "empty": {0, 0}} {
		starts, err := kadm.NewClient(c).ListStartOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		ends, err := kadm.NewClient(c).ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		start, _ := starts.Lookup(topic, 0)
		end, _ := ends.Lookup(topic, 0)
		if got := [2]int64{start.Offset, end.Offset}; got != want {
			t.Errorf("%s: [%d, %d) after retention and restart, want %v", topic, got[0], got[1], want)
		}
	}
}

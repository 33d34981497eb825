package producer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas/record"
)

// TestReadSince: what was appended since a time is read to its end; a topic that may have deleted some of it is told from one that has deleted
// what is older.
func TestReadSince(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	opts := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}
	client, err := kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	adm, now := kadm.NewClient(client), time.Now()
	hours := func(n int) *string { return new(fmt.Sprint(n * 3_600_000)) }
	for topic, configs := range map[string]map[string]*string{"long": {"retention.ms": hours(48), "retention.bytes": new("-1")}, "short": {"retention.ms": hours(2), "retention.bytes": new("-1")},
		"small": {"retention.ms": hours(48), "retention.bytes": new("1000")}} {
		if _, err := adm.CreateTopic(t.Context(), 2, 1, configs, topic); err != nil {
			t.Fatal(err)
		}
		for i, ago := range []time.Duration{30 * time.Hour, 20 * time.Hour, time.Hour, time.Minute} {
			if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: []byte(ago.String()), Timestamp: now.Add(-ago)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(topic string, wants bool) []string {
		t.Helper()
		var got []string
		whole, err := ReadSince(t.Context(), topic, now.Add(-24*time.Hour), func(r *kgo.Record) { got = append(got, string(r.Value)) }, opts...)
		if err != nil || whole != wants {
			t.Errorf("%s: whole is %t, %v", topic, whole, err)
		}
		slices.Sort(got)
		return got
	}
	want := []string{"1h0m0s", "1m0s", "20h0m0s"}
	for _, topic := range []string{"long", "short", "small"} {
		if got := read(topic, true); !slices.Equal(got, want) {
			t.Errorf("%s: %q", topic, got)
		}
		if _, err := adm.DeleteRecords(t.Context(), kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: 1}}}); err != nil {
			t.Fatal(err)
		}
		if got := read(topic, topic == "long"); !slices.Equal(got, want) {
			t.Errorf("%s: %q", topic, got)
		}
	}
	for _, request := range []kmsg.Key{kmsg.ListOffsets, kmsg.Fetch} {
		fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{request}, Topic: "long", Err: kerr.TopicAuthorizationFailed, Count: -1})
		_, err := ReadSince(t.Context(), "long", now.Add(-24*time.Hour), func(*kgo.Record) {}, opts...)
		fault.Remove()
		if right, ok := errors.AsType[*record.Right](err); !ok || right.Operation != "Read" || right.Resource != "topic long" {
			t.Errorf("%s is refused: %v", kmsg.NameForKey(int16(request)), err)
		}
	}
}

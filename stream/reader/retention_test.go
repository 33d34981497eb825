package reader

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger"
)

// The broker's word counts, and how often a claim is swept follows from it.
func TestRetentionOfATopic(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	b := NewLog(r.Client)
	for name, c := range map[string]struct {
		ms, bytes string
		want      retention
		every     time.Duration
	}{
		"a week":       {"604800000", "-1", retention{keep: 7 * 24 * time.Hour}, time.Hour},
		"eight hours":  {"28800000", "-1", retention{keep: 8 * time.Hour}, time.Hour},
		"an hour":      {"3600000", "-1", retention{keep: time.Hour}, 450 * time.Second},
		"seconds":      {"4000", "-1", retention{keep: 4 * time.Second}, time.Second},
		"nothing":      {"0", "-1", retention{}, time.Second},
		"for ever":     {"-1", "-1", retention{keep: -1}, time.Hour},
		"beyond count": {"9223372036854775807", "-1", retention{keep: -1}, time.Hour},
		"by size":      {"-1", "1000000", retention{keep: -1, sized: true}, time.Minute},
		"both, a week": {"604800000", "1000000", retention{keep: 7 * 24 * time.Hour, sized: true}, time.Minute},
		"both":         {"80000", "1000000", retention{keep: 80 * time.Second, sized: true}, 10 * time.Second},
	} {
		r.SetTopic("retention.ms", c.ms)
		r.SetTopic("retention.bytes", c.bytes)
		got, err := b.retention(r.Ctx(), testTopic)
		if err != nil || got != c.want || got.interval() != c.every {
			t.Errorf("%s: %+v, every %s, %v", name, got, got.interval(), err)
		}
		keeps, err := b.Keeps(r.Ctx(), testTopic, 8*time.Hour)
		if want := strings.Contains("a week, for ever, beyond count", name); keeps != want || err != nil {
			t.Errorf("%s: keeps eight hours: %t %v", name, keeps, err)
		}
	}
	if _, err := b.retention(r.Ctx(), "no-such-topic"); err == nil {
		t.Error("a topic that is not there has a retention")
	}
	r.RefuseDescribe()
	if _, err := b.retention(r.Ctx(), testTopic); err == nil {
		t.Error("a refusal is taken for an answer")
	}
}

// Half of the time, half of the size, and from where the log starts.
func TestEndangeredStretch(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	now := time.Now()
	for i := range 10 {
		rec := record.Encode(testTopic, event(i))
		rec.Timestamp = now.Add(time.Duration(i-10) * time.Minute) // ten to one minutes ago
		r.Send(rec)
	}
	if err := r.Cluster.DeleteRecords(testTopic, 0, 2); err != nil {
		t.Fatal(err)
	}
	b := NewLog(r.Client)
	for name, c := range map[string]struct {
		r             retention
		number        int32
		start, before int64
	}{
		"eight minutes":  {retention{keep: 8 * time.Minute}, 0, 2, 6},
		"a second":       {retention{keep: time.Second}, 0, 2, 10},
		"a day":          {retention{keep: 24 * time.Hour}, 0, 2, 2},
		"by size":        {retention{keep: -1, sized: true}, 0, 2, 6},
		"both":           {retention{keep: 2 * time.Minute, sized: true}, 0, 2, 9},
		"for ever":       {retention{keep: -1}, 0, 2, 0},
		"an empty one":   {retention{keep: time.Minute, sized: true}, 1, 0, 0},
		"older than all": {retention{keep: 200 * 365 * 24 * time.Hour}, 0, 2, 2},
	} {
		start, before, err := b.endangered(r.Ctx(), TopicPartition{testTopic, c.number}, c.r, now)
		if err != nil || start != c.start || before != c.before {
			t.Errorf("%s: [%d, %d) %v, want [%d, %d)", name, start, before, err, c.start, c.before)
		}
	}
	if _, _, err := b.endangered(r.Ctx(), TopicPartition{testTopic, 7}, retention{keep: time.Hour}, now); err == nil {
		t.Error("a partition that is not there has a stretch")
	}
}

// Apache Kafka refuses a fetch below its log's start without saying where that is: it is asked, so that what is gone is
// known at once. Beyond the end nothing is certain as fast.
func TestPayloadBelowASilentStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0, 1, 2)
	if err := r.Cluster.DeleteRecords(testTopic, 0, 2); err != nil {
		t.Fatal(err)
	}
	r.Cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		asked := req.(*kmsg.FetchRequest).Topics[0]
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
		p := kmsg.NewFetchResponseTopicPartition()
		p.ErrorCode, p.HighWatermark, p.LogStartOffset = kerr.OffsetOutOfRange.Code, -1, -1
		topic.Partitions = append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	l := r.payloads(func(c *PayloadsConfig) { c.LostAfter = time.Hour })
	_, err := l.Load(r.Ctx(), r.Pointer(0, 0))
	streamtest.IsLost(t, err, "the log starts at 2")
	quick := r.payloads()
	_, err = quick.Load(r.Ctx(), ledger.Pointer{Topic: testTopic, TopicID: r.TopicID(), Offset: 9})
	streamtest.IsLost(t, err, "the log does not reach it")
}

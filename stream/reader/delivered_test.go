package reader

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// TestFind looks for deliveries in a log of three hours: each is found in one go, or in as many answers as it takes, and none is missed
// where a stretch ends.
func TestFind(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	now := time.Now().Truncate(time.Millisecond)
	const n = 180
	keys := make([]schemas.EventKey, n)
	var records []*kgo.Record
	for i := range n { // the oldest first, a minute apart; every tenth event is delivered twice, under two ids
		e := *event(i)
		e.ID = fmt.Sprint("event-", i-i%10/9)
		e.DeliveryID = fmt.Sprint("guid-", i)
		keys[i] = e.Key()
		rec := record.Encode(testTopic, &e)
		rec.Timestamp = now.Add(time.Duration(i-n) * time.Minute)
		records = append(records, rec)
	}
	cl, err := kgo.NewClient(r.Seed(), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, rec := range records {
		if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	forever := func() bool { return true }
	for i := 0; i < n; i += 29 {
		q := Delivered{Topics: []string{testTopic, "events.acme.absent"}, ID: fmt.Sprint("guid-", i), Before: now.Add(time.Minute)}
		for _, most := range []int64{0, 20, 1} { // stretches of as many records
			if q.Most = most; most == 1 && i < n-20 {
				continue // it would take a stretch for each
			}
			s, err := Find(t.Context(), q, forever, r.Seed())
			if err != nil || !slices.Equal(keysOf(s.Found), keys[i:i+1]) {
				t.Fatalf("%s: %v %v", q.ID, s.Found, err)
			}
			f := s.Found[0]
			if f.Topic != testTopic || f.Event.DeliveryID != q.ID || !f.At.Equal(records[i].Timestamp) || f.Partition != records[i].Partition || f.Offset != records[i].Offset {
				t.Errorf("%s: found %+v", q.ID, f)
			}
		}
	}
	// One stretch of a minute in each answer: what an answer says is searched, the next need not search again.
	q := Delivered{Topics: []string{testTopic}, ID: "guid-174", Before: now.Add(time.Minute)}
	var s Search
	for answers := 0; s.Found == nil && answers < 20; answers++ {
		asked := 0
		once := func() bool { asked++; return asked == 1 }
		if s, err = Find(t.Context(), q, once, r.Seed()); err != nil {
			t.Fatal(err)
		}
		q.Before, q.Width = s.From, s.Width
	}
	if !slices.Equal(keysOf(s.Found), keys[174:175]) {
		t.Errorf("in many answers: %v", s.Found)
	}
	q = Delivered{Topics: []string{testTopic}, ID: "guid-0", From: now.Add(-time.Hour), Before: now.Add(time.Minute)}
	if s, err := Find(t.Context(), q, forever, r.Seed()); err != nil || s.Found != nil || !s.From.Equal(q.From) {
		t.Errorf("older than asked for: %+v, %v", s, err)
	}
	q.ID, q.From = "nobody", time.Time{}
	if s, err := Find(t.Context(), q, forever, r.Seed()); err != nil || s.Found != nil || !s.From.IsZero() {
		t.Errorf("nobody: %+v, %v", s, err)
	}
	// What takes too long is tried in ever shorter stretches, and at last said with a way out; never a bare timeout.
	q.Within = time.Nanosecond
	s, err = Find(t.Context(), q, forever, r.Seed())
	if schemas.KindOf(err) != schemas.Unavailable || !strings.Contains(err.Error(), "--since") || s.Width != leastWidth {
		t.Errorf("too slow: %+v, %v", s, err)
	}
	asked := 0
	q.Width = time.Hour
	if s, err := Find(t.Context(), q, func() bool { asked++; return asked == 1 }, r.Seed()); err != nil || s.Width != 15*time.Minute || !s.From.Equal(q.Before) {
		t.Errorf("too slow, and asked to end: %+v, %v", s, err)
	}
}

func keysOf(list []Found) (keys []schemas.EventKey) {
	for _, f := range list {
		keys = append(keys, f.Key)
	}
	return keys
}

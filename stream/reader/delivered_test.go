package reader

import (
	"fmt"
	"slices"
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
	for i := 0; i < n; i += 7 {
		q := Delivered{Topics: []string{testTopic, "events.acme.absent"}, ID: fmt.Sprint("guid-", i), Before: now.Add(time.Minute)}
		found, _, err := Find(t.Context(), q, forever, r.Seed())
		if err != nil || !slices.Equal(found, keys[i:i+1]) {
			t.Fatalf("%s: %v %v", q.ID, found, err)
		}
	}
	// One stretch of a minute in each answer: what an answer says is searched, the next need not search again.
	q := Delivered{Topics: []string{testTopic}, ID: "guid-174", Before: now.Add(time.Minute)}
	var found []schemas.EventKey
	for answers := 0; found == nil && answers < 20; answers++ {
		asked := 0
		once := func() bool { asked++; return asked == 1 }
		if found, q.Before, err = Find(t.Context(), q, once, r.Seed()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(found, keys[174:175]) {
		t.Errorf("in many answers: %v", found)
	}
	q = Delivered{Topics: []string{testTopic}, ID: "guid-0", From: now.Add(-time.Hour), Before: now.Add(time.Minute)}
	if found, searched, err := Find(t.Context(), q, forever, r.Seed()); err != nil || found != nil || !searched.Equal(q.From) {
		t.Errorf("older than asked for: %v, searched from %s, %v", found, searched, err)
	}
	q.ID, q.From = "nobody", time.Time{}
	if found, searched, err := Find(t.Context(), q, forever, r.Seed()); err != nil || found != nil || !searched.IsZero() {
		t.Errorf("nobody: %v, searched from %s, %v", found, searched, err)
	}
}

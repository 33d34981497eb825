package producer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
)

// TestStuckTopicsLeaveRoom: topics that take nothing fill half of the room, and one record more each, with what their records really hold; the
// others go on. What the stuck ones have is there again when they take records.
func TestStuckTopicsLeaveRoom(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			const most = 1 << 20
			p, cluster := setup(t, func(c *Config) { c.MaxBody, c.MaxBuffered = 64<<10, most })
			var topics []string
			var faults []*kfake.FaultHandle
			for i := range n {
				name := fmt.Sprintf("events.acme.stuck%d", i)
				if err := cluster.CreateTopic(name, 1, nil); err != nil {
					t.Fatal(err)
				}
				topics = append(topics, name)
				faults = append(faults, cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: name, Err: kerr.NotLeaderForPartition, Count: -1}))
			}
			held := 0
			for _, name := range topics {
				held += fill(t, p, name, most)
			}
			if taken := p.room.taken.Load(); held < most/2/(8<<10) || taken > most*3/4 {
				t.Errorf("%d records of %d stuck topics hold %d bytes of %d, want half of them, and not three quarters", held, n, taken, most)
			}
			for i := range 3*held + 1 {
				body := make([]byte, 1+64<<10*(i%16/15))
				if err := p.Quarantine(t.Context(), never, aside, &ingest.Delivery{Team: "acme", Source: "orders", Kind: "unusable", Body: body}); err != nil {
					t.Fatalf("another topic, record %d: %v", i, err)
				}
			}
			for _, fault := range faults {
				fault.Remove()
			}
			if err := p.client.Load().Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if taken := p.room.taken.Load(); taken != 0 {
				t.Errorf("%d bytes are taken with nothing waiting", taken)
			}
			for _, name := range topics {
				has, _ := p.room.topics.Load(name)
				if late := has.(*topicBytes).late.Load(); late != 0 {
					t.Errorf("%d bytes of %s are late with nothing waiting", late, name)
				}
				if err := p.Append(t.Context(), never, name, event("later")); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// fill gives the producer records of a topic, whose callers soon give up, until it has no room for more, and returns how many it took.
func fill(t *testing.T, p *Producer, name string, most int) int {
	t.Helper()
	for held := 0; ; held++ {
		e := event(fmt.Sprint(held))
		e.Data = append(make([]byte, 0, 4<<10), e.Data...) // as it lies in the memory of a delivery
		err := p.Append(t.Context(), time.Now().Add(time.Millisecond), name, e)
		if schemas.KindOf(err) == schemas.Throttled {
			return held
		}
		if schemas.KindOf(err) != schemas.Unavailable {
			t.Fatal(err)
		}
		if held > most/(4<<10) {
			t.Fatalf("%d records of 4 KiB wait within %d bytes", held, most)
		}
	}
}

// TestFloodLeavesRoom: what comes for topics before anybody can know that they stand still leaves some room, too: a quarter of it with ten of
// them, and never nothing; also where a record takes much of it.
func TestFloodLeavesRoom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		topics      int
		each, leave int64
	}{{3, 256, 1 << 18}, {10, 256, 1 << 18}, {300, 256, 1}, {300, 1 << 18, 1}} {
		for _, how := range []string{"at once", "one after the other"} {
			r := room{most: 1 << 20}
			take := func(i int) bool { return r.take(fmt.Sprint(i), tt.each) != nil }
			for i := 0; how == "one after the other" && i < tt.topics; i++ {
				for take(i) {
				}
			}
			for more := true; more; {
				more = false
				for i := range tt.topics {
					more = take(i) || more
				}
			}
			if left := r.most - r.taken.Load(); left < tt.leave || r.take("another", left/2) == nil {
				t.Errorf("%d topics with records of %d, %s, leave %d bytes of %d, want %d", tt.topics, tt.each, how, left, r.most, tt.leave)
			}
		}
	}
	if r := (room{most: 100}); r.take(topic, 90) == nil {
		t.Error("no room for one record, which fits")
	}
}

// TestBytesGetLate: a record's bytes are late after lateAfter, or once its caller has given up, until it has ended; also if it has ended before
// that is noticed.
func TestBytesGetLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Producer{}
		p.room.most = 1 << 20
		begin := func(ctx context.Context) (*call, chan error) {
			c, ended := p.newCall(), make(chan error, 1)
			c.weight = 10
			c.topicBytes = p.room.take(topic, c.weight)
			go func() {
				err, gaveUp := c.wait(ctx, never)
				ended <- errors.Join(err, gaveUp)
			}()
			return c, ended
		}
		late := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			has, _ := p.room.topics.Load(topic)
			if got := has.(*topicBytes).late.Load(); got != want {
				t.Errorf("%s: %d bytes are late, want %d", when, got, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		patient, answer := begin(t.Context())
		hasty, gone := begin(ctx)
		late("at first", 0)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		late("one has given up", 10)
		<-time.After(lateAfter)
		late("after a second", 20)
		patient.promise(nil, nil)
		if err := <-answer; err != nil {
			t.Error(err)
		}
		late("one is acknowledged", 10)
		hasty.promise(nil, nil)
		hasty.late() // as from a caller who gives up at that moment
		late("both are acknowledged", 0)
		if taken := p.room.taken.Load(); taken != 0 {
			t.Errorf("%d bytes are taken", taken)
		}
	})
}

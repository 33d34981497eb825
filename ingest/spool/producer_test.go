package spool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// network is what lies between the producer and its broker.
type network struct {
	mu    sync.Mutex
	away  bool
	conns []net.Conn
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	c, err := new(net.Dialer).DialContext(ctx, kind, address)
	if err == nil {
		n.conns = append(n.conns, c)
	}
	return c, err
}

func (n *network) set(away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away = away; away {
		for _, c := range n.conns {
			c.Close()
		}
		n.conns = nil
	}
}

// With the producer, whose client gives up what it could not send for a second, and a broker that comes and goes, the topic has all that was
// accepted, each entity's in the order in which it was sent.
func TestOrderInTheTopic(t *testing.T) {
	t.Parallel()
	const topic, entities, lasts = "events.acme.orders", 12, 8 * time.Second
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	var between network
	p, err := producer.New(producer.Config{Brokers: cluster.ListenAddrs(), GiveUp: time.Second, Options: []kgo.Opt{kgo.Dialer(between.dial)}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Dir: t.TempDir(), Log: p, Producer: p, Spools: func(string, string) bool { return true }, Topic: func(string, string) (string, bool) { return topic, true }, QuarantineTopic: func(string, string) string { return "q" }})
	if err == nil {
		err = s.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running, senders sync.WaitGroup
	running.Go(func() { s.Run(ctx) })

	var mu sync.Mutex
	accepted, spooled := map[string]bool{}, 0
	end := time.Now().Add(lasts)
	for i := range entities {
		entity := fmt.Sprint(i)
		random := rand.New(rand.NewPCG(uint64(i), 0))
		senders.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				e := &schemas.Event{ID: fmt.Sprintf("%s-%06d", entity, n), Source: "/acme/orders", Type: "t", Entity: schemas.EntityKey(entity), Time: time.Now(), RecordedTime: time.Now(),
					Payload: schemas.Delta, Version: schemas.Version{Kind: schemas.None}, Data: []byte("{}")}
				err := s.Append(context.Background(), time.Now().Add(600*time.Millisecond), topic, e)
				mu.Lock()
				if err == nil || errors.Is(err, ingest.ErrSpooled) {
					accepted[e.ID] = true
				}
				if errors.Is(err, ingest.ErrSpooled) {
					spooled++
				}
				mu.Unlock()
				<-time.After(time.Duration(20+random.IntN(60)) * time.Millisecond)
			}
		})
	}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for time.Now().Before(end) {
		<-time.After(time.Duration(300+random.IntN(2000)) * time.Millisecond)
		between.set(true)
		<-time.After(time.Duration(700+random.IntN(2000)) * time.Millisecond)
		between.set(false)
	}
	senders.Wait()
	reader, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	reading, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	first, missing := map[string][]string{}, len(accepted)
	for missing > 0 && reading.Err() == nil {
		reader.PollFetches(reading).EachRecord(func(r *kgo.Record) {
			id := record.EventID(r)
			if entity := string(r.Key); !slices.Contains(first[entity], id) {
				first[entity] = append(first[entity], id)
				if accepted[id] {
					missing--
				}
			}
		})
	}
	t.Logf("%d accepted, %d of them by the disk", len(accepted), spooled)
	if missing > 0 || spooled == 0 {
		t.Errorf("%d of %d that were accepted are not in the topic; %d went to the disk", missing, len(accepted), spooled)
	}
	for entity, ids := range first {
		ids = slices.DeleteFunc(ids, func(id string) bool { return !accepted[id] })
		if !slices.IsSorted(ids) {
			t.Errorf("entity %s: %q", entity, ids)
		}
	}
	cancel()
	running.Wait()
	s.Close()
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

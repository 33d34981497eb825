package subscriber_test

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/subscriber"
)

// A team keeps the newest state of its orders in a table.
func Example() { // TestExample runs it: it needs servers, and ends with Ctrl-C
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	for _, sql := range []string{subscriber.SQL, `CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, state jsonb NOT NULL, events int NOT NULL)`} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			panic(err)
		}
	}

	s, err := subscriber.New(subscriber.Config{
		Pool:   pool,
		Kafka:  []kgo.Opt{kgo.SeedBrokers(os.Getenv("KAFKA_BROKERS"))},
		Group:  "acme.order-table",
		Topics: []string{"events.acme.orders"},
		Begin:  subscriber.BeginAll,
		Handler: func(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
			_, err := tx.Exec(ctx, `INSERT INTO orders (id, state, events) VALUES ($1, $2, 1)
				ON CONFLICT (id) DO UPDATE SET state = $2, events = orders.events + 1`, e.Entity, e.Data)
			return err
		},
	})
	if err != nil {
		panic(err)
	}
	if err := s.Run(ctx); err != nil {
		panic(err)
	}
}

// TestExample runs it as its user would, and ends it with Ctrl-C.
func TestExample(t *testing.T) {
	f := setup(t, 3)
	t.Setenv("DATABASE_URL", f.url)
	t.Setenv("KAFKA_BROKERS", f.Cluster.ListenAddrs()[0])
	f.send(revision("A-17", 1), revision("A-17", 2), revision("A-17", 1), revision("B-4", 1), revision("A-17", 3), revision("A-17", 2))
	ended := make(chan struct{})
	go func() { defer close(ended); Example() }()
	f.waitFor("6", `SELECT coalesce(sum(next_offset), 0)::text FROM forebay_positions`)
	f.waitFor("A-17 3 {\"n\": 3}\nB-4 1 {\"n\": 1}", `SELECT concat_ws(' ', id, events, state) FROM orders ORDER BY id`)
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-f.Ctx().Done():
		t.Error("it goes on after Ctrl-C")
	}
}

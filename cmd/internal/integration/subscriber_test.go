package integration

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/subscriber"
)

// subscriberEnv is the environment variable with the topic of a child process that is a team's own consumer, and nothing else.
const subscriberEnv = "FOREBAY_TEST_SUBSCRIBER"

// init is what the child process runs: like the rig's broker, it needs a process that can be killed, and this is the only program at hand.
func init() {
	topic := os.Getenv(subscriberEnv)
	if topic == "" {
		return
	}
	if err := project(topic); err != nil {
		fmt.Fprintln(os.Stderr, "subscriber:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// project keeps a table of what ran, until its stdin ends.
func project(topic string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		stop()
	}()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE"))
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := subscriber.New(subscriber.Config{
		Pool: pool, Group: os.Getenv("GROUP"), Topics: []string{topic}, Begin: subscriber.BeginAll, Batch: 5,
		Kafka:  []kgo.Opt{kgo.SeedBrokers(strings.Split(os.Getenv("BROKERS"), ",")...), kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond)},
		Policy: gate.Policy{Start: gate.StartFirst, GapWait: 2 * time.Second},
		Handler: func(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
			// So slow that a kill comes into the middle of a transaction.
			_, err := tx.Exec(ctx, `INSERT INTO ran (id, entity, decision, reason, body) SELECT $1, $2, $3, $4, $5 FROM pg_sleep(0.01)`,
				e.ID, e.Entity, e.Decision, e.Reason, e.Data)
			return err
		},
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return s.Run(ctx)
}

// TestOwnSubscriber has a team's own consumer, in processes of which one is killed, one ends and one comes, read what the intake has
// acknowledged: twice, out of order and with a hole. Its table has each event once and in order; the state that comes after the hole is stale.
func TestOwnSubscriber(t *testing.T) {
	t.Parallel()
	k := rig.SharedKafka(t)
	r := deploy(t, k, options{})
	r.serve("intake")
	const orders, revisions = 30, 8
	all := slices.Concat(lines(orders, revisions, func(e, n int) delivery { return order(orderName(e), n) })...)
	all = append(all, all[:len(all)/3]...)
	all = append(all, order("hole", 1), order("hole", 3))
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	r.deliver(all...)

	database := rig.Database(t)
	pool, err := pgxpool.New(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, sql := range []string{subscriber.SQL,
		`CREATE TABLE ran (n bigint GENERATED ALWAYS AS IDENTITY, id text, entity text, decision text, reason text, body bytea)`} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	member := func() *rig.Child {
		c, err := rig.StartChild(t.Context(), []string{subscriberEnv + "=events." + r.team + ".orders", "GROUP=" + r.team + ".projection",
			"DATABASE=" + database, "BROKERS=" + k.Bootstrap()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Kill)
		return c
	}
	waitRows := func(n int) {
		t.Helper()
		var got int
		if !rig.Until(time.Minute, func() bool {
			return pool.QueryRow(t.Context(), `SELECT count(*) FROM ran`).Scan(&got) == nil && got >= n
		}) {
			t.Fatalf("%d events ran, want %d", got, n)
		}
	}
	first, second := member(), member()
	waitRows(30)
	first.Kill()
	waitRows(60)
	member()
	waitRows(120)
	second.Stop()
	waitRows(orders*revisions + 2)
	r.deliver(order("hole", 2))
	if !rig.Until(time.Minute, func() bool {
		var n int
		return pool.QueryRow(t.Context(), `SELECT count(*) FROM forebay_events WHERE decision = 'stale' AND reason = 'filler'`).Scan(&n) == nil && n == 1
	}) {
		t.Fatal("the state for the hole, which came after the wait for it, is not stale")
	}

	// Every event is there once, with the body that the provider sent, and an entity's in the order of its revisions.
	type row struct{ ID, Entity, Decision, Reason, Body string }
	rows, err := pool.Query(t.Context(), `SELECT id, entity, decision, reason, convert_from(body, 'UTF8') FROM ran ORDER BY entity, n`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	var want []row
	for _, d := range r.sender.accepted {
		want = append(want, row{d.id, d.entity, "applied", "", string(d.body)})
	}
	slices.SortFunc(want, func(a, b row) int { return cmp.Or(strings.Compare(a.Entity, b.Entity), strings.Compare(a.ID, b.ID)) })
	hole := slices.IndexFunc(want, func(w row) bool { return w.ID == "hole-2" })
	want = slices.Delete(want, hole, hole+1)
	reasons := map[string]string{}
	for i := range got {
		reasons[got[i].ID], got[i].Reason = got[i].Reason, ""
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if reasons["hole-3"] != "gap_skipped" {
		t.Errorf("at the hole: %s", reasons["hole-3"])
	}
}

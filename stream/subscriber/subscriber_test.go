package subscriber_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
	"github.com/forebay-io/forebay/stream/subscriber"
)

// load is orders with their revisions, each sent twice, all shuffled.
func load(orders, revisions int) (sent []*schemas.Event, want string) {
	var lines []string
	for o := range orders {
		for rev := range revisions {
			e := revision(fmt.Sprintf("A-%02d", o), int64(rev+1))
			sent, lines = append(sent, e, e), append(lines, e.ID)
		}
	}
	rng := rand.New(rand.NewPCG(7, 7))
	rng.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
	return sent, strings.Join(lines, "\n")
}

// inOrder is what ran by entity, in the order in which it ran.
const inOrder = `SELECT id FROM ran ORDER BY entity, n`

// Whatever is delivered twice and out of order is in the team's table once, and in order.
func TestOnceAndInOrder(t *testing.T) {
	t.Parallel()
	f := setup(t, 4)
	sent, want := load(20, 10)
	f.send(sent...)
	m := f.start(t)
	f.waitRead()
	if diff := cmp.Diff(want, f.query(inOrder)); diff != "" {
		t.Error(diff)
	}
	if err := m.stop(); err != nil {
		t.Error(err)
	}
	if got := f.query(`SELECT count(*)::text FROM forebay_events WHERE record IS NOT NULL`); got != "0" {
		t.Errorf("%s events still wait", got)
	}
	committed, err := f.Adm.FetchOffsets(f.Ctx(), "acme.projection")
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, o := range committed.Offsets()[streamtest.Topic] {
		sum += o.At
	}
	if sum != int64(len(sent)) {
		t.Errorf("Kafka's own commits add up to %d of %d records", sum, len(sent))
	}
}

// A connection breaks at a COMMIT that the server has carried out or has not, and at any statement: every event is there once.
func TestConnectionsBreak(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]pgtest.Cut{
		"before the commit": {Commit: true, Before: true, Skip: 3},
		"after the commit":  {Commit: true, Skip: 3},
		"in the handler":    {Needle: []byte("A-05-3")},
		"at some statement": {Skip: 40},
		"at another":        {Skip: 41, Before: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 2)
			proxy, pool := f.through(t)
			proxy.Cut.Store(&cut)
			sent, want := load(10, 5)
			f.send(sent...)
			f.start(t, func(c *subscriber.Config) { c.Pool, c.Batch = pool, 7 })
			f.waitRead()
			if diff := cmp.Diff(want, f.query(inOrder)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Two members share the partitions, a third comes, the first goes: what is in the team's table is there once and in order.
func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	f := setup(t, 6)
	sent, want := load(12, 10)
	third := len(sent) / 3
	f.send(sent[:third]...)
	slow := func(c *subscriber.Config) { c.Batch = 5 }
	first := f.start(t, slow)
	f.start(t, slow)
	f.waitFor("6", `SELECT count(*)::text FROM forebay_positions`)
	f.send(sent[third : 2*third]...)
	f.start(t, slow)
	f.waitFor("true", `SELECT (count(*) > 20)::text FROM ran`)
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	f.send(sent[2*third:]...)
	f.waitRead()
	if diff := cmp.Diff(want, f.query(inOrder)); diff != "" {
		t.Error(diff)
	}
}

// polled is how far a client has handed out each partition. What is read again, as after a rebalance, counts once.
type polled struct {
	mu sync.Mutex
	of map[int32]int
}

func (p *polled) OnFetchRecordUnbuffered(r *kgo.Record, polled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if polled {
		p.of[r.Partition] = max(p.of[r.Partition], int(r.Offset)+1)
	}
}

// least is the least number over a topic's partitions.
func (p *polled) least(partitions int32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := p.of[0]
	for partition := range partitions {
		least = min(least, p.of[partition])
	}
	return least
}

// A partition of which a member has read too much, so that it fetches no more, goes to another member and comes back. It is read on.
func TestPausedPartitionComesBack(t *testing.T) {
	t.Parallel()
	f := setup(t, 2)
	for partition := range int32(2) {
		for rev := range int64(30) {
			f.send(revision(string(streamtest.EntityIn(partition, 2)), rev+1))
		}
	}
	var works atomic.Bool
	stuck := func(c *subscriber.Config) {
		c.Batch = 1
		c.Handler = func(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
			if !works.Load() {
				return errors.New("not yet")
			}
			return insert(ctx, tx, e)
		}
	}
	read := &polled{of: map[int32]int{}}
	f.start(t, stuck, func(c *subscriber.Config) { c.Kafka = append(c.Kafka, kgo.WithHooks(read)) })
	if !streamtest.Until(func() bool { return read.least(2) > 10 }) { // more than ten batches: both are paused before either can go
		t.Fatalf("it has read only %v", read.of)
	}
	other := f.start(t, stuck)
	f.waitFor("3", `SELECT sum(epoch)::text FROM forebay_positions`)
	if err := other.stop(); err != nil {
		t.Error(err)
	}
	f.waitFor("4", `SELECT sum(epoch)::text FROM forebay_positions`)
	works.Store(true)
	f.waitRead()
}

// A partition that stands still behind more bytes than may be read ahead holds up no other, and is read on once it goes.
func TestFullQueueHoldsUpNobody(t *testing.T) {
	t.Parallel()
	const events, size = 30, 64 << 10
	f := setup(t, 2)
	large, small := string(streamtest.EntityIn(0, 2)), string(streamtest.EntityIn(1, 2))
	for rev := range int64(events) {
		e := revision(large, rev+1)
		e.Data = make([]byte, size)
		f.send(e)
	}
	var works atomic.Bool
	f.start(t, func(c *subscriber.Config) {
		c.QueueBytes = 2 * 4 * size // four of them for each partition
		c.Kafka = append(c.Kafka, kgo.FetchMaxPartitionBytes(size))
		c.Handler = func(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
			if string(e.Entity) == large && !works.Load() {
				return errors.New("not yet")
			}
			return insert(ctx, tx, e)
		}
	})
	for rev := range int64(events) { // each has to be fetched, and what is not paused is fetched with it
		f.send(revision(small, rev+1))
		f.waitFor(fmt.Sprint(rev+1), `SELECT count(*)::text FROM ran`)
	}
	works.Store(true)
	f.waitRead()
	f.waitFor(fmt.Sprint(2*events), `SELECT count(*)::text FROM ran`)
}

// A member whose positions another one has claimed meanwhile, because Kafka believed it gone, writes nothing of what it has begun. It joins
// again.
func TestZombieWritesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	inside, goOn := make(chan struct{}, 1), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	var calls atomic.Int32
	f.start(t, func(c *subscriber.Config) {
		c.Handler = func(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
			if e.ID == "A-2" && calls.Add(1) == 1 {
				inside <- struct{}{}
				<-goOn
			}
			return insert(ctx, tx, e)
		}
	})
	t.Cleanup(release)
	f.send(revision("A", 1))
	f.waitRead()
	f.send(revision("A", 2))
	<-inside
	// What a claim does waits for the row that the zombie's transaction holds. Its own next transaction finds that it came too late.
	claimed := make(chan error, 1)
	go func() {
		_, err := f.pool.Exec(t.Context(), `UPDATE forebay_positions SET epoch = epoch + 1`)
		claimed <- err
	}()
	f.waitFor("1", `SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE forebay_positions SET epoch = epoch + 1'`)
	release()
	if err := <-claimed; err != nil {
		t.Fatal(err)
	}
	f.send(revision("A", 3), revision("A", 4))
	f.waitRead()
	if diff := cmp.Diff("A-1\nA-2\nA-3\nA-4", f.query(`SELECT id FROM ran ORDER BY n`)); diff != "" {
		t.Error(diff)
	}
	if epoch := f.query(`SELECT epoch::text FROM forebay_positions`); epoch != "3" {
		t.Errorf("the position's epoch is %s: the member did not claim it again after the other's claim, or more than once", epoch)
	}
}

// What waits for a gap runs when its wait has ended, and the predecessor that comes after all is late where the policy wants it. An older snapshot is stale.
func TestGap(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	f.start(t, func(c *subscriber.Config) { c.Policy.GapWait, c.Policy.LateSnapshots = 300*time.Millisecond, true })
	f.send(revision("A", 1), revision("A", 3), revision("A", 5), revision("B", 1))
	f.waitFor("4", `SELECT count(*)::text FROM ran`)
	other := revision("A", 4)
	other.ID = "another-4"
	f.send(revision("A", 2), revision("A", 3), revision("A", 4), other)
	f.waitRead()
	want := "A-1 applied first\nB-1 applied first\nA-3 applied gap_skipped\nA-5 applied gap_skipped\nA-2 late filler\nA-4 late filler"
	if diff := cmp.Diff(want, f.ran()); diff != "" {
		t.Error(diff)
	}
	f.waitFor("stale older", `SELECT concat_ws(' ', decision, reason) FROM forebay_events WHERE reason = 'older'`)
	if got := f.query(`SELECT extract(epoch FROM min(decided_at) FILTER (WHERE reason = 'gap_skipped') - min(decided_at))::numeric(9,3)::text FROM forebay_events`); got < "0.300" {
		t.Errorf("the wait was %s s, shorter than 0.3 s", got)
	}
}

// The answer to the commit that ended a wait is lost. What waits behind the next gap does not end with it.
func TestCommitOfAnEndIsInDoubt(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	f.send(revision("A", 1), revision("A", 3), revision("A", 5))
	m := f.start(t)
	f.waitRead()
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.pool.Exec(t.Context(), `UPDATE forebay_events SET deadline = now() WHERE version LIKE '%3'`); err != nil {
		t.Fatal(err)
	}
	proxy, pool := f.through(t)
	proxy.Cut.Store(&pgtest.Cut{Commit: true})
	f.start(t, func(c *subscriber.Config) { c.Pool = pool })
	f.waitFor("1", `SELECT count(*)::text FROM ran WHERE id = 'A-3'`)
	if !streamtest.Until(func() bool { return proxy.Cuts.Load() == 1 }) {
		t.Fatal("nothing was cut")
	}
	f.send(revision("A", 4))
	f.waitRead()
	want := "A-1 applied first\nA-3 applied gap_skipped\nA-4 applied next\nA-5 applied released"
	if diff := cmp.Diff(want, f.ran()); diff != "" {
		t.Error(diff)
	}
}

// What waits behind one gap for long is released a batch at a time, in order, also if the program is ended in its middle, or if only few of
// its handler's calls go into one transaction.
func TestLongReleaseIsCut(t *testing.T) {
	t.Parallel()
	const last, batch = 60, 10
	var want []string
	for rev := range last {
		want = append(want, fmt.Sprintf("A-%d", rev+1))
	}
	behind := func() (sent []*schemas.Event) {
		for rev := int64(last); rev > 2; rev-- {
			sent = append(sent, revision("A", rev))
		}
		return append(sent, revision("A", 1))
	}
	newEpoch := revision("A", 1)
	newEpoch.ID, newEpoch.Version.Epoch = "A-again", 7
	for name, test := range map[string]struct {
		then []*schemas.Event // what comes behind the gap's events
		most int              // the handler's calls in a transaction
		ends bool             // the program, in the middle of the release
		want []string
	}{
		"a filler":           {[]*schemas.Event{revision("A", 2), revision("A", last+1)}, 1000, false, append(slices.Clone(want), fmt.Sprintf("A-%d", last+1))},
		"the program ends":   {[]*schemas.Event{revision("A", 2)}, 1000, true, want},
		"few at a time":      {[]*schemas.Event{revision("A", 2)}, 3, false, want},
		"a new epoch begins": {[]*schemas.Event{newEpoch}, 1000, false, append(slices.Delete(slices.Clone(want), 1, 2), "A-again")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 1)
			if _, err := f.pool.Exec(t.Context(), `ALTER TABLE ran ADD tx bigint DEFAULT txid_current()`); err != nil {
				t.Fatal(err)
			}
			var stands atomic.Bool
			stands.Store(test.ends)
			reached := make(chan struct{}, 1)
			member := func(c *subscriber.Config) {
				c.Batch = batch
				c.Handler = func(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
					if e.ID == "A-40" && stands.Load() {
						select {
						case reached <- struct{}{}:
						default:
						}
						return errors.New("not yet")
					}
					if err := insert(ctx, tx, e); err != nil {
						return err
					}
					var n int
					if err := tx.QueryRow(ctx, `SELECT count(*) FROM ran WHERE tx = txid_current()`).Scan(&n); err != nil || n > test.most {
						return fmt.Errorf("%d calls: %w", n, err)
					}
					return nil
				}
			}
			m := f.start(t, member)
			f.send(behind()...)
			f.waitRead()
			f.send(test.then...)
			if test.ends {
				<-reached
				if err := m.stop(); err != nil {
					t.Fatal(err)
				}
				if got := f.query(`SELECT (count(*) BETWEEN 20 AND 39)::text FROM ran`); got != "true" {
					t.Errorf("it has not released the first ones: %s ran", f.query(`SELECT count(*)::text FROM ran`))
				}
				stands.Store(false)
				f.start(t, member)
			}
			f.waitRead()
			f.waitFor(fmt.Sprint(len(test.want)), `SELECT count(*)::text FROM ran`)
			if diff := cmp.Diff(strings.Join(test.want, "\n"), f.query(`SELECT id FROM ran ORDER BY n`)); diff != "" {
				t.Error(diff)
			}
			if got := f.query(`SELECT max(c)::text FROM (SELECT count(*) c FROM ran GROUP BY tx) x`); got != "3" && got != "10" && got != "11" { // a filler runs with what it releases
				t.Errorf("%s calls of the handler in one transaction, with a batch of %d", got, batch)
			}
		})
	}
}

// What waits from when the order was by version has come before what comes: all of it runs first, also where that is more than one transaction runs.
func TestArrivalLetsAllThatWaitsGoFirst(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	m := f.start(t, func(c *subscriber.Config) { c.Batch = 2 })
	f.send(revision("A", 1), revision("A", 3), revision("A", 5), revision("A", 7), revision("A", 9))
	f.waitRead()
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	f.start(t, func(c *subscriber.Config) { c.Batch, c.Policy.Order = 2, gate.OrderArrival })
	f.send(revision("A", 10), revision("A", 2))
	f.waitRead()
	if diff := cmp.Diff("A-1\nA-3\nA-5\nA-7\nA-9\nA-10\nA-2", f.query(`SELECT id FROM ran ORDER BY n`)); diff != "" {
		t.Error(diff)
	}
}

// The predecessor came in time, behind a transaction that another writer has not ended yet: nothing is skipped.
func TestWaitLooksBehindAnOpenTransaction(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	f.send(revision("A", 1), revision("A", 3))
	end := f.Begin(record.Encode(streamtest.Topic, revision("B", 1)))
	f.send(revision("A", 2))
	asked := f.OnEnd(func() bool { return true })
	f.start(t, func(c *subscriber.Config) { c.Policy.GapWait = time.Millisecond })
	<-asked
	end(kgo.TryCommit)
	f.waitRead()
	f.waitFor("A-1 first\nB-1 first\nA-2 next\nA-3 released", `SELECT concat_ws(' ', id, reason) FROM ran ORDER BY n`)
}

// A member was away for longer than the wait. The predecessor is in the log, not read yet: nothing is skipped.
func TestDowntimeIsNoGap(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	wait := func(c *subscriber.Config) { c.Policy.GapWait = 200 * time.Millisecond }
	long := f.start(t)
	f.send(revision("A", 1), revision("A", 3))
	f.waitRead()
	if err := long.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.pool.Exec(t.Context(), `UPDATE forebay_events SET deadline = now() - interval '1 day' WHERE record IS NOT NULL`); err != nil {
		t.Fatal(err)
	}
	var between []*schemas.Event
	for i := range 100 {
		between = append(between, revision(fmt.Sprintf("B-%03d", i), 1))
	}
	f.send(append(between, revision("A", 2))...)
	f.start(t, wait, func(c *subscriber.Config) { c.Batch = 10 })
	f.waitRead()
	f.waitFor("A-1\nA-2\nA-3", `SELECT id FROM ran WHERE entity = 'A' ORDER BY n`)
}

// An event whose handler always fails holds its own partition only, and is set aside after as many attempts as the team wants.
func TestPoison(t *testing.T) {
	t.Parallel()
	f := setup(t, 2)
	a, b := string(streamtest.EntityIn(0, 2)), string(streamtest.EntityIn(1, 2))
	poisoned := errors.New("no such \x00 customer")
	var calls atomic.Int32
	f.start(t, func(c *subscriber.Config) {
		c.Attempts = 3
		c.Handler = func(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
			if err := insert(ctx, tx, e); err != nil {
				return err
			}
			if e.ID == a+"-2" {
				calls.Add(1)
				return poisoned
			}
			return nil
		}
	})
	var sent []*schemas.Event
	for rev := range int64(5) {
		sent = append(sent, revision(a, rev+1), revision(b, rev+1))
	}
	f.send(sent...)
	f.waitRead()
	want := strings.NewReplacer("a", a, "b", b).Replace("a-1\na-3\na-4\na-5\nb-1\nb-2\nb-3\nb-4\nb-5")
	if diff := cmp.Diff(strings.Join(slices.Sorted(strings.SplitSeq(want, "\n")), "\n"), f.query(`SELECT id FROM ran ORDER BY entity, n`)); diff != "" {
		t.Error(diff)
	}
	if got := f.query(`SELECT concat_ws(' ', decision, reason, error) FROM forebay_set_aside`); got != "applied handler_failed no such ? customer" {
		t.Errorf("set aside: %q", got)
	}
	var packed []byte
	if err := f.pool.QueryRow(t.Context(), `SELECT record FROM forebay_set_aside`).Scan(&packed); err != nil {
		t.Fatal(err)
	}
	if e, err := record.UnpackEvent(packed); err != nil || e.ID != a+"-2" {
		t.Errorf("what was set aside is %+v, %v", e, err)
	}
	if n := calls.Load(); n < 3 || n > 6 { // also in the batches that were divided until it was alone
		t.Errorf("its handler was called %d times for 3 attempts", n)
	}
}

// What the database fails with, under a handler, is no attempt of the handler's: nothing is set aside, and the event runs when it has passed.
func TestDatabaseTroubleIsNoAttempt(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"a connection that is lost": `SELECT pg_terminate_backend(pg_backend_pid())`,
		"a conflict":                `DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$`,
		"a disk that is full":       `DO $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$`,
		"a standby":                 `DO $$ BEGIN RAISE EXCEPTION 'read-only' USING ERRCODE = '25006'; END $$`,
		"a table that is missing":   `SELECT FROM not_yet_migrated`,
		"a lock":                    `SELECT pg_sleep(60)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 1)
			var failures atomic.Int32
			f.start(t, func(c *subscriber.Config) {
				c.Attempts, c.Timeout = 1, time.Second
				c.Handler = func(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
					if e.ID == "A-2" && failures.Load() < 2 {
						failures.Add(1)
						_, err := tx.Exec(ctx, sql)
						return fmt.Errorf("order not found: %w", err)
					}
					return insert(ctx, tx, e)
				}
			})
			f.send(revision("A", 1))
			f.waitRead()
			f.send(revision("A", 2)) // alone: nothing is divided before it counts
			f.waitRead()
			f.send(revision("A", 3))
			f.waitRead()
			if diff := cmp.Diff("A-1\nA-2\nA-3", f.query(inOrder)); diff != "" || failures.Load() != 2 {
				t.Errorf("%d failures\n%s", failures.Load(), diff)
			}
			if got := f.query(`SELECT error FROM forebay_set_aside`); got != "" {
				t.Errorf("set aside: %s", got)
			}
		})
	}
}

// What a handler does wrong in other ways than by its error is its attempt, too, and leaves nothing locked.
func TestHandlersFault(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		want string // in the error
		do   func(context.Context, pgx.Tx) error
	}{
		"panics": {"subscriber_test.panics", func(context.Context, pgx.Tx) error { return panics() }},
		"panics over open rows": {"no such order", func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Query(ctx, `SELECT generate_series(1, 100000)`); err != nil { //nolint:sqlclosecheck // it is what the test is about
				return err
			}
			panic(errors.New("no such order"))
		}},
		"leaves rows open": {"close them", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, `SELECT generate_series(1, 100000)`) //nolint:sqlclosecheck // as above
			return err
		}},
		"takes too long by itself": {"longer than Timeout", func(ctx context.Context, _ pgx.Tx) error {
			<-ctx.Done()
			return errors.New("no answer")
		}},
		"breaks a deferred constraint": {"violates foreign key", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO lines VALUES (7)`)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 1)
			if _, err := f.pool.Exec(t.Context(), `CREATE TABLE orders (id int PRIMARY KEY);
				CREATE TABLE lines (of int REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)`); err != nil {
				t.Fatal(err)
			}
			m := f.start(t, func(c *subscriber.Config) {
				c.Attempts, c.Timeout = 2, time.Second
				c.Handler = func(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
					if e.ID == "A-2" {
						return test.do(ctx, tx)
					}
					return insert(ctx, tx, e)
				}
			})
			f.send(revision("A", 1), revision("A", 2), revision("A", 3))
			f.waitRead()
			if diff := cmp.Diff("A-1\nA-3", f.query(inOrder)); diff != "" {
				t.Error(diff)
			}
			if got := f.query(`SELECT reason || ' ' || error FROM forebay_set_aside`); !strings.HasPrefix(got, "handler_failed ") || !strings.Contains(got, test.want) {
				t.Errorf("set aside: %q, want %q", got, test.want)
			}
			if err := m.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func panics() error {
	var order *schemas.Event
	return errors.New(order.ID)
}

// A connection that answers no more holds up the end of Run no longer than a transaction may take.
func TestHungConnectionDoesNotHoldTheEnd(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	hung, pool := f.hangs(t, "rollback")
	m := f.start(t, func(c *subscriber.Config) {
		c.Pool, c.Timeout = pool, 3*time.Second
		c.Handler = func(context.Context, pgx.Tx, subscriber.Event) error { return errors.New("not yet") }
	})
	f.send(revision("A", 1))
	<-hung
	ended := make(chan error, 1)
	go func() { ended <- m.stop() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(streamtest.Patience):
		t.Error("it goes on")
	}
}

// Without Attempts an event is tried until its handler succeeds.
func TestHandlerFailsForAWhile(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	var calls atomic.Int32
	f.start(t, func(c *subscriber.Config) {
		c.Handler = func(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
			if err := insert(ctx, tx, e); err != nil || calls.Add(1) > 3 {
				return err
			}
			return errors.New("not yet")
		}
	})
	f.send(revision("A", 1), revision("A", 2))
	f.waitRead()
	if diff := cmp.Diff("A-1 applied first\nA-2 applied next", f.ran()); diff != "" {
		t.Error(diff)
	}
}

// A handler that hides the failure of a statement has failed.
func TestHandlerHidesAnError(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	f.start(t, func(c *subscriber.Config) {
		c.Attempts = 1
		c.Handler = func(ctx context.Context, tx pgx.Tx, e subscriber.Event) error {
			if e.ID == "A-1" {
				_, _ = tx.Exec(ctx, `SELECT 1/0`)
				return nil
			}
			return insert(ctx, tx, e)
		}
	})
	f.send(revision("A", 1), revision("A", 2))
	f.waitRead()
	if got := f.ran() + ", " + f.query(`SELECT concat_ws(' ', log_offset, reason) FROM forebay_set_aside`); got != "A-2 applied next, 0 handler_failed" {
		t.Error(got)
	}
}

// What cannot be decided, and an id that comes again with another body, are set aside; what follows goes on.
func TestSetAside(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	f.start(t)
	forged := revision("A", 1)
	forged.Data = []byte(`{"n":"forged"}`)
	forged.Hash = schemas.HashBody(forged.Data)
	keyless := record.Encode(streamtest.Topic, revision("A", 2))
	keyless.Key = nil
	f.send(revision("A", 1))
	f.Send(&kgo.Record{Topic: streamtest.Topic, Key: []byte("A"), Value: []byte("no CloudEvent")}, keyless)
	f.send(forged, revision("A", 2))
	f.waitRead()
	want := "1 quarantined undecodable read record: attribute specversion is missing: not a CloudEvent\n" +
		"2 quarantined undecodable read record: key is missing\n3 conflict body_differs"
	if diff := cmp.Diff(want, strings.TrimSpace(f.query(`SELECT rtrim(concat_ws(' ', log_offset, decision, reason, error)) FROM forebay_set_aside ORDER BY log_offset`))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("A-1\nA-2", f.query(inOrder)); diff != "" {
		t.Error(diff)
	}
}

// TestSetAsideAtOneOffset: a record is set aside once, and a row of another record that had its offset before is none of it.
func TestSetAsideAtOneOffset(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	for _, value := range []string{"of the topic", "of the topic that was created again"} {
		f.Send(&kgo.Record{Topic: streamtest.Topic, Key: []byte("A"), Value: []byte(value)})
		for range 2 { // it reads the record again
			m := f.start(t)
			f.waitRead()
			if err := m.stop(); err != nil {
				t.Fatal(err)
			}
			if _, err := f.pool.Exec(t.Context(), `UPDATE forebay_positions SET next_offset = 0`); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.pool.Exec(t.Context(), `DELETE FROM forebay_positions`); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Adm.DeleteTopic(f.Ctx(), streamtest.Topic); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Adm.CreateTopic(f.Ctx(), 1, 1, nil, streamtest.Topic); err != nil {
			t.Fatal(err)
		}
		f.Client = f.NewClient()
	}
	if got := f.query(`SELECT string_agg(log_offset::text, ' ') FROM forebay_set_aside`); got != "0 0" {
		t.Errorf("set aside at offsets %s", got)
	}
}

// What a team deletes of forebay_set_aside is published: no column that is not makes out its rows. So it is with a table as it was made first.
func TestSetAsideIsPublished(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	for _, sql := range []string{`DROP INDEX forebay_set_aside_once`, `ALTER TABLE forebay_set_aside ADD PRIMARY KEY (consumer_group, topic, partition, log_offset), REPLICA IDENTITY DEFAULT`, subscriber.SQL} {
		if _, err := f.pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if got := f.query(`SELECT concat_ws(' ', relreplident, (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attgenerated <> ''),
		(SELECT count(*) FROM pg_index WHERE indrelid = c.oid AND indisprimary)) FROM pg_class c WHERE oid = 'forebay_set_aside'::regclass`); got != "f 0 0" {
		t.Errorf("identity, generated columns, primary keys: %s", got)
	}
}

// The SQL is run again while a handler has its transaction open, which keeps its position locked and may read what was set aside.
func TestSQLWaitsForNoHandler(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT FROM forebay_positions FOR UPDATE; SELECT FROM forebay_set_aside`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.pool.Exec(t.Context(), `SET lock_timeout = '5s'; `+subscriber.SQL); err != nil {
		t.Error(err)
	}
}

// A position that was set back while the program ran is read from there: what is done is not done again, unless its rows are deleted.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	f.start(t)
	f.send(revision("A", 1), revision("B", 1))
	f.waitRead()
	if _, err := f.pool.Exec(t.Context(), `WITH e AS (DELETE FROM forebay_events WHERE entity = 'A'), l AS (DELETE FROM forebay_lines WHERE entity = 'A')
		UPDATE forebay_positions SET next_offset = 0`); err != nil {
		t.Fatal(err)
	}
	f.send(revision("A", 2), revision("B", 2))
	f.waitFor("B-2", `SELECT id FROM ran ORDER BY n DESC LIMIT 1`)
	if diff := cmp.Diff("A-1\nB-1\nA-1\nA-2\nB-2", f.query(`SELECT id FROM ran ORDER BY n`)); diff != "" {
		t.Error(diff)
	}
}

// TestReadAgainAfterAClaim: it may be set to 0, too, where the member has committed nothing since its claim.
func TestReadAgainAfterAClaim(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	first := f.start(t)
	f.send(revision("A", 1), revision("B", 1))
	f.waitRead()
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	f.start(t)
	f.waitFor("2", `SELECT epoch::text FROM forebay_positions`)
	if _, err := f.pool.Exec(t.Context(), `WITH e AS (DELETE FROM forebay_events WHERE entity = 'A'), l AS (DELETE FROM forebay_lines WHERE entity = 'A')
		UPDATE forebay_positions SET next_offset = 0`); err != nil {
		t.Fatal(err)
	}
	f.send(revision("B", 2))
	f.waitRead()
	if diff := cmp.Diff("A-1\nB-1\nA-1\nB-2", f.query(`SELECT id FROM ran ORDER BY n`)); diff != "" {
		t.Error(diff)
	}
}

// What waiting does not mend ends Run, and its error says what to do.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	sql := func(sql string) func(*testing.T, *fixture) {
		return func(t *testing.T, f *fixture) {
			if _, err := f.pool.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		running bool // it happens while the program runs, which notices with the next event; otherwise while it is stopped
		happen  func(*testing.T, *fixture)
		want    []string
	}{
		"beyond the end": {false, sql(`UPDATE forebay_positions SET next_offset = 1000`), []string{"OFFSET_OUT_OF_RANGE", "set next_offset"}},
		"a log that was cut and has grown again": {false, func(_ *testing.T, f *fixture) {
			f.Cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				f.Cluster.KeepControl()
				p := req.(*kmsg.OffsetForLeaderEpochRequest).Topics[0].Partitions[0]
				resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
				rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
				rt.Topic = streamtest.Topic
				rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, p.LeaderEpoch, 0
				rt.Partitions = append(rt.Partitions, rp)
				resp.Topics = append(resp.Topics, rt)
				return resp, nil, true
			})
			f.send(revision("A", 2))
		}, []string{"lost", "set next_offset"}},
		"another topic": {false, sql(`UPDATE forebay_positions SET topic_id = '\x00112233445566778899aabbccddeeff'`), []string{"created again", "delete the group's rows"}},
		"no table":      {false, sql(`DROP TABLE forebay_begins`), []string{"42P01", "execute subscriber.SQL"}},
		"a table goes":  {true, sql(`DROP TABLE forebay_lines`), []string{"42P01", "execute subscriber.SQL"}},
		"a right goes": {true, sql(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION 'permission denied' USING ERRCODE = '42501'; END $$;
			CREATE TRIGGER refuse BEFORE INSERT ON forebay_events EXECUTE FUNCTION refuse()`), []string{"42501", "grant the pool's user"}},
		"a new topic while it runs": {true, func(t *testing.T, f *fixture) {
			if _, err := f.Adm.DeleteTopic(f.Ctx(), streamtest.Topic); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Adm.CreateTopic(f.Ctx(), 1, 1, nil, streamtest.Topic); err != nil {
				t.Fatal(err)
			}
			f.Client = f.NewClient()
		}, []string{"created again", "delete the group's rows"}},
		"a batch that is too large": {true, func(t *testing.T, f *fixture) {
			large := revision("A", 2)
			large.Data = make([]byte, 300<<10)
			f.send(large)
		}, []string{"at offset 1 ", "MaxDecompressBatchBytes, or, to leave the batch out"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 1)
			f.send(revision("A", 1))
			bounded := func(c *subscriber.Config) { c.Kafka = append(c.Kafka, kgo.MaxDecompressBatchBytes(100<<10)) }
			m := f.start(t, bounded)
			f.waitRead()
			if !test.running {
				if err := m.stop(); err != nil {
					t.Fatal(err)
				}
			}
			test.happen(t, f)
			if test.running {
				f.send(revision("A", 3))
			} else {
				m = f.start(t, bounded)
			}
			select {
			case <-m.gone:
			case <-time.After(2 * streamtest.Patience):
				t.Fatal("it goes on")
			}
			err := m.stop()
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
}

// A group begins where it says: with what comes from now on, or where it has committed in Kafka before.
func TestBegin(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	f.send(revision("A", 1), revision("A", 2), revision("A", 3))
	any := func(c *subscriber.Config) { c.Begin, c.Policy.Start = subscriber.BeginNow, gate.StartAny }
	f.start(t, any)
	f.waitFor("3", `SELECT next_offset::text FROM forebay_positions`)
	f.Rig.Group = "acme.moved"
	f.Commit(0, 1, "")
	f.start(t, any, func(c *subscriber.Config) { c.Group = "acme.moved" })
	f.send(revision("A", 4))
	f.waitFor("A-2\nA-3\nA-4\nA-4", `SELECT id FROM ran ORDER BY id`)
}

// A group that begins with what comes from now on misses nothing of a partition or a topic that came after its first start, whoever notices
// it when. A topic that was created again came after it, too.
func TestBeginNowMissesNothingThatComesLater(t *testing.T) {
	t.Parallel()
	const later = "events.acme.later"
	f := setup(t, 2)
	old := string(streamtest.EntityIn(0, 2))
	f.send(revision(old, 1))
	now := func(c *subscriber.Config) {
		c.Begin, c.Policy.Start, c.Topics = subscriber.BeginNow, gate.StartAny, append(c.Topics, later)
	}
	m := f.start(t, now)
	f.waitFor("2", `SELECT count(*)::text FROM forebay_positions`)
	f.waitFor("2", `SELECT count(*)::text FROM forebay_begins`)
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	f.Grow(3)
	grown := record.Encode(streamtest.Topic, revision("grown", 1))
	grown.Partition = 2
	if _, err := f.Adm.CreateTopic(f.Ctx(), 1, 1, nil, later); err != nil {
		t.Fatal(err)
	}
	if _, err := f.pool.Exec(t.Context(), `DELETE FROM forebay_positions WHERE partition = 1`); err != nil { // nobody had claimed it before it ended
		t.Fatal(err)
	}
	between := record.Encode(streamtest.Topic, revision("between", 1))
	between.Partition = 1
	f.Send(grown, between, record.Encode(later, revision("later", 1)))
	m = f.start(t, now)
	f.waitFor("between-1\ngrown-1\nlater-1", `SELECT id FROM ran ORDER BY id`)
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Adm.DeleteTopic(f.Ctx(), later); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Adm.CreateTopic(f.Ctx(), 1, 1, nil, later); err != nil {
		t.Fatal(err)
	}
	producer := f.NewClient()
	if err := producer.ProduceSync(f.Ctx(), record.Encode(later, revision("again", 1))).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.pool.Exec(t.Context(), `DELETE FROM forebay_positions WHERE topic = $1`, later); err != nil { // as the error says
		t.Fatal(err)
	}
	var mirrored kadm.Offsets // by a member that had read the old topic up to there
	mirrored.Add(kadm.Offset{Topic: later, At: 1, LeaderEpoch: -1})
	if err := f.Adm.CommitAllOffsets(f.Ctx(), "acme.projection", mirrored); err != nil {
		t.Fatal(err)
	}
	f.start(t, now)
	f.waitFor("again-1\nbetween-1\ngrown-1\nlater-1", `SELECT id FROM ran ORDER BY id`)
}

// A source goes on in another topic, and the group with it, as CONTRACT.md says: what it has decided is a duplicate there, an older state is stale, and
// nothing that came before the group did is left out, though it began at the end of the old topic.
func TestSourceGoesOnInAnotherTopic(t *testing.T) {
	t.Parallel()
	const next = "events.acme.next"
	f := setup(t, 2)
	f.send(revision("A", 1))
	old := func(c *subscriber.Config) { c.Begin, c.Policy.Start = subscriber.BeginNow, gate.StartAny }
	m := f.start(t, old)
	f.waitFor("2", `SELECT count(*)::text FROM forebay_positions`)
	f.send(revision("A", 3))
	f.waitFor("A-3", `SELECT id FROM ran`)
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Adm.CreateTopic(f.Ctx(), 3, 1, nil, next); err != nil {
		t.Fatal(err)
	}
	older := revision("A", 2)
	older.ID = "another-2"
	producer := f.NewClient()
	if err := producer.ProduceSync(f.Ctx(), record.Encode(next, revision("A", 3)), record.Encode(next, older), record.Encode(next, revision("A", 4))).FirstErr(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, statements, _ := strings.Cut(string(text), "```sql\n")
	statements, _, _ = strings.Cut(statements, "```")
	statements = strings.NewReplacer("events.acme.github.24", next, "events.acme.github", streamtest.Topic).Replace(statements)
	if tag, err := f.pool.Exec(t.Context(), statements); err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%s: %v %v", statements, tag, err)
	}
	f.start(t, old, func(c *subscriber.Config) { c.Topics = []string{next} })
	f.waitFor("A-3\nA-4", `SELECT id FROM ran ORDER BY n`)
	if got := f.query(`SELECT concat_ws(' ', decision, reason) FROM forebay_events WHERE version IS NULL AND reason = 'older'`); got != "stale older" {
		t.Errorf("the older state was decided %q", got)
	}
}

// A policy that says one thing keeps the defaults of the others: a gap is waited for.
func TestPolicyKeepsDefaults(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	f.start(t, func(c *subscriber.Config) { c.Policy = gate.Policy{Start: gate.StartFirst} })
	f.send(revision("A", 3), revision("A", 2))
	f.waitRead()
	f.send(revision("A", 1))
	f.waitRead()
	if diff := cmp.Diff("A-1 applied first\nA-2 applied released\nA-3 applied released", f.ran()); diff != "" {
		t.Error(diff)
	}
}

// What was decided longer ago than Dedupe is forgotten when the program starts.
func TestForgets(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	f.send(revision("A", 1), revision("A", 3))
	m := f.start(t)
	f.waitRead()
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.pool.Exec(t.Context(), `UPDATE forebay_events SET decided_at = now() - interval '15 days'`); err != nil {
		t.Fatal(err)
	}
	f.start(t)
	f.waitFor("A", `SELECT entity FROM forebay_events WHERE decided_at < now() - interval '14 days'`) // it waits
	f.send(revision("A", 2))
	f.waitRead()
	if diff := cmp.Diff("A-1\nA-2\nA-3", f.query(inOrder)); diff != "" {
		t.Error(diff)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	for want, change := range map[string]func(*subscriber.Config){
		"Pool is missing":      func(c *subscriber.Config) { c.Pool = nil },
		"Group is missing":     func(c *subscriber.Config) { c.Group = "" },
		"Topics are missing":   func(c *subscriber.Config) { c.Topics = nil },
		"Handler is missing":   func(c *subscriber.Config) { c.Handler = nil },
		"not one of now, all":  func(c *subscriber.Config) { c.Begin = "later" },
		"cannot be negative":   func(c *subscriber.Config) { c.Attempts = -1 },
		"GapWait be longer":    func(c *subscriber.Config) { c.Policy.Then = gate.ThenPark },
		"start backfill needs": func(c *subscriber.Config) { c.Policy.Start, c.Policy.BackfillWait = gate.StartBackfill, time.Second },
		"hold needs":           func(c *subscriber.Config) { c.Policy.Equal = gate.EqualHold },
		"caps of the gap":      func(c *subscriber.Config) { c.Policy.MaxBuffered = 1 },
		"not one of version":   func(c *subscriber.Config) { c.Policy.Order = "chaos" },
	} {
		if _, err := subscriber.New(f.config(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

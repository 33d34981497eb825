package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// Claims hold a connection while they ask Kafka, which may take as long as Kafka likes. There are connections left for
// the partitions that run.
func TestClaimsLeaveConnectionsToBatches(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.l.Close()
	f.cfg.MaxConns = 4
	f.l = open(t, f.cfg)
	f.n = f.namespace()
	c := f.claim(0)
	ask, answer := make(chan struct{}, 8), make(chan struct{})
	claimed := make(chan error, 8)
	for p := range int32(7) {
		go func() {
			_, err := f.n.Claim(t.Context(), ClaimRequest{Partition: partition(p + 1), Partitions: 8, Confirm: func(context.Context, *Position) (Start, error) {
				ask <- struct{}{}
				<-answer
				return Start{Position: Position{LeaderEpoch: -1}}, nil
			}})
			claimed <- err
		}()
	}
	<-ask
	<-ask
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := f.n.Apply(ctx, []Slice{slice(c, seq(0, "e", 1))})
	if err != nil {
		t.Errorf("a batch beside claims that wait for Kafka: %v", err)
	} else if _, err := f.n.Record(ctx, []Result{{Claim: c, LaneSeq: out[0].Actions[0].LaneSeq, Status: Done, Attempt: 1}}); err != nil {
		t.Errorf("a result: %v", err)
	}
	close(answer)
	for range 7 {
		if err := <-claimed; err != nil {
			t.Error(err)
		}
	}
}

// As many statements of actions as there may be at once, however slow they are, wait for no connection: neither each other
// nor batches and results.
func TestSlowStatementsHoldUpNobody(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.l.Close()
	const n = 12
	f.cfg.StatementConns = n
	f.l = open(t, f.cfg)
	f.n = f.namespace()
	admin(t, f.cfg.URL.Reveal(), `CREATE TABLE `+f.cfg.Schema+`.slow (lane int PRIMARY KEY)`)
	hold, err := f.l.hot.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Rollback(context.Background()) }()
	if _, err := hold.Exec(t.Context(), `LOCK TABLE slow`); err != nil {
		t.Fatal(err)
	}
	c := f.claim(0)
	var records []Record
	for i := range int64(n + 1) {
		records = append(records, seq(i, fmt.Sprint("e", i), 1))
	}
	f.apply(c, records...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ends := make(chan error, n)
	for lane := range int64(n) {
		go func() {
			s := sink.Statement{SQL: `INSERT INTO ` + f.cfg.Schema + `.slow VALUES ($1)`, Params: [][]byte{[]byte(fmt.Sprint(lane))}}
			_, err := f.n.Commit(ctx, done(c, lane+1, 1), s)
			ends <- err
		}()
	}
	waiting := `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '` + f.cfg.Schema + `.slow'::regclass`
	for one[int](f, waiting) < n {
		if ctx.Err() != nil {
			t.Fatalf("%d of %d statements have begun", one[int](f, waiting), n)
		}
		<-time.After(5 * time.Millisecond)
	}
	if _, err := f.n.Record(ctx, []Result{done(c, n+1, 1)}); err != nil {
		t.Errorf("a result: %v", err)
	}
	if err := hold.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
}

// A claim whose COMMIT is in doubt gives its broken connection back before it asks on another one.
func TestClaimInDoubtNeedsOneConnection(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.cfg.MaxConns = 1
	p, g := throughProxy(t, f)
	p.Cut.Store(&cut{Needle: []byte("commit\x00")})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := g.n.Claim(ctx, ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: at(0)})
	if err != nil || p.Cuts.Load() != 1 {
		t.Fatalf("%d cuts: %v", p.Cuts.Load(), err)
	}
	g.apply(c, seq(0, "e", 1))
}

// Each pool has as many connections as its comment says, and its server ends statements when it says: what somebody waits for before what people
// list, and all of them before the client gives up. Together they are those that Connections counts, with the one that listens.
func TestPoolsHaveTheirSizesAndDeadlines(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.l.Close()
	f.cfg.MaxConns, f.cfg.StatementConns, f.cfg.TxTimeout = 5, 3, 20*time.Second
	f.l = open(t, f.cfg)
	sum := int32(1)
	for name, want := range map[string]struct {
		pool    *Pool
		conns   int32
		timeout string
	}{
		"hot": {f.l.hot, 5, "15s"}, "read": {f.l.read, 2, "25s"}, "sweep": {f.l.sweep, 1, "25s"}, "look": {f.l.look, 2, "5s"}, "quick": {f.l.quick, 4, "5s"},
		"sinks": {f.l.sinkConns, 3, "15s"},
	} {
		var timeout string
		if err := want.pool.QueryRow(t.Context(), `SHOW statement_timeout`).Scan(&timeout); err != nil {
			t.Fatal(err)
		}
		if conns := want.pool.Config().MaxConns; conns != want.conns || timeout != want.timeout {
			t.Errorf("%s: %d connections, statements of %s; want %d and %s", name, conns, timeout, want.conns, want.timeout)
		}
		sum += want.pool.Config().MaxConns
	}
	if all := f.cfg.Connections(); int(sum) != all || len(f.l.db.Pools()) != 6 {
		t.Errorf("%d connections in %d pools, %d are said to be made", sum, len(f.l.db.Pools()), all)
	}
}

// Operators' lists hold up nobody who looks at one thing or asks for something, and nothing that operators look at holds up what runs:
// heartbeats, results, pauses, exports and readiness go through while every connection for operators is taken.
func TestQuestionsHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1))
	f.die(c, 1, "a-1", 1)
	f.record(Result{Claim: c, LaneSeq: 2, Status: Processing, Attempt: 1, Code: 202, Left: time.Hour})
	var taken []*pgxpool.Conn
	defer func() {
		for _, conn := range taken {
			conn.Release()
		}
	}()
	take := func(pool *Pool) error {
		for range pool.Config().MaxConns {
			conn, err := pool.Acquire(t.Context())
			if err != nil {
				return err
			}
			taken = append(taken, conn)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	attempt := AttemptRef{Fence: c.ID, LaneSeq: 2, Attempt: 1, Epoch: c.Epoch}
	var dead DeadLetter
	var command int64
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"all lists", func() error { return take(f.l.read) }},
		{"what a command is about", func() (err error) { dead, err = TestInbox.FindDeadLetter(ctx, f.l, actionID("a-1")); return err }},
		{"what may be among all dead letters", func() error { // waits for a list to end, and not with what is asked by key
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			if _, err := TestInbox.FindDeadLetter(short, f.l, actionID("z-1")); schemas.KindOf(err) != schemas.Unavailable {
				return fmt.Errorf("it was looked for beside the lists: %w", err)
			}
			return nil
		}},
		{"a command", func() (err error) {
			command, err = TestInbox.AskAction(ctx, f.l, dead.ID, Replay, CommandDetail{}, "jo", "mended")
			return err
		}},
		{"what became of it", func() error { _, err := TestInbox.CommandStatus(ctx, f.l, command); return err }},
		{"the tokens", func() error { _, err := f.l.Tokens(ctx); return err }},
		{"all that people look at", func() error { return take(f.l.look) }},
		{"a heartbeat", func() error {
			alive, err := TestInbox.Beat(ctx, f.l, attempt)
			if !alive && err == nil {
				err = errors.New("not alive")
			}
			return err
		}},
		{"where it stands", func() error { _, err := TestInbox.ActionState(ctx, f.l, attempt); return err }},
		{"a result", func() error {
			_, err := TestInbox.Report(ctx, f.l, Report{AttemptRef: attempt, Status: Done})
			return err
		}},
		{"a pause", func() error {
			_, err := f.l.PauseDestination(ctx, "acme/coder", Pause{By: "jo", Reason: "broken"})
			return err
		}},
		{"the pauses", func() error { _, err := f.l.Destinations(ctx); return err }},
		{"the pauses that have ended", func() error { _, err := f.l.EndedPauses(ctx); return err }},
		{"the end of a pause", func() error {
			_, err := f.l.ResumeDestination(ctx, "acme/coder", "jo", "mended")
			return err
		}},
		{"how a destination fares", func() error { return f.l.FailDestination(ctx, "acme/coder", time.Now(), time.Time{}) }},
		{"the end of an outage", func() error { return f.l.EndOutage(ctx, "acme/coder", true) }},
		{"what is to be exported", func() error { _, err := f.n.Unexported(ctx, []*Claim{c}, 10); return err }},
		{"its payload", func() error { _, _, err := f.n.DeadPayload(ctx, dead); return err }},
		{"what was exported", func() error { return f.n.Exported(ctx, []*Claim{c}, []DeadLetter{dead}) }},
		{"a sweep", func() error { _, err := f.l.Sweep(ctx, SweepConfig{}); return err }},
		{"the beginning", func() error { _, err := f.n.Began(ctx); return err }},
		{"readiness", func() error { return f.l.Ping(ctx) }},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
	}
}

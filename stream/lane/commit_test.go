package lane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
	"github.com/forebay-io/forebay/stream/sink"
)

// inLedger is a scripted sink whose actions are statements in the ledger's database.
type inLedger struct{ *script }

func (inLedger) InLedger() {}

// What an action writes through Commit is there with its completion: once, after failures of every sort, and in the order
// of its lane.
func TestStatementIsExecutedWithItsCompletion(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	db, err := pgx.Connect(t.Context(), os.Getenv("TEST_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	_, err = db.Exec(t.Context(), "CREATE TABLE "+r.schema+".seen (n int GENERATED ALWAYS AS IDENTITY, event text NOT NULL CHECK (event <> 'b#2'))")
	if err != nil {
		t.Fatal(err)
	}
	insert := func(a sink.Action) sink.Statement {
		return sink.Statement{SQL: "INSERT INTO " + r.schema + ".seen (event) VALUES ($1)", Params: [][]byte{[]byte(a.Event.ID)}}
	}
	do := func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
		if a.Event.Entity == "c" && a.Attempt == 1 { // the answer is lost on its way to the sink
			if _, err := a.Commit(ctx, insert(a)); err != nil {
				return sink.Outcome{}, err
			}
			return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassNetwork, Err: errors.New("cut")}
		}
		tag, err := a.Commit(ctx, insert(a))
		if refused, ok := errors.AsType[*sink.StatementError](err); ok {
			err = &sink.AttemptError{Class: sink.ClassRejected, Err: refused}
		}
		return sink.Outcome{Response: []byte(tag)}, err
	}
	r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
		out, err := do(ctx, a)
		if err == nil || sink.ClassOf(err) == sink.ClassRejected { // a busy machine may need more attempts
			r.result <- a.Event.ID
		}
		return out, err
	}
	r.inLedger = true
	r.reopenClaim()
	r.feed("a", "b", "c", "a", "c")
	r.until(5)
	r.reopenClaim()
	same(t, "what is open", r.openActions(), []string{"b#2 dead_letter 1"})
	var seen string
	err = db.QueryRow(t.Context(), "SELECT string_agg(event, ' ' ORDER BY split_part(event, '#', 1), n) FROM "+r.schema+".seen").Scan(&seen)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what was written", seen, "a#1 a#4 c#3 c#5")
}

// answerLost is a ledger whose connection breaks at the COMMIT of a sink's statement, before the server has it or after, and that cannot be
// asked at first.
type answerLost struct {
	*ledger.Namespace
	proxy *pgtest.Proxy
	cut   pgtest.Cut
	away  atomic.Int32
}

func (l *answerLost) Commit(ctx context.Context, r ledger.Result, s sink.Statement) (string, error) {
	l.proxy.Cut.Store(&l.cut)
	return l.Namespace.Commit(ctx, r, s)
}

func (l *answerLost) Committed(ctx context.Context, r ledger.Result) (bool, error) {
	if l.away.Add(-1) >= 0 {
		return false, schemas.Errorf(schemas.Unavailable, "ask", "the ledger is away")
	}
	return l.Namespace.Committed(ctx, r)
}

// behindProxy has the lanes use the ledger through a proxy from their next start on.
func (r *real) behindProxy() *pgtest.Proxy {
	r.t.Helper()
	u, err := url.Parse(pgtest.URL(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	proxy := pgtest.NewProxy(r.t, u.Host)
	u.Host, u.RawQuery = proxy.Addr().String(), "sslmode=disable"
	l, err := ledger.Open(r.t.Context(), ledger.Config{URL: schemas.NewSecret(u.String()), Schema: r.schema, MaxConns: 4})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(l.Close)
	if r.ns, err = l.Namespace(r.t.Context(), triage); err != nil {
		r.t.Fatal(err)
	}
	return proxy
}

// What may have been committed is found out before anything else is said of it: it is done, also after its last attempt, and has no row that
// calls it open or dead.
func TestCommitWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		committed bool
		open      []string
	}{{true, nil}, {false, []string{"a#1 dead_letter 1"}}} {
		t.Run(fmt.Sprintf("committed=%t", tt.committed), func(t *testing.T) {
			t.Parallel()
			r := onPostgres(t)
			lost := &answerLost{proxy: r.behindProxy(), cut: pgtest.Cut{Commit: true, Before: !tt.committed}}
			lost.away.Store(2)
			r.retry = sink.RetryPolicy{Attempts: 1, Within: time.Hour, Min: time.Millisecond, Max: time.Millisecond}
			r.wrap = func(n *ledger.Namespace) Ledger { lost.Namespace = n; return lost }
			r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
				defer func() { r.result <- a.Event.ID }()
				if _, err := a.Commit(ctx, sink.Statement{SQL: "SELECT 1"}); err != nil {
					return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassNetwork, Err: err}
				}
				return sink.Outcome{}, nil
			}
			r.inLedger = true
			r.reopenClaim()
			r.feed("a")
			r.until(1)
			r.reopenClaim()
			same(t, "what is open", r.openActions(), tt.open)
			var rows int
			db, err := pgx.Connect(t.Context(), os.Getenv("TEST_DATABASE_URL"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close(context.Background())
			if err := db.QueryRow(t.Context(), "SELECT count(*) FROM "+r.schema+".actions_w1").Scan(&rows); err != nil || rows != len(tt.open) {
				t.Errorf("%d rows of actions, %v", rows, err)
			}
			if n := lost.away.Load(); n >= 0 {
				t.Errorf("it was not asked until there was an answer: %d", n)
			}
		})
	}
}

func TestOnlySinksInTheLedgerGetACommit(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Commit != nil {
				t.Error("a sink outside of the ledger has a Commit")
			}
			return sink.Outcome{}, nil
		}
		r.add("a")
		time.Sleep(time.Second)
		same(t, "calls", r.sink.ids(), []string{"a#1"})
	})
}

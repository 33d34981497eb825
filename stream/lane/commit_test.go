package lane

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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

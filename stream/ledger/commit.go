package ledger

// The transaction that a sink's statement and the ledger share, in three round trips.
//
//	lock    the action, so that an earlier transaction of it has ended, and the fence
//	read    whether the action is done already: then nothing is done
//	write   the completion, as the recording of results writes it (record.go), and whether it is there now
//	commit  the sink's statement and COMMIT in one round trip, in the time that is left until ctx ends
//
// The sink's statement is sent once: whether it may be executed again is for the lane to decide. Only a try that failed before the statement
// was sent, because the windows had rotated or a plan was old, is made again.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/marks"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/forebay-io/forebay/stream/sink"
)

// ErrFenced says that another claim holds the fence.
var ErrFenced = errors.New("the claim has lost its fence")

// Commit executes a sink's statement in the transaction that records r, the action's completion. So the statement takes
// effect once, whatever happens to this process, the connection or the fence: if the completion is recorded already, the statement is
// not executed again, and a fenced claim executes nothing. tag is the server's command tag ("UPDATE 1"). It is empty, and err nil, if an
// earlier Commit of the action was committed. In both cases the lane afterwards records the result as that of any attempt; a completion
// that is there twice does no harm.
//
// The statement is sent once at most. A *[sink.StatementError], [ErrFenced] or a kind Invalid or Internal means that nothing was written.
// After any other error, of kind Unavailable, the transaction may have been committed, which Committed finds out: before another result of the
// action is recorded, which would stand beside the completion and contradict it.
// Unqualified names are looked for in the schema that is named as the role, unless that is the ledger's, and in public. Commit may be called while others
// apply and record.
func (n *Namespace) Commit(ctx context.Context, r Result, s sink.Statement) (tag string, err error) {
	op := "commit an action of " + n.spec.Name
	if err := r.Validate(); err != nil {
		return "", &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	if r.Status != Done {
		return "", schemas.Errorf(schemas.Invalid, op, "status %q is not done", r.Status)
	}
	w, err := writeOf([]Result{r})
	if err != nil {
		return "", &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	var committed bool
	for refreshed := 0; ; refreshed++ {
		tag, committed, err = recorder{n}.commit(ctx, w, &r, s)
		if err == nil || isStatement(err) || refreshed >= maxRefresh {
			break
		}
		if trouble := troubleOf(err); trouble != oldWindows && trouble != pg.OldPlan {
			break
		}
		_ = n.loadWindows(ctx) // where it fails, the next try fails too, and says why
	}
	if err == nil && committed {
		w.markCommitted()
		return tag, nil
	}
	w.markUnknown() // also where nothing was written: the action is recorded like any other then
	switch {
	case err == nil: // recorded by an earlier Commit
		return "", nil
	case isStatement(err), errors.Is(err, ErrFenced):
		return "", err
	}
	return "", pg.Unavailable(op, err)
}

// Committed finds out whether an action is recorded as done, after a Commit of it that ended with the kind Unavailable. It waits for that
// Commit's transaction to end, and tries once: kind Unavailable, or [ErrFenced].
func (n *Namespace) Committed(ctx context.Context, r Result) (done bool, err error) {
	op := "find out whether an action of " + n.spec.Name + " was committed"
	if err := r.Validate(); err != nil {
		return false, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	err = n.inWindows(ctx, func(*windowSet) (err error) {
		conn, err := n.ledger.sinkConns.Acquire(ctx)
		if err != nil {
			return err
		}
		defer pg.RollbackAndRelease(conn)
		bounded, answered := n.ledger.sinkConns.Bounded(ctx)
		done, err = newSinkTx(conn, &r, actionLock(n.ledger.cfg.Schema, &r)).lockAndRead(bounded)
		return answered(err)
	})
	if err != nil && !errors.Is(err, ErrFenced) {
		err = pg.Unavailable(op, err)
	}
	return done, err
}

// isStatement reports whether the server refused the sink's statement itself, or the COMMIT behind it.
func isStatement(err error) bool {
	_, ok := errors.AsType[*sink.StatementError](err)
	return ok
}

// commit makes one try of the transaction. It returns committed false and no error if the action was recorded already. With an error
// committed is false too, but after a COMMIT without an answer the server may have committed.
func (rec recorder) commit(ctx context.Context, w *resultWrite, r *Result, s sink.Statement) (tag string, committed bool, err error) {
	l := rec.n.ledger
	conn, err := l.sinkConns.Acquire(ctx)
	if err != nil {
		return "", false, err
	}
	defer func() { pg.ReleaseAfter(conn, err) }()
	t := newSinkTx(conn, r, actionLock(l.cfg.Schema, r))
	bounded, answered := l.sinkConns.Bounded(ctx) // a short deadline for the ledger's statements; the sink's may run until ctx ends
	alreadyRecorded, err := t.lockAndRead(bounded)
	if err == nil && !alreadyRecorded {
		err = t.write(bounded, w, rec.n.windows.Load(), l.cfg.Schema, remaining(ctx))
	}
	if err = answered(err); err != nil || alreadyRecorded {
		return "", false, err
	}
	tag, err = executeAndCommit(ctx, conn, s)
	return tag, err == nil, err
}

// sinkTx is one try of the transaction.
type sinkTx struct {
	conn   *pgxpool.Conn
	r      *Result
	lock   int64        // key of the action's advisory lock
	fence  [][]byte     // arrays of one: ids, epochs, tokens
	done   pg.Statement // asks for the action's completion
	lookup [][]byte     // the parameters of done
}

// actionDone reports whether an action is recorded as done. It runs under the action's lock, which waits until an earlier transaction of
// the action has ended: so it sees what that one wrote.
const actionDone = `-- actionDone
SELECT EXISTS (SELECT FROM completions_w{w} WHERE fence = $1 AND bucket = $3 AND $4::int = ANY (lanes))
    OR EXISTS (SELECT FROM actions_w{w} WHERE fence = $1 AND lane_seq = $2 AND status = 'done')`

// newSinkTx makes a try with the parameters of its statements. It sends nothing.
func newSinkTx(conn *pgxpool.Conn, r *Result, lock int64) *sinkTx {
	c := r.Claim
	c.mu.Lock()
	window := c.windowOf(r.LaneSeq) // not 0: writeOf has checked
	c.mu.Unlock()
	bucket, lane := marks.Bucket(r.LaneSeq)
	return &sinkTx{
		conn: conn, r: r, lock: lock, fence: fencesOf(c).params(),
		done: pg.NewStatement(OfWindow(window, actionDone)),
		lookup: [][]byte{
			pg.Int32Param(c.ID), pg.Int64Param(r.LaneSeq), pg.Int64Param(bucket), pg.Int32Param(int32(lane)),
		},
	}
}

// actionLock is the key of an action's advisory lock.
func actionLock(schema string, r *Result) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "forebay action %s %d %d", schema, r.Claim.ID, r.LaneSeq))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// lockAndRead begins the transaction, takes the action's lock and returns whether the action is recorded as done already; ErrFenced if the
// claim is lost.
func (t *sinkTx) lockAndRead(ctx context.Context) (done bool, err error) {
	fenced := true
	p := &pg.Pipeline{Conn: t.conn}
	err = errors.Join(
		p.Add(ctx, pg.Begin, nil),
		p.Add(ctx, advisoryLock, nil, pg.Int64Param(t.lock)),
		p.Add(ctx, fenceCheck, func(*pg.Row) { fenced = false }, t.fence...),
		p.Add(ctx, notBehind, nil, revisionsOf(t.r.Claim)...),
		p.Add(ctx, t.done, func(r *pg.Row) { done = r.Bool() }, t.lookup...),
	)
	if err == nil {
		err = p.Run(ctx)
	}
	if err == nil && fenced || pg.IsMissed(err) {
		err = ErrFenced
	}
	return done, err
}

// write writes the completion before the sink's statement runs in the same transaction, checks that it was written, and sets search_path and the
// time that is left for the statement.
func (t *sinkTx) write(ctx context.Context, w *resultWrite, win *windowSet, schema, left string) error {
	l, err := w.steps(win, t.fence)
	if err != nil {
		return err
	}
	p, written := &pg.Pipeline{Conn: t.conn}, false
	err = errors.Join(
		l.queue(ctx, p),
		p.Add(ctx, t.done, func(r *pg.Row) { written = r.Bool() }, t.lookup...),
		p.Add(ctx, sessionOfStatement, nil, []byte(left), []byte(schema)),
	)
	if err == nil {
		err = p.Run(ctx)
	}
	if err == nil && !written {
		err = pg.Refuse(fmt.Errorf("the completion of action %d of fence %d was not written", t.r.LaneSeq, t.r.Claim.ID))
	}
	return err
}

var (
	advisoryLock = pg.NewStatement(`-- advisoryLock
SELECT pg_advisory_xact_lock($1)`)

	sessionOfStatement = pg.NewStatement(`-- sessionOfStatement
SELECT set_config('search_path', CASE WHEN current_user = $2 THEN 'public' ELSE '"$user", public' END, true), set_config('statement_timeout', $1, true), set_config('lock_timeout', '0', true),
       CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', '0', true) END`)
)

// remaining returns the milliseconds until ctx ends, for statement_timeout ("0" is no limit): the server ends a statement that nobody
// waits for.
func remaining(ctx context.Context) string {
	end, ok := ctx.Deadline()
	if !ok {
		return "0"
	}
	return strconv.FormatInt(max(1, time.Until(end).Milliseconds()), 10)
}

// executeAndCommit executes the statement and commits, in one round trip. What the server refuses is a [sink.StatementError]; after
// any other error the COMMIT may have been done. An error that ends the session, as that of a server that stops or of a pooler that has lost it,
// refuses nothing, and takes nothing back of a COMMIT that was answered.
func executeAndCommit(ctx context.Context, conn *pgxpool.Conn, s sink.Statement) (tag string, err error) {
	var batch pgconn.Batch
	batch.ExecParams(s.SQL, s.Params, nil, nil, nil)
	batch.ExecParams(pg.Commit.SQL, nil, nil, nil, nil)
	answered := pg.Committing(conn.Conn().PgConn())
	results := conn.Conn().PgConn().ExecBatch(ctx, &batch)
	committed := false
	for i := 0; results.NextResult(); i++ {
		commandTag, failed := results.ResultReader().Close()
		if failed != nil {
			break // Close of the whole says why
		}
		if i == 0 {
			tag = commandTag.String()
		} else if committed = commandTag.String() == "COMMIT"; !committed {
			_ = results.Close()
			return "", fmt.Errorf("commit: the server said %s", commandTag)
		}
	}
	err = results.Close()
	if committed {
		answered()
		return tag, nil
	}
	if conn.Conn().IsClosed() {
		return "", err
	}
	answered()
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return "", &sink.StatementError{Err: refused}
	}
	return "", err
}

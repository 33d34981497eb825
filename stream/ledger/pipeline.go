package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// statement is SQL with a name to prepare it under.
type statement struct {
	name, sql string
	fresh     bool // planned every time, on the table's size at that time; not prepared
	// counted is the name of a statement that fails, with a division by zero, where it finds other than all of its rows.
	counted string
}

func newStatement(sql string) statement {
	sum := sha256.Sum256([]byte(sql))
	return statement{name: "fb_" + hex.EncodeToString(sum[:12]), sql: sql}
}

func newFresh(sql string) statement {
	s := newStatement(sql)
	s.fresh = true
	return s
}

// newCounted is a statement that must hit as many rows as an array among its parameters has. It fails where it does not, on the
// server: COMMIT is in the same round trip, and the client's count would come too late. A statement on its own is held to one row
// by exactly, or by the row that it returns.
//
// Not counted is what
//
//   - makes a row of every element, or an error: linesInsert, bufferInsert, eventsInsert, rejectedInsert, rejectedReplace, actionsDead;
//   - gives a row to what has none and leaves what is done: actionsInsert, actionsUpdate, copyInsert. actionsStand and actionsKnown
//     ask for the rows instead. attemptsInsert keeps what stands there, and copyUpdate a copy: there the row is what is wanted;
//   - takes away, or ends, what may be there: rejectedDelete, linesForget, moveOutOfLog, backfillsReplace, the stops that a claim ends;
//   - says again what was said, and is asked again until it is: resultEnd, commandEnd of what was not found, staleWrite, LateWrite,
//     beatWrite, the end of a backfill, exportedWrite (a dead letter is exported once more), topics.left_at.
func newCounted(sql, array string) statement { return newCountedAs(sql, "cardinality("+array+")") }

// newCountedAs is the same of as many rows as the expression want says. What the statement writes itself, want does not see.
func newCountedAs(sql, want string) statement {
	name, _, _ := strings.Cut(strings.TrimPrefix(sql, "-- "), "\n")
	name, _, _ = strings.Cut(name, ":")
	return newStatement("WITH hit AS (" + sql + "\nRETURNING 1)\nSELECT 1 / (count(*) = " + want + ")::int FROM hit").counting(name)
}

func (s statement) counting(name string) statement {
	s.counted = name
	return s
}

// planned is newFresh of a statement.
func (s statement) planned() statement {
	s.fresh = true
	return s
}

// missedError says that a write has not found a row that must be there.
type missedError struct{ statement string }

func (e missedError) Error() string {
	return e.statement + " has not found every row that must be there"
}

// orMissed is the error of a counted statement that was not sent through a pipeline.
func orMissed(statement string, err error) error {
	if divided(err) {
		return refusal{missedError{statement}}
	}
	return err
}

func isMissed(err error) bool {
	_, ok := errors.AsType[missedError](err)
	return ok
}

var (
	begin    = newStatement(`begin`)
	commit   = newStatement(`commit`)
	rollback = newStatement(`rollback`)
)

// pipeline sends statements in one round trip and reads their results in order. Statements are prepared on the
// connection the first time it meets them, which costs a round trip then.
//
// It writes the statements of a batch itself, into memory that is used again: pgconn.Batch grows again to its 200 KiB every
// time. What pgconn reads then is what it reads of a batch of its own.
type pipeline struct {
	conn  *pgxpool.Conn
	out   *[]byte // nil: empty
	reads []func(*row)
	names []string // of counted statements, by the place of each; empty for others
}

// outs are used again.
var outs = sync.Pool{New: func() any { return new([]byte) }}

var inBinary = []int16{1} // the format of every parameter and result

// add queues s; read, if not nil, sees every row of its result.
func (p *pipeline) add(ctx context.Context, s statement, read func(*row), params ...[]byte) error {
	name := s.name
	if s.fresh {
		name = ""
	} else if _, err := p.conn.Conn().Prepare(ctx, s.name, s.sql); err != nil {
		return fmt.Errorf("prepare %s: %w", s.name, err)
	}
	if p.out == nil {
		p.out = outs.Get().(*[]byte)
	}
	messages := []encoder{
		&pgproto3.Bind{PreparedStatement: name, ParameterFormatCodes: inBinary, Parameters: params, ResultFormatCodes: inBinary},
		&pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{},
	}
	if s.fresh {
		messages = slices.Insert(messages, 0, encoder(&pgproto3.Parse{Query: s.sql}))
	}
	for _, m := range messages {
		out, err := m.Encode(*p.out)
		if err != nil {
			return fmt.Errorf("encode %s: %w", s.name, err)
		}
		*p.out = out
	}
	p.reads, p.names = append(p.reads, read), append(p.names, s.counted)
	return nil
}

// commit is run for what ends in a COMMIT.
func (p *pipeline) commit(ctx context.Context) error {
	answered := committing(p.conn.Conn().PgConn())
	err := p.run(ctx)
	if !unanswered(err) {
		answered()
	}
	return err
}

type encoder interface {
	Encode(dst []byte) ([]byte, error)
}

// run sends what was queued, reads all results and empties the pipeline.
func (p *pipeline) run(ctx context.Context) error {
	if p.out == nil {
		return nil
	}
	reads, names := p.reads, p.names
	if err := p.send(ctx); err != nil {
		return err
	}
	results := p.conn.Conn().PgConn().ExecBatch(ctx, &pgconn.Batch{}) // which ends what was sent
	var failed error
	at := 0
	for i := 0; results.NextResult(); i++ {
		at = i
		reader := results.ResultReader()
		for reader.NextRow() {
			if i >= len(reads) || reads[i] == nil || failed != nil {
				continue
			}
			r := row{vals: reader.Values()}
			reads[i](&r)
			failed = r.err
		}
		if _, err := reader.Close(); err != nil {
			break // Close of the whole says why
		}
	}
	err := results.Close()
	if divided(err) && at < len(names) && names[at] != "" {
		return refusal{missedError{names[at]}}
	}
	if _, answered := errors.AsType[*pgconn.PgError](err); err != nil && !answered {
		p.hangUp() // pgconn may not have sent the end of what we sent
	}
	return errors.Join(err, failed)
}

// send writes what was queued. Where it fails, or ctx ends meanwhile, the connection is closed: nobody knows what of it went out.
func (p *pipeline) send(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer func() {
		if cap(*p.out) <= maxKept {
			*p.out = (*p.out)[:0]
			outs.Put(p.out)
		}
		p.out, p.reads, p.names = nil, nil, nil
	}()
	conn := p.conn.Conn().PgConn()
	stop := context.AfterFunc(ctx, func() { _ = conn.Conn().SetDeadline(time.Now()) })
	_, err = conn.Conn().Write(*p.out)
	if !stop() {
		err = errors.Join(context.Cause(ctx), err) // the deadline is set, or will be
	}
	if err != nil {
		p.hangUp()
	}
	return err
}

// hangUp closes a connection on which nobody knows what the server has read.
func (p *pipeline) hangUp() {
	conn := p.conn.Conn().PgConn()
	if !conn.IsClosed() {
		_ = conn.Conn().SetDeadline(time.Now())
		_ = conn.Close(context.Background())
	}
}

// rollbackWithin bounds a ROLLBACK, on a server that has just answered.
const rollbackWithin = 5 * time.Second

// abandon gives a connection back in whatever state it is: rolled back, or closed where that is not possible.
func abandon(conn *pgxpool.Conn) {
	raw := conn.Conn().PgConn()
	if !raw.IsClosed() && raw.TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackWithin)
		defer cancel()
		if _, err := raw.Exec(ctx, rollback.sql).ReadAll(); err != nil {
			_ = raw.Close(ctx)
		}
	}
	conn.Release()
}

// discard closes a connection whose prepared statements are not to be trusted, and gives it back.
func discard(conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = conn.Conn().Close(ctx)
	conn.Release()
}

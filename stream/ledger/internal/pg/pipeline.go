package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pipeline sends statements in one round trip and reads their results in order. Statements are prepared on the
// connection the first time it meets them, which costs a round trip then.
//
// It writes the statements of a batch itself, into memory that is used again: pgconn.Batch grows again to its 200 KiB every
// time. What pgconn reads then is what it reads of a batch of its own.
type Pipeline struct {
	Conn  *pgxpool.Conn
	out   *[]byte // nil: empty
	reads []func(*Row)
	names []string // of counted statements, as reads; empty for others
}

// outs are buffers that are used again.
var outs = sync.Pool{New: func() any { return new([]byte) }}

var inBinary = []int16{1} // the format of every parameter and result

// Add queues s; read, if not nil, sees every row of its result.
func (p *Pipeline) Add(ctx context.Context, s Statement, read func(*Row), params ...[]byte) error {
	name := s.Name
	if s.Fresh {
		name = ""
	} else if _, err := p.Conn.Conn().Prepare(ctx, s.Name, s.SQL); err != nil {
		return fmt.Errorf("prepare %s: %w", s.Name, err)
	}
	if p.out == nil {
		p.out = outs.Get().(*[]byte)
	}
	messages := []encoder{
		&pgproto3.Bind{PreparedStatement: name, ParameterFormatCodes: inBinary, Parameters: params, ResultFormatCodes: inBinary},
		&pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{},
	}
	if s.Fresh {
		messages = slices.Insert(messages, 0, encoder(&pgproto3.Parse{Query: s.SQL}))
	}
	for _, m := range messages {
		out, err := m.Encode(*p.out)
		if err != nil {
			return fmt.Errorf("encode %s: %w", s.Name, err)
		}
		*p.out = out
	}
	p.reads, p.names = append(p.reads, read), append(p.names, s.Counted)
	return nil
}

// Commit is Run of statements that end in a COMMIT; see Committing.
func (p *Pipeline) Commit(ctx context.Context) error {
	answered := Committing(p.Conn.Conn().PgConn())
	err := p.Run(ctx)
	if !Unanswered(err) {
		answered()
	}
	return err
}

// encoder is a message of the protocol.
type encoder interface {
	Encode(dst []byte) ([]byte, error)
}

// Run sends what was queued, reads all results and empties the pipeline. If a counted statement has missed rows, the error is that of Missed.
func (p *Pipeline) Run(ctx context.Context) error {
	if p.out == nil {
		return nil
	}
	reads, names := p.reads, p.names
	if err := p.send(ctx); err != nil {
		return err
	}
	results := p.Conn.Conn().PgConn().ExecBatch(ctx, &pgconn.Batch{}) // sends our statements, and the Sync that ends them
	var readErr error
	last := 0 // the last statement with a result
	for i := 0; results.NextResult(); i++ {
		last = i
		reader := results.ResultReader()
		for reader.NextRow() {
			if i >= len(reads) || reads[i] == nil || readErr != nil {
				continue
			}
			r := Row{vals: reader.Values()}
			reads[i](&r)
			readErr = r.err
		}
		if _, err := reader.Close(); err != nil {
			break // Close of the whole says why
		}
	}
	err := results.Close()
	if dividedByZero(err) && last < len(names) && names[last] != "" {
		return Missed(names[last])
	}
	if _, answered := errors.AsType[*pgconn.PgError](err); err != nil && !answered {
		p.hangUp() // pgconn may not have sent the end of what we sent
	}
	return errors.Join(err, readErr)
}

// send has what was queued sent with the next write. If that fails, the connection is closed: nobody knows how much the server got.
func (p *Pipeline) send(ctx context.Context) (err error) {
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
	conn := p.Conn.Conn().PgConn()
	hold(conn, true)
	_, err = conn.Conn().Write(*p.out)
	hold(conn, false)
	if err != nil {
		p.hangUp()
	}
	return err
}

// hangUp closes a connection on which nobody knows what the server has read.
func (p *Pipeline) hangUp() {
	conn := p.Conn.Conn().PgConn()
	if !conn.IsClosed() {
		_ = conn.Conn().SetDeadline(time.Now())
		_ = conn.Close(context.Background())
	}
}

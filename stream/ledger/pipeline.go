package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// statement is SQL with a name to prepare it under.
type statement struct {
	name, sql string
	fresh     bool // planned every time, on the table's size at that time; not prepared
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

var (
	begin    = newStatement(`begin`)
	commit   = newStatement(`commit`)
	rollback = newStatement(`rollback`)
)

// pipeline sends statements in one round trip and reads their results in order. Statements are prepared on the
// connection the first time it meets them, which costs a round trip then.
type pipeline struct {
	conn  *pgxpool.Conn
	batch pgconn.Batch
	reads []func(*row)
}

var inBinary = []int16{1} // the format of every parameter and result

// add queues s; read, if not nil, sees every row of its result.
func (p *pipeline) add(ctx context.Context, s statement, read func(*row), params ...[]byte) error {
	if s.fresh {
		p.batch.ExecParams(s.sql, params, nil, inBinary, inBinary)
		p.reads = append(p.reads, read)
		return nil
	}
	sd, err := p.conn.Conn().Prepare(ctx, s.name, s.sql)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", s.name, err)
	}
	formats := inBinary
	if len(params) == 0 {
		formats = nil
	}
	p.batch.ExecStatement(sd, params, formats, inBinary)
	p.reads = append(p.reads, read)
	return nil
}

// run sends what was queued, reads all results and empties the pipeline.
func (p *pipeline) run(ctx context.Context) error {
	results := p.conn.Conn().PgConn().ExecBatch(ctx, &p.batch)
	var failed error
	for i := 0; results.NextResult(); i++ {
		reader := results.ResultReader()
		for reader.NextRow() {
			if i >= len(p.reads) || p.reads[i] == nil || failed != nil {
				continue
			}
			r := row{vals: reader.Values()}
			p.reads[i](&r)
			failed = r.err
		}
		if _, err := reader.Close(); err != nil {
			break // Close of the whole says why
		}
	}
	err := results.Close()
	p.batch, p.reads = pgconn.Batch{}, nil
	return errors.Join(err, failed)
}

// abandon gives a connection back in whatever state it is: rolled back, or closed where that is not possible.
func abandon(conn *pgxpool.Conn) {
	raw := conn.Conn().PgConn()
	if !raw.IsClosed() && raw.TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
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

package pg

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// flickering is a context that has ended from the n-th look at it on.
type flickering struct {
	context.Context
	looks atomic.Int32
	n     int32
	ended chan struct{}
}

func (f *flickering) Done() <-chan struct{} {
	if f.looks.Add(1) > f.n {
		return f.ended
	}
	return make(chan struct{})
}

// Value knows nothing of the context within, which has not ended: context.Cause would ask that one, and have no cause.
func (f *flickering) Value(any) any { return nil }

func (f *flickering) Err() error {
	if f.looks.Load() > f.n {
		return context.Canceled
	}
	return nil
}

// Whenever its context ends, a pipeline leaves no connection behind on which an answer is still to come.
func TestPipelineEndsWithItsContext(t *testing.T) {
	t.Parallel()
	conns := pool(t)
	cut := 0
	for n := range int32(40) {
		conn, err := conns.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		close(ended)
		p := &Pipeline{Conn: conn}
		seen := 0
		if err := errors.Join(p.Add(t.Context(), Begin, nil), p.Add(t.Context(), NewStatement(`SELECT n FROM generate_series(1, 3) AS n`), func(*Row) { seen++ })); err != nil {
			t.Fatal(err)
		}
		err = p.Run(&flickering{Context: t.Context(), n: n, ended: ended})
		raw := conn.Conn().PgConn()
		switch {
		case err == nil && (seen != 3 || raw.TxStatus() != 'T'):
			t.Errorf("look %d: %d rows, transaction %c", n, seen, raw.TxStatus())
		case err != nil && !raw.IsClosed():
			t.Errorf("look %d: %v, and the connection is open", n, err)
		case err != nil:
			cut++
		}
		RollbackAndRelease(conn)
	}
	if cut == 0 || cut == 40 {
		t.Errorf("%d of 40 were cut", cut)
	}
}

// A server that reads nothing any more ends with the context, not with the connection's buffers.
func TestPipelineToAServerThatReadsNothing(t *testing.T) {
	t.Parallel()
	conn, err := pool(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer RollbackAndRelease(conn)
	p := &Pipeline{Conn: conn}
	big := make([]byte, 64<<20) // more than the buffers of both sides
	if err := errors.Join(p.Add(t.Context(), NewStatement(`SELECT pg_sleep(2)`), nil), p.Add(t.Context(), NewFresh(`SELECT length($1::bytea)`), nil, big)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.Run(ctx); !errors.Is(err, context.DeadlineExceeded) || !conn.Conn().PgConn().IsClosed() {
		t.Errorf("%v, closed %v", err, conn.Conn().PgConn().IsClosed())
	}
}

package ledger

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
	f := setup(t)
	cut := 0
	for n := range int32(40) {
		conn, err := f.l.hot.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		close(ended)
		p := &pipeline{conn: conn}
		seen := 0
		if err := errors.Join(p.add(t.Context(), begin, nil), p.add(t.Context(), newStatement(`SELECT n FROM generate_series(1, 3) AS n`), func(*row) { seen++ })); err != nil {
			t.Fatal(err)
		}
		err = p.run(&flickering{Context: t.Context(), n: n, ended: ended})
		raw := conn.Conn().PgConn()
		switch {
		case err == nil && (seen != 3 || raw.TxStatus() != 'T'):
			t.Errorf("look %d: %d rows, transaction %c", n, seen, raw.TxStatus())
		case err != nil && !raw.IsClosed():
			t.Errorf("look %d: %v, and the connection is open", n, err)
		case err != nil:
			cut++
		}
		abandon(conn)
	}
	if cut == 0 || cut == 40 {
		t.Errorf("%d of 40 were cut", cut)
	}
}

// A server that reads nothing any more ends with the context, not with the connection's buffers.
func TestPipelineToAServerThatReadsNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	conn, err := f.l.hot.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer abandon(conn)
	p := &pipeline{conn: conn}
	big := make([]byte, 64<<20) // more than the buffers of both sides
	if err := errors.Join(p.add(t.Context(), newStatement(`SELECT pg_sleep(2)`), nil), p.add(t.Context(), newFresh(`SELECT length($1::bytea)`), nil, big)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.run(ctx); !errors.Is(err, context.DeadlineExceeded) || !conn.Conn().PgConn().IsClosed() {
		t.Errorf("%v, closed %v", err, conn.Conn().PgConn().IsClosed())
	}
}

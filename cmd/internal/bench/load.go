package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// load drives one HTTP server over keep-alive connections with requests prepared in advance, so that the client's own
// work, which shares the machine, is a write and a read of a few lines.
type load struct {
	addr     string
	conns    int
	requests []request
	unique   atomic.Uint64 // makes every delivery id of a run another one
}

// request is a whole HTTP/1.1 request; the 16 bytes at idAt are overwritten with a fresh delivery id each time.
type request struct {
	raw  []byte
	idAt int
}

// run sends for d, at least once on each connection, and returns how many were answered 202. Any other answer is an error: a figure with refusals in it
// is not a figure.
func (l *load) run(ctx context.Context, d time.Duration) (sent int64, elapsed time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var stop atomic.Bool
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()

	var total atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range l.conns {
		wg.Go(func() {
			n, err := l.connection(ctx, i, &stop)
			total.Add(n)
			if err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	elapsed = time.Since(begin)
	if cause := context.Cause(ctx); cause != nil {
		return total.Load(), elapsed, cause
	}
	return total.Load(), elapsed, nil
}

func (l *load) connection(ctx context.Context, i int, stop *atomic.Bool) (int64, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	own := make([]request, len(l.requests))
	for j, r := range l.requests {
		own[j] = request{bytes.Clone(r.raw), r.idAt}
	}
	in := bufio.NewReader(conn)
	var n int64
	for j := i; j == i || !stop.Load(); j++ {
		r := own[j%len(own)]
		copy(r.raw[r.idAt:], fmt.Sprintf("%016x", l.unique.Add(1)))
		if _, err := conn.Write(r.raw); err != nil {
			return n, err
		}
		status, err := readAnswer(in)
		if err != nil {
			return n, err
		}
		if status != 202 {
			return n, fmt.Errorf("the server answered %d instead of 202", status)
		}
		n++
	}
	return n, nil
}

var errAnswer = errors.New("not an HTTP/1.1 answer with a length")

// readAnswer reads one answer of a server that gives Content-Length, as both servers of this bench do.
func readAnswer(in *bufio.Reader) (status int, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 {
		return 0, errAnswer
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, errAnswer
	}
	length := -1
	for {
		line, err = in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("content-length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, errAnswer
			}
		}
	}
	if length < 0 {
		return 0, errAnswer
	}
	_, err = io.CopyN(io.Discard, in, int64(length))
	return status, err
}

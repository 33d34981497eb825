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

// senders deliver over keep-alive connections. Each connection has entities of its own and goes round them, so that an
// entity's deliveries are sent in order.
type senders struct {
	addr        string
	conns       int
	mix         []share // what is sent
	newTemplate func() *requestTemplate

	// hasRoom, if set, is asked before every delivery, with the number of deliveries sent so far: the delivery waits until it says true.
	hasRoom func(sent int64) bool
	// interval, if set, is the time from one delivery to the next, over all connections. A delivery is sent when it is due, unless its
	// connection still waits for an answer.
	interval time.Duration
	// overloads has deliveries refused (429, 503) and counted, and how long the accepted ones took kept.
	overloads bool

	refused  atomic.Int64
	took     []time.Duration // of those accepted, of the runs that ended; under mu
	sent     atomic.Int64    // accepted: answered 202
	mu       sync.Mutex
	accepted []receipt // when each was answered, of those that ended
	step     uint64    // of every entity at the beginning of the next run
}

// share is the part of a kind in a mix of deliveries: its weight, and how many entities of it each connection has.
type share struct {
	kind     uint64
	weight   int
	entities int
}

// run sends until stop is closed.
func (s *senders) run(ctx context.Context, stop <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var furthest atomic.Uint64
	begin := time.Now()
	for i := range s.conns {
		wg.Go(func() {
			step, err := s.connection(ctx, i, begin, stop)
			if err != nil {
				cancel(err)
			}
			for old := furthest.Load(); step > old && !furthest.CompareAndSwap(old, step); old = furthest.Load() {
			}
		})
	}
	wg.Wait()
	s.step = furthest.Load() + 1
	return context.Cause(ctx)
}

// connection sends what is connection i's and returns the highest step that an entity of it came to.
func (s *senders) connection(ctx context.Context, i int, begin time.Time, stop <-chan struct{}) (step uint64, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var accepted []receipt
	var took []time.Duration
	defer func() {
		s.mu.Lock()
		s.accepted, s.took = append(s.accepted, accepted...), append(s.took, took...)
		s.mu.Unlock()
	}()
	in, f, next := bufio.NewReader(conn), s.newTemplate(), s.schedule(i)
	for k := 0; ; k++ {
		due := time.Time{}
		if s.interval > 0 {
			due = begin.Add(time.Duration(k*s.conns+i) * s.interval)
		}
		if goes, err := s.wait(ctx, due, stop); err != nil || !goes {
			return step, err
		}
		delivery := next()
		step = max(step, stepOf(delivery))
		began := time.Now()
		if _, err := conn.Write(f.request(delivery)); err != nil {
			return step, err
		}
		status, err := readAnswer(in)
		if err != nil {
			return step, err
		}
		if s.overloads && (status == 503 || status == 429) {
			s.refused.Add(1)
			continue
		}
		if s.overloads {
			took = append(took, time.Since(began))
		}
		if status != 202 {
			return step, fmt.Errorf("the intake answered %d instead of 202", status)
		}
		accepted = append(accepted, receipt{delivery, time.Now().UnixNano()})
		s.sent.Add(1)
	}
}

// schedule returns the function that gives a connection's next delivery: kinds by their weight, and the entities of a kind in turn.
func (s *senders) schedule(conn int) func() uint64 {
	var order []int
	for i, m := range s.mix {
		for range m.weight {
			order = append(order, i)
		}
	}
	first := s.step
	count := make([]uint64, len(s.mix))
	at := conn // not all connections send the same kind at once
	return func() uint64 {
		i := order[at%len(order)]
		at++
		n, m := count[i], s.mix[i]
		count[i]++
		return deliveryOf(m.kind, first+n/uint64(m.entities), uint64(conn)*uint64(m.entities)+n%uint64(m.entities))
	}
}

// wait waits until a delivery is due and there is room for it. It returns false if stop is closed before.
func (s *senders) wait(ctx context.Context, due time.Time, stop <-chan struct{}) (bool, error) {
	for {
		select {
		case <-stop:
			return false, nil
		default:
		}
		now := time.Now()
		switch {
		case now.Before(due):
		case s.hasRoom != nil && !s.hasRoom(s.sent.Load()):
			due = now.Add(time.Millisecond)
		default:
			return true, nil
		}
		if err := waitUntil(ctx, due); err != nil {
			return false, err
		}
	}
}

// takeAccepted returns what was accepted in the runs since the last call.
func (s *senders) takeAccepted() []receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.accepted
	s.accepted = nil
	return list
}

// runFor runs the senders for some time, and returns how many deliveries were accepted.
func (s *senders) runFor(ctx context.Context, d time.Duration) (n int64, elapsed time.Duration, err error) {
	before, begin := s.sent.Load(), time.Now()
	err = s.runWhile(ctx, func(ctx context.Context) error { return waitUntil(ctx, begin.Add(d)) })
	s.takeAccepted()
	return s.sent.Load() - before, time.Since(begin), err
}

// runWhile runs the senders while do runs.
func (s *senders) runWhile(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		err := s.run(ctx, stop)
		if err != nil {
			cancel(err)
		}
		ended <- err
	}()
	err := do(ctx)
	close(stop)
	if sent := <-ended; sent != nil {
		return sent // what do says follows from it
	}
	return err
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

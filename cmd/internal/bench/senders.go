package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// senders deliver over keep-alive connections. Each connection has entities of its own and goes round them, so that an
// entity's deliveries are sent in order.
type senders struct {
	addr  string
	conns int
	mix   []share // what is sent
	form  func() *form

	// room, where set, is asked before every delivery: one for which there is none is not sent until there is.
	room func(sent int64) bool
	// pause, where set, is the time from one delivery to the next, over all connections: sent when it is due, whatever
	// became of the ones before, as far as the connections carry that.
	pause time.Duration

	sent     atomic.Int64 // accepted: answered 202
	mu       sync.Mutex
	accepted []receipt // when each was answered, of those that ended
	step     uint64    // of every entity at the beginning of the next run
}

// share says that of a mix so many deliveries are of a kind, which goes round so many entities of a connection.
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
	defer func() {
		s.mu.Lock()
		s.accepted = append(s.accepted, accepted...)
		s.mu.Unlock()
	}()
	in, f, next := bufio.NewReader(conn), s.form(), s.schedule(i)
	for k := 0; ; k++ {
		due := time.Time{}
		if s.pause > 0 {
			due = begin.Add(time.Duration(k*s.conns+i) * s.pause)
		}
		if goes, err := s.wait(ctx, due, stop); err != nil || !goes {
			return step, err
		}
		delivery := next()
		step = max(step, stepOf(delivery))
		if _, err := conn.Write(f.request(delivery)); err != nil {
			return step, err
		}
		status, err := readAnswer(in)
		if err != nil {
			return step, err
		}
		if status != 202 {
			return step, fmt.Errorf("the intake answered %d instead of 202", status)
		}
		accepted = append(accepted, receipt{delivery, time.Now().UnixNano()})
		s.sent.Add(1)
	}
}

// schedule is the order of a connection's deliveries: kinds by their weight, within a kind round its entities.
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

// wait waits until a delivery is due and there is room for it; false: until the end.
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
		case s.room != nil && !s.room(s.sent.Load()):
			due = now.Add(time.Millisecond)
		default:
			return true, nil
		}
		if err := until(ctx, due); err != nil {
			return false, err
		}
	}
}

// takeAccepted gives what was accepted in the runs since the last call.
func (s *senders) takeAccepted() []receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.accepted
	s.accepted = nil
	return list
}

// during runs the senders while do runs.
func (s *senders) during(ctx context.Context, do func(context.Context) error) error {
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

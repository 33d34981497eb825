package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"
)

// Fault is a way in which a call at a fake of an API goes wrong.
type Fault struct {
	Name   string
	act    bool // the fake does what it was asked to
	status int  // what is answered; 0: nothing, the connection is cut off
	partly bool // the fake's own answer, cut off in its middle
	hang   bool // nothing is answered until the caller gives up
	late   bool // the fake does what it was asked to, Lateness after the connection was cut off
}

const (
	// Lateness is how long after [ActingLate] a fake acts, and how long its lists may lack what was made.
	Lateness = 5 * time.Millisecond
	// Settle is what the seconds in the spec of a sink are where the destination is no later than that.
	Settle = 6 * Lateness
)

// Faults of a call.
var (
	BeforeActing   = Fault{Name: "cut off before acting"}
	AfterActing    = Fault{Name: "cut off after acting", act: true}
	WhileAnswering = Fault{Name: "cut off while answering", act: true, partly: true}
	Hanging        = Fault{Name: "hangs after acting", act: true, hang: true}
	ActingLate     = Fault{Name: "cut off, acts later", late: true}
)

// Refused returns an answer with a status in place of acting.
func Refused(status int) Fault {
	return Fault{Name: fmt.Sprintf("%d before acting", status), status: status}
}

// ActedThen returns an answer with a status after acting all the same, as proxies give it.
func ActedThen(status int) Fault {
	return Fault{Name: fmt.Sprintf("%d after acting", status), act: true, status: status}
}

// Faults wraps a fake and breaks its calls as scripted, one after the other. After the last fault it breaks none. Safe for concurrent
// use.
type Faults struct {
	Fake http.Handler

	mu     sync.Mutex
	next   []*Fault
	calls  int
	broken int // of the calls
	late   sync.WaitGroup
}

// Wait waits until what is done late is done.
func (f *Faults) Wait() {
	f.mu.Lock() // nothing begins meanwhile
	defer f.mu.Unlock()
	f.late.Wait()
}

// Break scripts the next calls; nil leaves one alone.
func (f *Faults) Break(faults ...*Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = faults
}

// Calls returns how many have come.
func (f *Faults) Calls() int {
	calls, _ := f.count()
	return calls
}

// count returns how many calls have come, and how many of them had a fault.
func (f *Faults) count() (calls, broken int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls, f.broken
}

// hangs reports whether one of the next calls hangs.
func (f *Faults) hangs() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.next, func(fault *Fault) bool { return fault != nil && fault.hang })
}

// take counts a call and returns its fault, nil if it has none.
func (f *Faults) take() *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if len(f.next) == 0 {
		return nil
	}
	fault := f.next[0]
	f.next = f.next[1:]
	if fault != nil {
		f.broken++
	}
	return fault
}

// ServeHTTP implements [http.Handler].
func (f *Faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := f.take()
	if fault == nil {
		f.Fake.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	if fault.act {
		f.Fake.ServeHTTP(answer, r)
	}
	switch {
	case fault.late:
		f.actLater(r)
	case fault.status != 0:
		w.WriteHeader(fault.status)
		return
	case fault.hang:
		_, _ = io.Copy(io.Discard, r.Body) // before that net/http does not see that the caller has gone
		<-r.Context().Done()
	case fault.partly:
		whole := answer.Body.Bytes()
		w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(whole[:len(whole)/2])
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}

// actLater has the fake do what it was asked to when nobody waits for the answer any more.
func (f *Faults) actLater(r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	late := r.Clone(context.Background())
	late.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late.Go(func() {
		<-time.After(Lateness)
		f.Fake.ServeHTTP(httptest.NewRecorder(), late)
	})
}

package ingest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// smallBody is the size of each delivery's own buffer, which many bodies fit into. As much of the budget is reserved before anything
// is read.
const smallBody = 4 << 10

// By how much the buffer of a larger body grows each time it is full. If the length is known it grows faster, so that most bodies
// need one step.
const (
	growth      = 4
	growthKnown = 16
)

var errBudget = errors.New("too many bytes in flight")

// budget bounds the bytes of bodies in memory.
type budget struct{ free int64 }

func (b *budget) take(n int64) bool {
	if atomic.AddInt64(&b.free, -n) >= 0 {
		return true
	}
	atomic.AddInt64(&b.free, n)
	return false
}

func (b *budget) release(n int64) { atomic.AddInt64(&b.free, n) }

// read reads the whole body within the server's read timeout. The body is never nil, and may be in d.buffer. held is how many bytes
// of the budget the caller must release, also after an error.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, d *delivery) (body []byte, held int64, err error) {
	if r.ContentLength > h.c.MaxBody {
		return nil, 0, &http.MaxBytesError{Limit: h.c.MaxBody}
	}
	from := r.Body
	if r.ContentLength < 0 {
		from = http.MaxBytesReader(w, r.Body, h.c.MaxBody)
	}
	if held = smallBody; !h.budget.take(held) {
		return nil, 0, errBudget
	}
	body = d.buffer[:0]
	for {
		if len(body) == cap(body) {
			grown := min(growth*int64(cap(body)), h.c.MaxBody+1)
			if n := r.ContentLength; n >= 0 {
				grown = min(growthKnown*int64(cap(body)), n+1) // one more for the read that finds the end
			}
			if !h.budget.take(grown - held) {
				return nil, held, errBudget
			}
			held = grown
			body = append(make([]byte, 0, grown), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			return body, held, nil
		case err != nil:
			return nil, held, err
		}
	}
}

// liftReadDeadline removes the server's read deadline if the wait for the broker may be longer: it would end the request's context.
// net/http sets it again for the next request.
func (h *Handler) liftReadDeadline(w http.ResponseWriter, s *Source) {
	if s.patience() >= h.c.ReadTimeout {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
}

// verdictOnBody returns the verdict on a body that could not be read.
func verdictOnBody(err error) verdict {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return verdict{outcome: tooLarge, reason: "intake"}
	}
	if errors.Is(err, errBudget) {
		return verdict{outcome: unavailable, reason: "in_flight", err: err}
	}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		return verdict{outcome: slow, err: err}
	}
	return verdict{outcome: incomplete, err: err}
}

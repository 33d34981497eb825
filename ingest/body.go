package ingest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// smallBuffer is the size of each delivery's own buffer, which many bodies fit into.
const smallBuffer = 4 << 10

// read reads the whole body within the server's read timeout. The body is never nil, and may be in d.buffer. The caller tells the room once
// d.arrival has arrived, and has it leave, also after an error.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, d *delivery) (body []byte, err error) {
	if r.ContentLength > h.c.MaxBody {
		return nil, &http.MaxBytesError{Limit: h.c.MaxBody}
	}
	from, most := r.Body, r.ContentLength+1 // one more for the read that finds the end
	if r.ContentLength < 0 {
		from, most = http.MaxBytesReader(w, r.Body, h.c.MaxBody), h.c.MaxBody+1
	}
	d.arrival.ends, _ = r.Context().Value(connKey{}).(departure)
	if err := h.room.enter(&d.arrival, w, r.Header, d.from, d.started); err != nil {
		return nil, err
	}
	body = d.buffer[:0]
	for {
		if len(body) == cap(body) {
			if body, err = h.enlarge(&d.arrival, body, most); err != nil {
				return nil, err
			}
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, h.room.ended(&d.arrival, err)
		}
		d.arrival.has(len(body))
	}
}

// enlarge moves a body that fills its buffer into a larger one, of at most the size most. While it is copied, the room holds both.
func (h *Handler) enlarge(a *arrival, body []byte, most int64) ([]byte, error) {
	size := h.grown(int64(cap(body)), most)
	if err := h.room.grow(a, size); err != nil {
		return nil, err
	}
	body = append(make([]byte, 0, size), body...)
	return body, h.room.moved(a, size)
}

// grown returns the size of a buffer after one that is full, or none. A small body has few steps and takes 64 KiB at most. A large one has at most
// twice as much as has come, whatever its length is said to be, and its steps end at most: so the last two buffers, which are there at
// once, are one and a half times that, and not up to twice.
func (h *Handler) grown(full, most int64) int64 {
	switch small := h.c.Limits.SmallBody; {
	case 4*full < small:
		return min(max(4*full, smallBuffer), most)
	case full < small:
		return min(small+1, most)
	}
	size := most
	for size > 2*full {
		size = (size + 1) / 2
	}
	return size
}

// unpack puts what a compressed body is without its compression in its place, where the source's signature is of that. Nobody has been verified yet:
// it may grow to what the source takes, in one pass, and has at most twice the memory of what has come out, for most bodies are some times as
// large and a stranger's may be a thousand. The room holds that beside the packed body. What cannot be unpacked stays as it is.
func (h *Handler) unpack(d *delivery) error {
	packed := d.request.Body
	if d.source == nil || !d.source.mapper().Proof().Unpacked || !schemas.Zipped(packed) {
		return nil
	}
	h.room.unpacks(&d.arrival)
	var text []byte
	z, err := gzip.NewReader(bytes.NewReader(packed))
	for most := d.source.MaxBody; err == nil; {
		if len(text) == cap(text) {
			if text, err = h.enlarge(&d.arrival, text, most+1); err != nil {
				return err
			}
		}
		var n int
		n, err = z.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if int64(len(text)) > most {
			err = fmt.Errorf("more than %d bytes once unpacked", most)
		}
		d.arrival.has(len(packed) + len(text)) // however busy the processors are, its pace is not the sender's
	}
	if errors.Is(err, io.EOF) {
		d.request.Body = text
	} else {
		d.packed = err
	}
	return nil
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
	if t, ok := errors.AsType[*bodyRefusal](err); ok {
		return verdict{outcome: t.outcome, reason: t.reason, err: err}
	}
	if timedOut(err) {
		return verdict{outcome: slow, reason: "timeout", err: err}
	}
	return verdict{outcome: incomplete, reason: "broken_off", err: err}
}

func timedOut(read error) bool {
	n, ok := errors.AsType[net.Error](read)
	return ok && n.Timeout() || errors.Is(read, os.ErrDeadlineExceeded)
}

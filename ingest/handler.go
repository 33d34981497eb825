package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
)

// Handler serves POST /v1/in/{team}/{source}. Safe for concurrent use.
//
// It answers 202 only if the delivery is durable, 4xx only if the sender did something wrong, and 503 otherwise. A delivery with a
// valid signature is never refused for its content.
type Handler struct {
	c       Config
	mux     *http.ServeMux
	metrics *metrics
	room    *room
	lines   *lines
	keeper  *keeper
	// If no verifier hashed the body, hashDummy hashes it with decoySecret, which is random, so that a refusal of an unknown source
	// takes as long as one of a known source. It is [Handler.hash], and a field so that tests can replace it.
	hashDummy   func(body []byte)
	decoySecret [32]byte
}

func (h *Handler) routes() {
	h.mux = http.NewServeMux()
	h.mux.HandleFunc("POST /v1/in/{team}/{source}", h.receive)
	h.mux.HandleFunc("/v1/in/{team}/{source}", func(w http.ResponseWriter, r *http.Request) {
		if h.ask(w, r) {
			return
		}
		w.Header().Set("Allow", http.MethodPost)
		h.answerMisdirected(w, r, "method", http.StatusMethodNotAllowed)
	})
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { h.answerMisdirected(w, r, "path", http.StatusNotFound) })
}

// mostHeaderLines is more than providers and the proxies before us send. Each line takes some 100 bytes, however short it is.
const mostHeaderLines = 100

// ServeHTTP serves the intake listener.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if headerLines(r.Header) > mostHeaderLines {
		h.answerMisdirected(w, r, "headers", http.StatusRequestHeaderFieldsTooLarge)
		return
	}
	// ServeMux redirects paths that are not clean; providers take a redirect for a failure, or follow it as a GET.
	if p := r.URL.Path; p == "" || p[0] != '/' || path.Clean(p) != p {
		h.answerMisdirected(w, r, "path", http.StatusNotFound)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// answerMisdirected answers what is no delivery at all. It is counted, for a provider may have been given a wrong URL.
func (h *Handler) answerMisdirected(w http.ResponseWriter, r *http.Request, reason string, status int) {
	h.note(r, &delivery{}, verdict{outcome: misdirected, reason: reason, detail: clip(r.Method) + " " + r.URL.Path[:min(len(r.URL.Path), 100)]})
	w.Header().Set("Connection", "close")
	writeProblem(w, status)
}

func headerLines(h http.Header) (lines int) {
	for _, values := range h {
		lines += len(values)
	}
	return lines
}

// NotAccepted counts a delivery that the caller answers 503 itself, since the process is starting or stopping.
func (h *Handler) NotAccepted(r *http.Request) {
	d := &delivery{}
	rest, _ := strings.CutPrefix(r.URL.Path, "/v1/in/")
	d.team, d.name, _ = strings.Cut(rest, "/")
	d.source, _ = h.c.Sources(d.team, d.name)
	h.note(r, d, verdict{outcome: unavailable, reason: "not_accepting"})
}

// note counts and logs what ended before it was handled.
func (h *Handler) note(r *http.Request, d *delivery, v verdict) {
	d.from = h.c.Limits.AddressOf(r)
	h.metrics.count(d, v)
	h.write(r.Context(), d, v, 0)
}

// delivery is one request while it is handled.
type delivery struct {
	team, name  string
	source      *Source    // nil: unknown
	from        netip.Addr // whom it counts for until its body has arrived
	arrival     arrival
	started     time.Time
	received    time.Time
	read        time.Time // when the body was there
	deadline    time.Time // when the wait for the log ends: just before the provider gives up
	size        int       // of the body
	packed      error     // why a compressed body could not be unpacked that is signed as it was before; nil: it was, or is none
	hashed      int64     // bytes that a source may have had to hash, if it takes bodies that are signed before they are compressed
	request     verify.Request
	event       *schemas.Event // &eventBuffer, once it is valid
	eventBuffer schemas.Event
	batch       *batch      // of a delivery with a list of events, in the place of event
	span        *trace.Span // nil: no event, no telemetry, or not sampled
	traceParent string      // the context in which its events are created; empty: none is yet
	traceState  string
	buffer      *[smallBuffer]byte // for a small body; reused by recycle, as are the event's headers
}

// deliveries are used again: without, BenchmarkHandler takes 20 % more processor, intake as a whole some 2 %.
var deliveries = sync.Pool{New: func() any { return &delivery{buffer: new([smallBuffer]byte)} }}

// recycle keeps the delivery's memory for the next request, unless the log may still use its body. It is called after the answer.
func (d *delivery) recycle(v verdict) {
	if v.outcome == unavailable || v.outcome == broken || v.spooled {
		return
	}
	headers := d.eventBuffer.Headers[:0]
	*d = delivery{buffer: d.buffer}
	d.eventBuffer.Headers = headers
	deliveries.Put(d)
}

// receive handles one delivery, from its request to its answer.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request) {
	h.metrics.inFlight.Inc()
	defer h.metrics.inFlight.Dec()
	d := deliveries.Get().(*delivery)
	d.team, d.name, d.started, d.received = r.PathValue("team"), r.PathValue("source"), time.Now(), h.c.Now()
	d.from = h.c.Limits.AddressOf(r)
	if s, ok := h.c.Sources(d.team, d.name); ok {
		d.source = s
	}
	v := h.process(w, r, d)
	d.span.End(failureOf(v))
	h.keepRefused(r, d, v)
	h.observe(r.Context(), d, v)
	if v.outcome == refused {
		d.request = verify.Request{} // frees the body during the wait
		waitBeforeRefusal(r.Context(), d)
	}
	h.answer(w, d, v)
	switch {
	case d.batch != nil && (v.outcome == accepted || v.outcome == quarantined):
		for _, e := range d.batch.events {
			d.source.Fields.Observe(e.Type, e.Data, d.started)
		}
	case v.outcome == accepted:
		d.source.Fields.Observe(d.event.Type, d.event.Data, d.started)
	}
	d.recycle(v)
}

// process runs the delivery through limit, verify, name and produce.
func (h *Handler) process(w http.ResponseWriter, r *http.Request, d *delivery) verdict {
	body, err := h.read(w, r, d)
	defer h.room.leave(&d.arrival)
	if err != nil {
		return verdictOnBody(err)
	}
	d.read, d.size, d.hashed = time.Now(), len(body), int64(len(body))
	if schemas.Zipped(body) {
		d.hashed = max(d.hashed, min(schemas.GzipMost*d.hashed, h.c.MaxBody, refusalUnpacked))
	}
	d.request = verify.Request{Method: r.Method, Query: r.URL.RawQuery, Header: r.Header, Body: body}
	if d.source != nil && d.source.mapper().Proof().URL {
		d.request.URL = d.source.calledURL(r.URL)
	}
	if err := cmp.Or(h.unpack(d), h.room.arrived(&d.arrival)); err != nil {
		return verdictOnBody(err)
	}
	if v, ok := h.authentic(d); !ok {
		return v
	}
	s := d.source
	if s.MaxBody > 0 && int64(len(body)) > s.MaxBody {
		return verdict{outcome: tooLarge, reason: "source"}
	}
	if s.Limiter != nil && !s.Limiter.Allow() {
		return verdict{outcome: throttled, reason: "source", wait: wait(s.Limiter)}
	}
	// After the source's, so that what is over that takes nothing from the team's other sources.
	if s.TeamLimiter != nil && !s.TeamLimiter.Allow() {
		return verdict{outcome: throttled, reason: "team", wait: wait(s.TeamLimiter)}
	}
	if answer := h.challenge(d); answer != nil {
		return verdict{outcome: handshake, handshake: answer}
	}
	h.liftReadDeadline(w, s)
	d.deadline = d.started.Add(s.patience())
	if s.mapper().Several() {
		elements, err := h.split(d)
		if err != nil {
			return h.quarantine(r.Context(), d, r.Host, err)
		}
		return h.appendEach(r.Context(), d, r.Host, elements)
	}
	event := &d.eventBuffer
	if err := h.guard(d, func() error { return s.mapper().Read(&d.request, d.received, event) }); err != nil {
		if v, is := verdictOnScope(err); is {
			return v
		}
		return h.quarantine(r.Context(), d, r.Host, err)
	}
	taken, err := h.finish(d, &d.request, event)
	if err != nil {
		return h.quarantine(r.Context(), d, r.Host, err)
	}
	d.event = event
	return d.stored(r.Context(), h.c.Log.Append(r.Context(), d.deadline, s.Topic, event), taken)
}

// challenge returns the answer to a handshake; nil if the delivery is none, or the preset's code panics: then it is read as an event.
func (h *Handler) challenge(d *delivery) (answer *provider.Answer) {
	err := h.guard(d, func() error {
		var is bool
		if answer, is = d.source.mapper().Challenge(&d.request); is && d.source.mapper().Confirm(&d.request) != nil {
			answer = &provider.Answer{Status: http.StatusServiceUnavailable}
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return answer
}

// ask answers a handshake that comes with another method than POST, where the source's provider has such. It has no body.
func (h *Handler) ask(w http.ResponseWriter, r *http.Request) bool {
	s, ok := h.c.Sources(r.PathValue("team"), r.PathValue("source"))
	if !ok {
		return false
	}
	verified, asks := s.mapper().Asks(r.Method)
	if !asks {
		return false
	}
	now := time.Now()
	d := &delivery{team: r.PathValue("team"), name: r.PathValue("source"), source: s, started: now, read: now, received: h.c.Now(),
		request: verify.Request{Method: r.Method, Query: r.URL.RawQuery, Header: r.Header, Body: []byte{}}}
	if verified {
		if v, ok := h.authentic(d); !ok { // it is answered as if there were no such source, at once
			h.observe(r.Context(), d, v)
			return false
		}
	}
	v := verdict{outcome: handshake, handshake: h.challenge(d)}
	if v.handshake == nil {
		return false
	}
	h.observe(r.Context(), d, v)
	h.answer(w, d, v)
	return true
}

// guard calls what reads a delivery. If that panics, it returns an *[provider.Unusable], so that the delivery goes to quarantine like any
// other that cannot become an event.
func (h *Handler) guard(d *delivery, read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if panicked := (lineKind{broken, "panic"}); h.lines.allow(panicked) {
				h.c.Logger.Error("mapping panicked", "team", d.team, "source", d.name, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			} else {
				h.lines.left.add(panicked)
			}
			err = &provider.Unusable{Reason: "internal", Detail: "the mapping panicked"}
		}
	}()
	return read()
}

// typeScope is the reason of a delivery whose agent may not send events of its type.
const typeScope = "event_type"

// verdictOnScope returns the verdict on a delivery whose sender may not send it, if that is what an error says. It is nothing of the content that
// a later mapping could mend: nothing is kept.
func verdictOnScope(err error) (verdict, bool) {
	_, is := errors.AsType[*provider.Forbidden](err)
	return verdict{outcome: forbidden, reason: typeScope, err: err}, is
}

// quarantine keeps an authentic delivery that cannot become an event.
func (h *Handler) quarantine(ctx context.Context, d *delivery, host string, cause error) verdict {
	u := d.unusable(cause, keptHeaders(d.request.Header, host, d.source.mapper()))
	err := h.c.Log.Quarantine(ctx, d.deadline, d.source.QuarantineTopic, u)
	return d.stored(ctx, err, verdict{outcome: quarantined, reason: knownReason(u.Reason), detail: u.Detail})
}

// unusable is the delivery as it is kept in quarantine, with why it cannot become an event.
func (d *delivery) unusable(cause error, headers []schemas.Header) *Delivery {
	reason, detail := whyUnusable(cause)
	return &Delivery{
		Team: d.team, Source: d.name, Kind: KindUnusable, Reason: reason, Detail: detail, Method: d.request.Method,
		URL: d.request.URL[:min(len(d.request.URL), maxURL)], Secret: d.request.Secret, Caller: d.request.Caller, Headers: headers, Body: d.request.Body, Received: d.received,
	}
}

func whyUnusable(cause error) (reason, detail string) {
	if u, ok := errors.AsType[*provider.Unusable](cause); ok {
		return u.Reason, u.Detail
	}
	if f, ok := errors.AsType[*schemas.FieldError](cause); ok {
		return f.Reason, f.Field + ": " + f.Detail
	}
	return "internal", ""
}

// stored returns the verdict on a delivery by what the log has said of it: v once it is durable. If it is not, it is never the sender's fault.
func (d *delivery) stored(ctx context.Context, err error, v verdict) verdict {
	kind := schemas.KindOf(err)
	switch {
	case errors.Is(err, ErrSpooled):
		v.spooled = true
		v.reason = cmp.Or(v.reason, onDisk)
		return v
	case err == nil:
		return v
	case !time.Now().Before(d.deadline):
		return verdict{outcome: unavailable, reason: "deadline", err: err}
	case ctx.Err() != nil:
		return verdict{outcome: unavailable, reason: "client_gone", err: err}
	case kind == schemas.Throttled, kind == schemas.Unavailable:
		return verdict{outcome: unavailable, reason: string(kind), err: err}
	}
	// The topic takes less than its source allows, or a bug: an operator has to act.
	return verdict{outcome: broken, reason: string(kind), err: err}
}

package ingest

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/ingest/verify"
)

// The kinds of deliveries in quarantine.
const (
	KindUnusable = "unusable" // authentic and acknowledged, and could not become an event
	KindRefused  = "refused"  // refused, and kept all the same: nobody was promised anything
)

// ReasonThrottled is the reason of a refused delivery that was authentic and over a quota. Every other one has a reason of verify.
const ReasonThrottled = "throttled"

const overRate = "over the rate of the " // the detail of those, before "source" or "team"

// WasAuthentic reports whether a refused delivery was verified when it came. The detail decides: an earlier build kept under this reason, too,
// what the limits of an address had ended before its signature was looked at.
func (d *Delivery) WasAuthentic() bool {
	return d.Reason == ReasonThrottled && (d.Detail == overRate+"source" || d.Detail == overRate+"team")
}

// KeepLimits say how many refused deliveries are kept, by each process.
type KeepLimits struct {
	Share float64 // of them, chosen by chance: above 0, 1 at most
	Most  int     // deliveries a day
	Bytes int64   // of bodies a day
}

const keepLimitsPer = 24 * time.Hour

// Refused keeps refused deliveries of a source in its quarantine topic. Safe for concurrent use.
//
// The answer does not wait for it, since its time must not show which sources exist: a process that is killed meanwhile has not kept the
// delivery. What a sender can have signed has limits of its own, so that a forger takes nothing from it.
type Refused struct {
	limits    KeepLimits
	throttled bool

	mu   sync.Mutex
	used [2]keptSince // of what nobody shows to be authentic, and of what is
}

// keptSince is what was kept since a time, which is zero at the beginning.
type keptSince struct {
	since time.Time
	count int
	bytes int64
}

// RefusedOf returns what keeps refused deliveries within limits: that of before, the source until now, if its limits are the same. nil limits
// keep nothing. throttled says to keep what is over a quota, too: for providers that do not send it again.
func RefusedOf(limits *KeepLimits, throttled bool, before *Source) *Refused {
	if limits == nil {
		return nil
	}
	if before != nil && before.Refused != nil && before.Refused.limits == *limits && before.Refused.throttled == throttled {
		return before.Refused
	}
	return &Refused{limits: *limits, throttled: throttled}
}

// take reports whether a delivery is kept.
func (k *Refused) take(now time.Time, authentic bool, size int) bool {
	if k.limits.Share < 1 && rand.Float64() >= k.limits.Share {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	used := &k.used[0]
	if authentic {
		used = &k.used[1]
	}
	if now.Sub(used.since) >= keepLimitsPer {
		*used = keptSince{since: now}
	}
	if used.count >= k.limits.Most || used.bytes+int64(size) > k.limits.Bytes {
		return false
	}
	used.count++
	used.bytes += int64(size)
	return true
}

const (
	keepMemory = 16 << 20 // most that refused deliveries hold which are being kept; one alone may have more
	keepWithin = 10 * time.Second
)

// keeper writes refused deliveries to the log, behind their answers.
type keeper struct {
	log     Log
	logger  *slog.Logger
	lines   *lines
	results *prometheus.CounterVec
	held    atomic.Int64 // bytes of what is being written
	writing sync.WaitGroup
}

func newKeeper(c Config, lines *lines) *keeper {
	k := &keeper{log: c.Log, logger: c.Logger, lines: lines, results: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "forebay", Subsystem: "ingest",
		Name: "refused_kept_total", Help: "Refused deliveries of sources with keep_refused: kept in quarantine, left out by share, most, bytes or for want of memory, or failed to be written."},
		[]string{"team", "source", "result"})}
	c.Registerer.MustRegister(k.results)
	return k
}

// keepRefused keeps a delivery that was refused, as far as its source wants that and it can be verified again or was authentic.
func (h *Handler) keepRefused(r *http.Request, d *delivery, v verdict) {
	if d.source == nil || d.source.Refused == nil || d.read.IsZero() {
		return
	}
	s, m := d.source, d.source.mapper()
	kept := &Delivery{Team: d.team, Source: d.name, Kind: KindRefused, Reason: v.reason, Method: r.Method, Received: d.received}
	// What the room ends is throttled, too, also when its body is there already; nobody has looked at its signature.
	authentic := v.outcome == throttled && (v.reason == "source" || v.reason == "team")
	switch e, ok := errors.AsType[*verify.Error](v.err); {
	case authentic && s.Refused.throttled:
		kept.Reason, kept.Detail, kept.Secret, kept.Caller = ReasonThrottled, overRate+v.reason, d.request.Secret, d.request.Caller
	case v.outcome != refused || len(m.SecretHeaders()) > 0: // the secret itself is the proof, and is not kept
		return
	case ok:
		kept.Detail, authentic = e.Detail, e.Signed
	}
	size := len(d.request.Body)
	if s.MaxBody > 0 && int64(size) > s.MaxBody { // it would have been refused for that
		return
	}
	weight := int64(size) + maxKept
	result := h.keeper.results.MustCurryWith(prometheus.Labels{"team": d.team, "source": d.name})
	if !s.Refused.take(d.received, authentic, size) || !h.keeper.hold(weight) {
		result.WithLabelValues("left_out").Inc()
		return
	}
	kept.URL, kept.Headers, kept.Body = d.request.URL[:min(len(d.request.URL), maxURL)], keptHeaders(r.Header, r.Host, m), slices.Clone(d.request.Body)
	ctx := context.WithoutCancel(r.Context())
	h.keeper.writing.Go(func() {
		defer h.keeper.held.Add(-weight)
		if err := h.keeper.log.Quarantine(ctx, time.Now().Add(keepWithin), s.QuarantineTopic, kept); err != nil {
			h.keeper.failed(ctx, kept, err)
			result.WithLabelValues("failed").Inc()
			return
		}
		result.WithLabelValues("kept").Inc()
	})
}

// hold takes memory for a delivery, unless too much is held.
func (k *keeper) hold(weight int64) bool {
	for {
		held := k.held.Load()
		if held > 0 && held+weight > keepMemory {
			return false
		}
		if k.held.CompareAndSwap(held, held+weight) {
			return true
		}
	}
}

func (k *keeper) failed(ctx context.Context, d *Delivery, err error) {
	if kind := (lineKind{unavailable, "keep_refused"}); !k.lines.allow(kind) {
		k.lines.left.add(kind)
		return
	}
	k.logger.WarnContext(ctx, "a refused delivery could not be kept", "team", d.Team, "source", d.Source, "reason", d.Reason, "error", err)
}

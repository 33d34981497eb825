package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// measureOpenActions lets a stream process decide a million events (Options.Open) whose destination does not answer, of many entities or of
// a single one. Then another process claims the open actions, of which nearly all stay in the ledger. It reports the most memory that
// either process has had. At last the destination answers for a while; it fails if actions come twice or out of their entity's order.
func (b *scaleBench) measureOpenActions(ctx context.Context, r *Report, name string, entities int) error {
	h, err := b.newBacklog(ctx, b.Open, 0)
	if err != nil {
		return err
	}
	defer h.close()
	b.logf("a stream process gets %d open actions of %d entities", b.Open, entities)
	first, err := h.serve(ctx, "stream")
	if err != nil {
		return err
	}
	defer first.stop()
	if err := errors.Join(h.produce(ctx, h.versionsInTurn(entities)), h.waitFull(ctx, first)); err != nil {
		return first.explain(err)
	}
	peak := residentMiB(first.pid(), "VmHWM")
	first.in.Close() // it stops, and waits for the calls under way
	if err := waitUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
		return err
	}
	h.destination.release(false)
	first.stop()

	second, err := h.serve(ctx, "stream")
	if err != nil {
		return err
	}
	defer second.stop()
	if err := errors.Join(h.waitFull(ctx, second), b.waitIdle(ctx, second.pid())); err != nil {
		return second.explain(err)
	}
	rest := residentMiB(second.pid(), "VmRSS")
	rate, err := b.drain(ctx, h)
	if err != nil {
		return second.explain(err)
	}
	most := max(peak, residentMiB(second.pid(), "VmHWM"))
	b.logf("%d open actions of %d entities: %.0f MiB at rest, %.0f MiB at most; %.0f actions/s in order once it may", b.Open, entities, rest, most, rate)
	r.Settings[name[:5]+"."+name[6:]] = fmt.Sprintf("forebay serve --roles stream with %d open actions of %d entities, %d partitions, bodies of %d bytes: "+
		"filled while the destination held its calls, claimed by a second process, and let through for %s", b.Open, entities, b.backlog.partitions, b.backlog.body, b.drainTime())
	r.Ratios = append(r.Ratios, atMost(name, "MiB resident at most, and allowed", most, memoryBar))
	return nil
}

func (b *scaleBench) drainTime() time.Duration { return 3 * b.Round }

// drain has the destination answer for a while, and for longer if nothing has come by then. It returns how many actions a second came.
func (b *scaleBench) drain(ctx context.Context, h *backlog) (rate float64, err error) {
	before, _, _ := h.destination.counts()
	h.destination.release(true)
	begin := time.Now()
	came, twice, missed := before, 0, int64(0)
	for came < h.count && (time.Since(begin) < b.drainTime() || came == before && time.Since(begin) < 5*time.Minute) {
		if err := waitUntil(ctx, time.Now().Add(b.drainTime()/100)); err != nil {
			return 0, err
		}
		came, twice, missed = h.destination.counts()
	}
	took := time.Since(begin)
	switch {
	case missed > 0 || twice > 0:
		return 0, fmt.Errorf("of %d actions %d came again and %d were left out or came out of order", came, twice, missed)
	case came == before:
		return 0, errors.New("nothing came in the time of the drain; a longer --round is needed")
	}
	return float64(came-before) / took.Seconds(), nil
}

// versionsInTurn returns the backlog's events: version 1 of each entity, then version 2 of each, until there are enough.
func (h *backlog) versionsInTurn(entities int) iter.Seq[*schemas.Event] {
	return func(yield func(*schemas.Event) bool) {
		for i := range h.count {
			if !yield(h.event(fmt.Sprintf("m-%d", i%entities), int64(i/entities+1))) {
				return
			}
		}
	}
}

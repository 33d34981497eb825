package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// apply applies a batch. If the database refuses its data, or it takes too long, apply applies the halves one after the other. A single
// record whose data is refused is quarantined. A partition that is refused for another reason, or whose record is refused even without its
// bytes, has that in its Applied.Refused, and the others go on. An error means that trying again later may help.
func (b batchWriter) apply(ctx context.Context, parts []*partitionBatch) error {
	err := b.untilDone(ctx, parts)
	if err != nil && pg.DuplicateKey(err) && ctx.Err() == nil {
		// A row was there that was not looked for: because a cached version line was wrong, another partition's batch wrote it, or an event came
		// again after so long that it is not looked up at first. Now version lines are read again (the cache was discarded) and all keys looked up.
		b.askAllKeys(parts)
		err = b.untilDone(ctx, parts)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	total := 0
	for _, w := range parts {
		total += len(w.Records)
	}
	switch trouble := troubleOf(err); {
	case pg.IsMissed(err): // a row that must be there was not: another try would read the tables again, and hide that the claim was wrong
		for _, w := range parts {
			b.refuseMissed(ctx, w, err)
		}
		return nil
	case trouble == pg.Permanent || (trouble == pg.BadData && total == 0):
		return b.isolate(ctx, parts, err)
	case trouble == pg.BadData && total == 1:
		return b.quarantineRecord(ctx, parts, err)
	case trouble == pg.Slow || pg.Locked(err):
		if total <= 1 {
			return b.retryAlone(ctx, parts, err)
		}
		b.n.ledger.cfg.Logger.WarnContext(ctx, "ledger batch takes too long; trying it in parts", "subscription", b.n.spec.Name, "records", total, "error", pg.Redact(err))
	case trouble != pg.BadData:
		return err
	}
	// Data was refused, or it took too long, and there are records to divide.
	left, right, join := split(parts, total/2)
	if err := b.apply(ctx, left); err != nil {
		return err
	}
	if right = withoutEnded(left, right); len(right) > 0 {
		if err := b.apply(ctx, right); err != nil {
			return err
		}
	}
	join()
	return nil
}

// withoutEnded returns those of right whose partitions were written in left, or were not in it: what follows a part that was refused or
// fenced must not be written.
func withoutEnded(left, right []*partitionBatch) []*partitionBatch {
	ended := map[*Claim]bool{}
	for _, w := range left {
		ended[w.Claim] = w.applied.Refused != nil || w.applied.Fenced || w.applied.ReplayEnded
	}
	return slices.DeleteFunc(right, func(w *partitionBatch) bool { return ended[w.Claim] })
}

// maxAlone is how often a single record that takes too long is tried again.
const maxAlone = 3

// retryAlone tries a batch with at most one record again. If it still takes too long, its partition is refused: the
// database is slow, so nothing is quarantined.
func (b batchWriter) retryAlone(ctx context.Context, parts []*partitionBatch, cause error) error {
	if len(parts) > 1 {
		return b.isolate(ctx, parts, cause)
	}
	for range maxAlone {
		switch err := b.untilDone(ctx, parts); {
		case err == nil, ctx.Err() != nil:
			return err
		case troubleOf(err) == pg.Slow || pg.Locked(err):
			cause = err
		default:
			return b.apply(ctx, parts)
		}
	}
	return b.isolate(ctx, parts, fmt.Errorf("it was tried %d times, alone: %w", maxAlone+1, cause))
}

// isolate applies each partition of a batch on its own. If there is only one, it is refused, for cause.
func (b batchWriter) isolate(ctx context.Context, parts []*partitionBatch, cause error) error {
	if len(parts) == 1 {
		parts[0].refuse(pg.Redact(cause))
		return nil
	}
	for _, w := range parts {
		if err := b.apply(ctx, []*partitionBatch{w}); err != nil {
			return err
		}
	}
	return nil
}

// refuseMissed refuses a partition of a batch that has not found a row which must be there: one of the batch's claims remembers something
// wrong. The next claims read what the tables have.
func (b batchWriter) refuseMissed(ctx context.Context, w *partitionBatch, cause error) {
	p := w.Claim.Partition
	b.n.ledger.cfg.Logger.ErrorContext(ctx, "the ledger differs from what a claim of the batch remembers: this is a fault of forebay, please report it; nothing is written, and the "+
		"partition will be claimed again", "subscription", b.n.spec.Name, "topic", p.Topic, "partition", p.Number, "error", cause)
	w.refuse(&ContinuityError{Partition: p, Stored: w.Claim.Next.Offset, From: w.Claim.Next.Offset, Detail: cause.Error()})
}

// quarantineRecord has the one record of a batch quarantined, and applies the batch again: first with the record's bytes, the next time
// without. If even that was refused, so is the partition.
func (b batchWriter) quarantineRecord(ctx context.Context, parts []*partitionBatch, cause error) error {
	for _, w := range parts {
		if len(w.Records) == 0 {
			continue
		}
		withoutBytes, secondTime := w.refusedData[0]
		if secondTime && withoutBytes {
			return b.isolate(ctx, parts, cause)
		}
		w.refusedData = map[int]bool{0: secondTime} // the second time without bytes
		r := w.Records[0]
		r.Error = pg.Clean("the database refused the record: "+pg.Redact(cause).Error(), 4096)
		w.Records = []Record{r} // the caller's slice stays as it is
		b.n.ledger.cfg.Logger.ErrorContext(ctx, "record quarantined", "subscription", b.n.spec.Name, "topic", w.Claim.Partition.Topic,
			"partition", w.Claim.Partition.Number, "offset", r.Offset, "reason", "data_rejected", "error", pg.Redact(cause))
	}
	return b.apply(ctx, parts)
}

// split cuts a batch before the record with index at, counted over all partitions. Once both halves were applied, join sets the results of
// the partition that was cut in two.
func split(parts []*partitionBatch, at int) (left, right []*partitionBatch, join func()) {
	type half struct{ w, l, r *partitionBatch }
	var halves []half
	for _, w := range parts {
		switch n := len(w.Records); {
		case at >= n:
			left = append(left, w)
			at -= n
		case at <= 0:
			right = append(right, w)
		default:
			middle := Position{Offset: w.Records[at].Offset, LeaderEpoch: w.Records[at-1].LeaderEpoch}
			l := &partitionBatch{Slice: Slice{Claim: w.Claim, From: w.From, Records: w.Records[:at], Next: middle}, askAllKeys: w.askAllKeys, replay: w.replay}
			r := &partitionBatch{Slice: Slice{Claim: w.Claim, From: middle.Offset, Records: w.Records[at:], Next: w.Next}, askAllKeys: w.askAllKeys, replay: w.replay.rest()}
			left, right = append(left, l), append(right, r)
			halves = append(halves, half{w, l, r})
			at = 0
		}
	}
	return left, right, func() {
		for _, h := range halves {
			h.w.applied = h.l.applied.Join(h.r.applied, len(h.l.Records))
		}
	}
}

// Join returns the result of a slice whose two parts were applied one after the other; shift is how many records the first one has. If the
// partition ends with one of them, the result is that one's alone: whoever claims it next reads the other's from the tables.
func (l Applied) Join(r Applied, shift int) Applied {
	switch {
	case l.Refused != nil, l.Fenced, l.ReplayEnded:
		return l
	case r.Refused != nil, r.Fenced:
		return r
	}
	for _, o := range r.Outcomes {
		if o.Record >= 0 { // -1: of no record of this slice
			o.Record += shift
		}
		l.Outcomes = append(l.Outcomes, o)
	}
	for _, a := range r.Actions {
		if a.Record >= 0 {
			a.Record += shift
		}
		l.Actions = append(l.Actions, a)
	}
	for _, q := range r.Quarantined {
		l.Quarantined = append(l.Quarantined, q+shift)
	}
	l.Waiting, l.BackfillRequested = r.Waiting, l.BackfillRequested || r.BackfillRequested
	l.ReplayEnded = r.ReplayEnded // of the live events nothing ends, so the first part's outcomes are handed on
	return l
}

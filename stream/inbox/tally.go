package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Tally is what waits for an operator in a ledger, as [Inbox.CountAttention] has counted it, by subscription. With thousands of subscriptions a
// look has no time for all of them: what it has counted is kept, and the next one goes on behind it. The zero value has counted nothing. Not
// safe for concurrent use.
type Tally struct {
	// FactsFailed is why the last look could not look at dead letters for alerts, which go by what was found before; nil if it could.
	FactsFailed error

	of    map[string]*tallied // by the full names of the ledger's subscriptions
	begin string              // the subscription that the next look begins with
}

// tallied is what was counted of one subscription the last time.
type tallied struct {
	counted bool // it was counted once at least
	counts  []AttentionCount
	dead    *DeadFacts
	failed  error // of its last count
}

// Counts returns how much of each kind waits in each subscription, by its name; what is 0 is left out. It is never nil.
func (t *Tally) Counts() []AttentionCount {
	out := []AttentionCount{}
	for _, one := range t.of {
		out = append(out, one.counts...)
	}
	slices.SortStableFunc(out, func(a, b AttentionCount) int {
		return cmp.Or(cmp.Compare(a.Team, b.Team), cmp.Compare(a.Subscription, b.Subscription))
	})
	return out
}

// Dead returns what alerts want to know of the dead letters of each subscription that has some, by its name.
func (t *Tally) Dead() (out []DeadFacts) {
	for _, one := range t.of {
		if one.dead != nil {
			out = append(out, *one.dead)
		}
	}
	slices.SortFunc(out, func(a, b DeadFacts) int {
		return cmp.Or(cmp.Compare(a.Team, b.Team), cmp.Compare(a.Subscription, b.Subscription))
	})
	return out
}

// only forgets the subscriptions that the ledger does not have any more.
func (t *Tally) only(all []attended) {
	of := make(map[string]*tallied, len(all))
	for _, s := range all {
		of[s.Name] = cmp.Or(t.of[s.Name], &tallied{})
	}
	t.of = of
}

// unknown returns why the counts are not those of the whole ledger; nil if they are.
func (t *Tally) unknown() error {
	missing, failed := 0, error(nil)
	for _, one := range t.of {
		if !one.counted {
			missing++
		}
		failed = cmp.Or(one.failed, failed)
	}
	if failed == nil && missing > 0 {
		failed = fmt.Errorf("%d of %d subscriptions are not counted yet; the next look goes on there", missing, len(t.of))
	}
	return failed
}

// CountAttention counts what waits for an operator in the ledger, from where the look before has ended, until all subscriptions are counted or
// ctx ends. What it has counted is in t, whatever it returns. An error says why that is not the whole ledger: a subscription was never counted,
// or could not be now. It reads nothing of what is done: see attentionReads.
func (b *Inbox) CountAttention(ctx context.Context, t *Tally) error {
	if err := b.countAttention(ctx, t); err != nil {
		return ledger.Unavailable("count what waits for an operator", err)
	}
	return nil
}

func (b *Inbox) countAttention(ctx context.Context, t *Tally) error {
	a := attendance{b.slow}
	all, err := a.subscriptions(ctx, 0)
	if err != nil {
		return err
	}
	t.only(all)
	t.FactsFailed = nil
	begin := max(0, slices.IndexFunc(all, func(s attended) bool { return s.Name == t.begin }))
	for n := range all {
		at := (begin + n) % len(all)
		s := all[at]
		err := t.take(ctx, a, s)
		if err != nil && ctx.Err() != nil && n > 0 { // cut off: it is the first of the next look, and has all of its time
			t.begin = s.Name
			break
		}
		t.of[s.Name].failed, t.begin = err, all[(at+1)%len(all)].Name
		if _, answered := errors.AsType[*pgconn.PgError](err); err != nil && !answered {
			return err // nobody answers, so nobody will for the next one
		}
	}
	return t.unknown()
}

// take counts one subscription. What fails leaves what was counted before.
func (t *Tally) take(ctx context.Context, a attendance, s attended) error {
	one := t.of[s.Name]
	var counts []AttentionCount
	err := a.one(ctx, s, func(tx pgx.Tx, s attended) (err error) {
		counts, err = s.count(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	one.counted, one.counts = true, counts
	if !slices.ContainsFunc(counts, func(c AttentionCount) bool { return c.Kind == AttentionDead }) {
		one.dead = nil
		return nil
	}
	var dead *DeadFacts
	err = a.one(ctx, s, func(tx pgx.Tx, s attended) (err error) {
		dead, err = s.deadFacts(ctx, tx)
		return err
	})
	if err != nil { // what waits is known all the same
		t.FactsFailed = cmp.Or(t.FactsFailed, err)
		return nil
	}
	one.dead = dead
	return nil
}

// count counts what waits in a subscription; what is 0 is left out.
func (s attended) count(ctx context.Context, tx pgx.Tx) (out []AttentionCount, err error) {
	rows, err := tx.Query(ctx, ledger.OfWindows(s.Windows, attentionCount), s.ID, attentionReads, overdueAfter.Microseconds())
	if err != nil {
		return nil, err
	}
	var kind int
	var count, read int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &count, &read}, func() error {
		if count > 0 {
			c := AttentionCount{Kind: AttentionKinds()[kind], Count: count, More: read >= attentionReads}
			c.Team, c.Subscription, _ = strings.Cut(s.Name, ".")
			out = append(out, c)
		}
		return nil
	})
	return out, err
}

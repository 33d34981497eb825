package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// Counts returns how much of each kind waits in each subscription, by its name; what is 0 is left out. It is nil as long as nothing was counted.
func (t *Tally) Counts() []AttentionCount {
	counted, out := t.of != nil && len(t.of) == 0, []AttentionCount{} // a ledger without subscriptions is counted
	for _, one := range t.of {
		counted, out = counted || one.counted, append(out, one.counts...)
	}
	if !counted {
		return nil
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

// Missing returns why the counts of a team, and as those of "" all counts, are not whole: subscriptions could not be counted the last time, of
// which the first is named, or were never counted. A team whose counts are whole is left out.
func (t *Tally) Missing() map[string]error {
	of := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(t.of)) {
		team, _, _ := strings.Cut(name, ".")
		of[team], of[""] = append(of[team], name), append(of[""], name)
	}
	out := map[string]error{}
	for team, names := range of {
		if err := t.missing(names); err != nil {
			out[team] = err
		}
	}
	return out
}

func (t *Tally) missing(names []string) error {
	missing, failed := 0, []error(nil)
	for _, name := range names {
		if !t.of[name].counted {
			missing++
		}
		if err := t.of[name].failed; err != nil {
			failed = append(failed, err)
		}
	}
	switch {
	case len(failed) > 1:
		return fmt.Errorf("%w; %d of %d subscriptions cannot be counted", failed[0], len(failed), len(names))
	case len(failed) == 1:
		return failed[0]
	case missing > 0:
		return fmt.Errorf("%d of %d subscriptions are not counted yet; the next look goes on there", missing, len(names))
	}
	return nil
}

// CountAttention counts what waits for an operator in the ledger, from where the look before has ended, until all subscriptions are counted or
// ctx ends. What it has counted is in t, whatever it returns, and t says what is missing. An error, of kind Unavailable, says that the ledger
// does not answer. It reads nothing of what is done: see attentionReads.
func (b *Inbox) CountAttention(ctx context.Context, t *Tally) error {
	if err := b.countAttention(ctx, t); err != nil {
		return ledger.Unavailable("count what waits for an operator", err)
	}
	return nil
}

func (b *Inbox) countAttention(ctx context.Context, t *Tally) error {
	t.FactsFailed = nil
	a := attendance{b.slow}
	all, err := a.subscriptions(ctx, 0)
	if err != nil {
		return err
	}
	t.only(all)
	begin := max(0, slices.IndexFunc(all, func(s attended) bool { return s.Name == t.begin }))
	for n := range all {
		at := (begin + n) % len(all)
		s := all[at]
		err := t.take(ctx, a, s)
		first, over := n == 0, isOver(ctx, err)
		t.begin = all[(at+1)%len(all)].Name
		if over && !first { // it has all of the next look's time; one that has had a look's time holds up no other
			t.begin = s.Name
		}
		switch {
		case over && ctx.Err() == nil:
			return err // nobody answers, so nobody will for the next one
		case over && !first:
			return nil
		}
		t.of[s.Name].failed = nil
		if err != nil {
			t.of[s.Name].failed = ledger.Unavailable("count what waits in "+s.Name, err)
		}
	}
	return nil
}

// isOver reports whether an error ends a look: its time is over, or the server is gone. That the server refuses a statement does not.
func isOver(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return err != nil
	}
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if !answered {
		return true
	}
	severity := cmp.Or(pg.SeverityUnlocalized, pg.Severity)
	return severity == "FATAL" || severity == "PANIC" // with these it closes the connection
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
	if !slices.ContainsFunc(counts, func(c AttentionCount) bool { return c.Kind == AttentionDead || c.Kind == AttentionLoop }) {
		one.dead = nil
		return nil
	}
	var dead *DeadFacts
	err = a.one(ctx, s, func(tx pgx.Tx, s attended) (err error) {
		dead, err = s.deadFacts(ctx, tx)
		return err
	})
	if isOver(ctx, err) {
		return err
	}
	if err != nil { // what waits is known all the same
		t.FactsFailed = cmp.Or(t.FactsFailed, ledger.Unavailable("look at the dead letters of "+s.Name, err))
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

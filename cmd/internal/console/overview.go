package console

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// part is a part of a page that may not be had: then the page says why, and shows the rest.
type part[T any] struct {
	Value   T
	Problem string
}

// ask asks for a part, for partTimeout at most.
func ask[T any](ctx context.Context, question func(context.Context) (T, error)) (p part[T]) {
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	v, err := question(ctx)
	if p.Value = v; err != nil {
		p.Problem = err.Error()
	}
	return p
}

// overview is what runs, and what waits for an operator.
type overview struct {
	Attention     part[*api.Attention]
	Waits         []api.AttentionCount // kinds of which something waits
	Checks        part[[]api.Check]    // those that fail
	Subscriptions []subscriptionRow
	Destinations  part[[]api.DestinationItem]
	NoStream      bool // this process has no ledger: what needs it is left out
	Sources       []api.SourceItem
	Charts        []chart
}

type subscriptionRow struct {
	api.SubscriptionItem
	Lag part[*lag]
}

// Claimed is how many partitions are being claimed.
func (s subscriptionRow) Claimed() int {
	n := s.Counts
	return max(0, n.Total-n.Running-n.Stopped-n.Unread)
}

func (c *Console) overview(ctx context.Context, r *http.Request) (any, error) {
	if err := onlyKnown(r); err != nil {
		return nil, err
	}
	now := time.Now()
	c.history.refresh(now)
	o := overview{Sources: c.Sources(), NoStream: c.DeadLetters == nil, Charts: c.history.charts(now)}
	var all sync.WaitGroup
	all.Go(func() {
		o.Attention = ask(ctx, func(ctx context.Context) (*api.Attention, error) {
			return c.Attention(ctx, api.AttentionFilter{Limit: 1})
		})
	})
	all.Go(func() {
		o.Checks = ask(ctx, func(ctx context.Context) ([]api.Check, error) { return failing(c.Ready(ctx)), nil })
	})
	all.Go(func() {
		if c.Destinations != nil {
			o.Destinations = ask(ctx, c.Destinations.Destinations)
		}
	})
	all.Go(func() { o.Subscriptions = c.subscriptions(ctx) })
	all.Wait()
	if o.Attention.Value != nil {
		for _, n := range o.Attention.Value.Counts {
			if n.Count > 0 || n.More {
				o.Waits = append(o.Waits, n)
			}
		}
	}
	return o, nil
}

func failing(checks []api.Check) (list []api.Check) {
	for _, c := range checks {
		if !c.OK {
			list = append(list, c)
		}
	}
	return list
}

// subscriptions returns what runs, the first lagOf of them with how far they are behind.
func (c *Console) subscriptions(ctx context.Context) (rows []subscriptionRow) {
	for _, s := range c.Subscriptions(ctx) {
		rows = append(rows, subscriptionRow{SubscriptionItem: s})
	}
	if c.Steering == nil {
		return rows
	}
	known := c.lags.of(ctx, c.Steering, rows)
	for i := range rows {
		name := rows[i].Team + "." + rows[i].Subscription
		var ok bool
		if rows[i].Lag, ok = known[name]; !ok {
			rows[i].Lag.Problem = "not asked here: forebay subscriptions lag " + name
		}
	}
	return rows
}

// lag is how far a subscription is behind, over all its partitions.
type lag struct {
	Records int64
	Unknown int     // partitions of which nobody can tell
	Seconds float64 // age of the oldest record that is not decided
	Waiting int64   // events that wait behind a gap, or are held
}

// Text is the lag in words.
func (l *lag) Text() string {
	text := fmt.Sprintf("%d records, %s", l.Records, roughly(time.Duration(l.Seconds*float64(time.Second))))
	if l.Records == 0 {
		text = "none"
	}
	if l.Unknown > 0 {
		text += fmt.Sprintf("; not known of %d partitions", l.Unknown)
	}
	return text
}

func sum(partitions []api.LagItem) *lag {
	var l lag
	for i := range partitions {
		p := &partitions[i]
		if p.Records == nil {
			l.Unknown++
		} else {
			l.Records += *p.Records
		}
		if p.Seconds != nil {
			l.Seconds = max(l.Seconds, *p.Seconds)
		}
		if p.Waiting != nil {
			l.Waiting += *p.Waiting
		}
	}
	return &l
}

const (
	lagOf   = 20               // subscriptions that are asked about: each question connects to the brokers
	lagKept = 10 * time.Second // how long an answer is shown again
)

// lags keeps what was answered, so that many who look ask the brokers no more often than one. Safe for concurrent use.
type lags struct {
	asking chan struct{} // holds one while somebody asks, who may use the fields below; never closed
	at     time.Time
	known  map[string]part[*lag] // never changed, but replaced
}

// of returns the lag of the first subscriptions: what is kept, or what is answered now. One asks at a time; who comes meanwhile gets what
// that one is told.
func (l *lags) of(ctx context.Context, s api.Steering, rows []subscriptionRow) map[string]part[*lag] {
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return nil
	}
	if time.Since(l.at) < lagKept {
		return l.known
	}
	known := map[string]part[*lag]{}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, row := range rows[:min(lagOf, len(rows))] {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			p := ask(ctx, func(ctx context.Context) (*lag, error) {
				partitions, err := s.Lag(ctx, row.Team, row.Subscription)
				return sum(partitions), err
			})
			mu.Lock()
			defer mu.Unlock()
			known[row.Team+"."+row.Subscription] = p
		})
	}
	all.Wait()
	if ctx.Err() == nil {
		l.known, l.at = known, time.Now()
	}
	return known
}

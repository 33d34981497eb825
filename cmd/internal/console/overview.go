package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// part is a part of a page that may not be had: then the page says why, and shows the rest.
type part[T any] struct {
	Value   T
	Problem string
}

// partOf asks for a part, for partTimeout at most.
func partOf[T any](ctx context.Context, question func(context.Context) (T, error)) (p part[T]) {
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
	Approvals     *api.AttentionCount  // actions that wait for a person's word; nil: none does
	Checks        part[[]api.Check]    // those that fail
	Subscriptions part[[]subscriptionRow]
	Destinations  part[[]api.DestinationItem]
	OfTeams       bool // who looks may see some teams: what is of the whole process is left out
	NoStream      bool // this process has no ledger: what needs it is left out
	Sources       part[[]api.SourceItem]
	Hour          []hourText // the last hour, in this process
}

type subscriptionRow struct {
	api.SubscriptionItem
	Lag part[*lag]
}

func (s *subscriptionRow) name() string { return s.Team + "." + s.Subscription }

// Claimed is how many partitions are being claimed.
func (s subscriptionRow) Claimed() int {
	n := s.Counts
	if n == nil {
		return 0
	}
	return max(0, n.Total-n.Running-n.Stopped-n.Unread)
}

func (c *Console) overview(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r); err != nil {
		return nil, err
	}
	o := overview{NoStream: !c.Stream}
	all := api.Asks(ctx).All() // metrics and checks are the process's: their names tell of every team
	o.OfTeams = !all
	if all {
		o.Hour = c.hour.report(time.Now())
	}
	var parts sync.WaitGroup
	parts.Go(func() {
		o.Attention = partOf(ctx, func(ctx context.Context) (*api.Attention, error) {
			return c.API.Attention(ctx, api.AttentionFilter{Limit: 1})
		})
	})
	parts.Go(func() {
		if all {
			o.Checks = partOf(ctx, func(ctx context.Context) ([]api.Check, error) {
				checks, err := c.checks(ctx)
				return failing(checks), err
			})
		}
	})
	parts.Go(func() {
		if c.Stream {
			o.Destinations = partOf(ctx, func(ctx context.Context) ([]api.DestinationItem, error) { return items(c.API.Destinations(ctx)) })
		}
	})
	parts.Go(func() {
		o.Sources = partOf(ctx, func(ctx context.Context) ([]api.SourceItem, error) { return items(c.API.Sources(ctx)) })
	})
	parts.Go(func() {
		o.Subscriptions = partOf(ctx, func(ctx context.Context) ([]subscriptionRow, error) { return c.subscriptions(ctx, "") })
	})
	parts.Wait()
	if o.Attention.Value != nil {
		for _, n := range o.Attention.Value.Counts {
			if n.Count > 0 || n.More {
				o.Waits = append(o.Waits, n)
				if n.Kind == api.KindApproval {
					o.Approvals = &n
				}
			}
		}
	}
	return o, nil
}

// checks asks what must work before the process is ready. A page asks in goroutines of its own, in which nobody else would recover.
func (c *Console) checks(ctx context.Context) (list []api.Check, err error) {
	defer func() {
		if why := recover(); why != nil {
			c.Logger.Error("a check of a page has panicked", "panic", why, "stack", string(debug.Stack()))
			list, err = nil, schemas.Errorf(schemas.Internal, "", "an error in this process: its log says where")
		}
	}()
	return c.Ready(ctx, true), nil
}

func items[T any](page api.Page[T], err error) ([]T, error) { return page.Items, err }

func failing(checks []api.Check) (list []api.Check) {
	for _, c := range checks {
		if !c.OK {
			list = append(list, c)
		}
	}
	return list
}

// subscriptions returns what runs of a team, or of all, the first lagOf of them with how far they are behind.
func (c *Console) subscriptions(ctx context.Context, team string) (rows []subscriptionRow, err error) {
	page, err := c.API.Subscriptions(ctx)
	for _, s := range page.Items {
		if team == "" || team == s.Team {
			rows = append(rows, subscriptionRow{SubscriptionItem: s})
		}
	}
	if err != nil || !c.Stream {
		return rows, err
	}
	known := c.lags.of(ctx, c.API, rows[:min(lagOf, len(rows))])
	for i := range rows {
		var ok bool
		if rows[i].Lag, ok = known[rows[i].name()]; !ok {
			rows[i].Lag.Problem = "not asked here: forebay subscriptions lag " + rows[i].name()
		}
	}
	return rows, nil
}

// lag is how far a subscription is behind, over all its partitions.
type lag struct {
	Records int64
	Unknown int     // partitions of which nobody can tell
	Seconds float64 // age of the oldest record that is not decided
	Waiting int64   // events that wait behind a gap, or are held
	Open    float64 // for how many seconds the first open action has been to run
}

// Text is the lag in words.
func (l *lag) Text() string {
	text := fmt.Sprintf("%d records, %s", l.Records, api.DurationText(time.Duration(l.Seconds*float64(time.Second))))
	if l.Records == 0 {
		text = "none"
	}
	if l.Unknown > 0 {
		text += fmt.Sprintf("; not known of %d partitions", l.Unknown)
	}
	if l.Open > time.Minute.Seconds() {
		text += "; actions wait since " + api.DurationText(time.Duration(l.Open*float64(time.Second)))
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
		if p.OpenSeconds != nil {
			l.Open = max(l.Open, *p.OpenSeconds)
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
	asking chan struct{} // holds one while somebody asks, who may use the field below; never closed
	known  map[string]knownLag
}

// knownLag is what was answered about a subscription, and when.
type knownLag struct {
	part[*lag]
	at time.Time
}

// of returns the lag of subscriptions, by name: what is kept, or what is answered now. One asks at a time; who comes meanwhile gets what
// that one is told.
func (l *lags) of(ctx context.Context, client *api.Client, rows []subscriptionRow) map[string]part[*lag] {
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return nil
	}
	maps.DeleteFunc(l.known, func(_ string, k knownLag) bool { return time.Since(k.at) >= lagKept })
	answered := make([]part[*lag], len(rows))
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, row := range rows {
		if k, ok := l.known[row.name()]; ok {
			answered[i] = k.part
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			answered[i] = partOf(ctx, func(ctx context.Context) (*lag, error) {
				partitions, err := client.Lag(ctx, row.Team, row.Subscription)
				return sum(partitions.Items), err
			})
		})
	}
	all.Wait()
	of := map[string]part[*lag]{}
	for i, row := range rows {
		of[row.name()] = answered[i]
		if _, kept := l.known[row.name()]; !kept && ctx.Err() == nil {
			l.known[row.name()] = knownLag{answered[i], time.Now()}
		}
	}
	return of
}

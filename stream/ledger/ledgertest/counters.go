package ledgertest

import (
	"context"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Counters counts as the ledger does, in memory and by this process's clock, for tests in simulated time.
type Counters struct {
	mu   sync.Mutex
	fail error
	rows map[string]*counterRow
}

type counterRow struct {
	at   time.Time
	used float64
}

// Fail has every Count return err from now on; nil: it counts.
func (m *Counters) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// Count implements the store of package counter.
func (m *Counters) Count(_ context.Context, asks []ledger.CounterAsk) ([]ledger.CounterGrant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	var grants []ledger.CounterGrant
	for _, a := range asks {
		grants = append(grants, m.count(a))
	}
	return grants, nil
}

func (m *Counters) count(a ledger.CounterAsk) (g ledger.CounterGrant) {
	if m.rows == nil {
		m.rows = map[string]*counterRow{}
	}
	now := time.Now()
	from := now
	if a.Burst == 0 {
		from = time.UnixMicro(now.UnixMicro() / a.Per.Microseconds() * a.Per.Microseconds()).UTC()
	}
	r := m.rows[a.Name]
	if r == nil {
		r = &counterRow{at: from}
		m.rows[a.Name] = r
	}
	limit := float64(a.Limit)
	switch {
	case a.Burst > 0:
		limit = float64(a.Burst)
		r.used, r.at = max(0, r.used-from.Sub(r.at).Seconds()*float64(a.Limit)/a.Per.Seconds()), from
	case from.After(r.at):
		r.used, r.at = 0, from
	}
	free := int64(limit - r.used + 1e-6)
	if r.used > limit {
		free = 0
	}
	switch {
	case a.Force && a.Want < 0:
		if a.Burst > 0 || a.Window.Equal(r.at) {
			g.Units = max(a.Want, -int64(r.used))
		}
	case a.Force:
		g.Units = a.Want
	case free < a.Want:
	case a.Burst > 0:
		g.Units = min(free, max(a.Want, a.Most))
	default:
		g.Units = max(a.Want, min(a.Most, free/64))
	}
	r.used += float64(g.Units)
	g.Used, g.Window, g.Left = int64(r.used+0.999999), r.at, r.at.Add(a.Per).Sub(now)
	if a.Burst > 0 {
		g.Left = time.Duration(max(0, float64(a.Want)-(limit-r.used)) * a.Per.Seconds() / float64(a.Limit) * float64(time.Second))
	}
	return g
}

// Used returns what is used of a counter, as it was when it was asked for last.
func (m *Counters) Used(name string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.rows[name]; r != nil {
		return int64(r.used)
	}
	return 0
}

package alerts

import (
	"context"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Board is what processes know together: which alerts were told, and which are silenced. *[ledger.Ledger] is one.
type Board interface {
	NotifyAlert(ctx context.Context, t *ledger.FiringAlert, repeat time.Duration) (notify bool, err error)
	SeenAlerts(ctx context.Context, keys []string) error
	EndedAlerts(ctx context.Context, after time.Duration) ([]ledger.FiringAlert, error)
	Silences(ctx context.Context) ([]ledger.Silence, error)
}

// memory is the board of a process that has no ledger, and what it goes by while its ledger does not answer. It has no silences, and never
// fails. Safe for concurrent use.
type memory struct {
	mu     sync.Mutex
	firing map[string]*firingHere
}

type firingHere struct {
	ledger.FiringAlert
	seenAt, notifiedAt time.Time
}

func newMemory() *memory { return &memory{firing: map[string]*firingHere{}} }

// NotifyAlert implements [Board].
func (m *memory) NotifyAlert(_ context.Context, t *ledger.FiringAlert, repeat time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, have := time.Now(), m.firing[t.Key]
	if have == nil {
		m.firing[t.Key] = &firingHere{*t, now, now}
		return true, nil
	}
	t.Since, have.Summary, have.seenAt = have.Since, t.Summary, now
	if now.Sub(have.notifiedAt) < repeat {
		return false, nil
	}
	have.notifiedAt = now
	return true, nil
}

// SeenAlerts implements [Board].
func (m *memory) SeenAlerts(_ context.Context, keys []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if have := m.firing[key]; have != nil {
			have.seenAt = time.Now()
		}
	}
	return nil
}

// EndedAlerts implements [Board].
func (m *memory) EndedAlerts(_ context.Context, after time.Duration) (ended []ledger.FiringAlert, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, have := range m.firing {
		if time.Since(have.seenAt) > after {
			ended = append(ended, have.FiringAlert)
			delete(m.firing, key)
		}
	}
	return ended, nil
}

// Silences implements [Board].
func (m *memory) Silences(context.Context) ([]ledger.Silence, error) { return nil, nil }

// Silenced returns the silence of an alert that ends last, of all those that have not ended; nil if it has none. A silence without a team
// covers every team.
func Silenced(a *Alert, all []ledger.Silence) *ledger.Silence {
	var last *ledger.Silence
	for i := range all {
		s := &all[i]
		if s.Alert == a.Rule.Name && (s.Team == "" || s.Team == a.Team()) && (last == nil || s.Until.After(last.Until)) {
			last = s
		}
	}
	return last
}

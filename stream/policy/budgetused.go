package policy

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// usedShares tells what is used of caps, until their windows end: nobody may ask for a cap any more, in this process or at all.
type usedShares struct {
	desc *prometheus.Desc
	caps func() []string // that the file has; nil: all

	mu     sync.Mutex
	shares map[capName]*usedShare
}

// usedShare is what is used of a cap, as it was asked for last.
type usedShare struct {
	mu    sync.Mutex
	share float64
	ends  time.Time // of the window; zero: nothing is known
}

func newUsedShares(caps func() []string) *usedShares {
	return &usedShares{caps: caps, shares: map[capName]*usedShare{}, desc: prometheus.NewDesc("forebay_budget_used_ratio",
		"Share of a budget that all processes have used in its window, as this process knows, until that ends; "+
			"of entities the one asked for last.", []string{"budget", "of"}, nil)}
}

// share returns that of a cap.
func (u *usedShares) share(of capName) *usedShare {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.shares[of]
	if s == nil {
		s = &usedShare{}
		u.shares[of] = s
	}
	return s
}

// set notes what is used of a window that has so much time left.
func (s *usedShare) set(share float64, left time.Duration) {
	ends := time.Now().Add(left)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.share, s.ends = share, ends
}

// now returns what is used of the window that there is now, if that is known.
func (s *usedShare) now() (share float64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.share, time.Now().Before(s.ends)
}

// Describe implements [prometheus.Collector].
func (u *usedShares) Describe(out chan<- *prometheus.Desc) { out <- u.desc }

// Collect implements [prometheus.Collector].
func (u *usedShares) Collect(out chan<- prometheus.Metric) {
	var listed map[string]bool
	if u.caps != nil {
		listed = map[string]bool{}
		for _, name := range u.caps() {
			listed[name] = true
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for of, s := range u.shares {
		if share, known := s.now(); known && (listed == nil || listed[of.path+"."+of.of]) {
			out <- prometheus.MustNewConstMetric(u.desc, prometheus.GaugeValue, share, of.path, of.of)
		}
	}
}

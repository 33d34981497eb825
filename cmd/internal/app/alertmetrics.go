package app

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/expiry"
	"github.com/forebay-io/forebay/stream/ledger"
)

// alertMetrics are metrics for alerts that are computed when they are asked for, of what the last look has found.
type alertMetrics struct {
	t *attention

	waiting, repeated, oldest, expires *prometheus.Desc
}

func newAlertMetrics(t *attention) *alertMetrics {
	return &alertMetrics{t: t,
		waiting: prometheus.NewDesc("forebay_attention_waiting", "What waits for an operator, as forebay_attention_items, by the team and the subscription, source or destination that has it; "+
			"what has nothing waiting is not there, and what an entity's budget of a shared destination holds up counts for each of its teams.", []string{"kind", "team", "of"}, nil),
		repeated: prometheus.NewDesc("forebay_dead_letters_repeated", "Dead letters of a subscription that have died three times or more, of a thousand of each partition.", []string{"team", "of"}, nil),
		oldest:   prometheus.NewDesc("forebay_dead_letters_oldest_seconds", "For how long the oldest dead letter of a subscription has waited, of a thousand of each partition.", []string{"team", "of"}, nil),
		expires: prometheus.NewDesc("forebay_key_expires_seconds", "Seconds until a certificate, a source's secret or a token ends, less than 0 for a day after that; of tokens those that were made for more than 30 days.",
			[]string{"key"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (m *alertMetrics) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.waiting, m.repeated, m.oldest, m.expires} {
		all <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *alertMetrics) Collect(all chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	l := m.t.seen()
	for of, n := range l.byOwner() {
		gauge(m.waiting, n, of[:]...)
	}
	for _, d := range l.dead {
		of := d.Team + "." + d.Subscription
		gauge(m.repeated, float64(d.Repeated), d.Team, of)
		gauge(m.oldest, time.Since(d.Oldest).Seconds(), d.Team, of)
	}
	for key, end := range l.ends {
		if left := time.Until(end); left > -24*time.Hour {
			gauge(m.expires, left.Seconds(), key)
		}
	}
}

// byOwner counts what waits by kind, team and the name of what has it.
func (l look) byOwner() map[[3]string]float64 {
	sums := map[[3]string]float64{}
	for _, c := range l.ledger {
		sums[[3]string{string(c.Kind), c.Team, c.Team + "." + c.Subscription}] += float64(c.Count)
	}
	for _, row := range l.rows {
		of, teams := row.ID, []string{row.Team}
		switch row.Kind {
		case api.KindApproval: // the id is that of a question
			of = row.Team + "." + row.Subscription
		case api.KindBudget: // the id may be that of an entity
			of, _, _ = strings.Cut(of, " ")
			if row.Team == "" && row.Entity != "" && len(row.Teams) > 0 { // of a shared destination: whose actions it holds up are told
				teams = row.Teams
			}
		}
		for _, team := range teams {
			sums[[3]string{row.Kind, team, of}]++
		}
	}
	for of, backlog := range l.backlogs {
		if n := len(backlog.Items); n > 0 {
			sums[[3]string{api.KindQuarantinedDelivery, of.team, of.team + "/" + of.name}] += float64(n)
		}
	}
	return sums
}

// ofEnds finds when certificates, secrets and tokens end, and adds the secrets that do soon. What cannot be read is left out: whoever uses it says so.
func (t *attention) ofEnds(ctx context.Context, l *look) {
	l.ends = map[string]time.Time{}
	for _, c := range expiry.Certificates(t.a.file(), t.a.cfg.Roles) {
		if cert, err := c.Ends(); err == nil {
			l.ends["certificate "+c.Key] = cert.NotAfter
		}
	}
	for _, token := range expiry.Tokens(t.a.file()) {
		if !token.Brief {
			l.ends["token "+token.Key] = token.End
		}
	}
	for _, e := range t.a.file().Expiring() {
		l.ends["secret "+e.Key] = e.Until
		if e.Until.Sub(l.at) < config.ExpiresSoon {
			l.rows = append(l.rows, expiresRow(e, l.at, t.a.cfg.Path))
		}
	}
	if t.a.stream == nil || !t.a.file().Operator.HasTokens() {
		return
	}
	store, err := t.a.keys()
	if err != nil {
		return
	}
	tokens, err := store.Tokens(ctx)
	if err != nil {
		return
	}
	maps.Copy(l.ends, tokenEnds(tokens))
}

// tokenEnds are the ends of the tokens that were made to last, and were not revoked.
func tokenEnds(tokens []ledger.Token) map[string]time.Time {
	ends := map[string]time.Time{}
	for _, t := range tokens {
		if t.RevokedAt == nil && t.ExpiresAt.Sub(t.CreatedAt) > expiry.LongLived {
			ends["token "+t.Name] = t.ExpiresAt
		}
	}
	return ends
}

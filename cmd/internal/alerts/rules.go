package alerts

import (
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/stream/inbox"
)

// Severities: what wakes somebody, and what waits for the morning.
const (
	Critical = "critical"
	Warning  = "warning"
)

// Rule is one alert.
type Rule struct {
	// Name is its name in Prometheus, in messages, in `forebay alerts` and of its page.
	Name     string
	Severity string
	// Expr has a sample for each thing that the alert fires for.
	Expr Expr
	// For is for how long a sample must be there before it fires.
	For time.Duration
	// Summary is a sentence about one sample, as Prometheus has templates: {{ $labels.of }}, {{ $value }}.
	Summary string
}

// RunbookURL is where the page of the alert is.
func (r Rule) RunbookURL() string {
	return "https://github.com/forebay-io/forebay/blob/main/deploy/runbooks/" + r.Name + ".md"
}

// Thresholds are what a file may set otherwise.
type Thresholds struct {
	Depth   int           // dead letters of a subscription
	Oldest  time.Duration // age of the oldest of them
	Lag     time.Duration // of a partition
	Expires time.Duration // before the end of a key
}

// Defaults are the thresholds where nothing is written, and those of the file for Prometheus.
func Defaults() Thresholds {
	return Thresholds{Depth: 1000, Oldest: 24 * time.Hour, Lag: 5 * time.Minute, Expires: 14 * 24 * time.Hour}
}

// waiting is what waits for an operator, by who has it. Every process that shares a ledger counts the same: the largest count is that of all.
func waiting(kinds ...string) Aggregate {
	return Aggregate{"max", []string{"team", "of"}, Select{Name: "forebay_attention_waiting", Match: []Match{{"kind", kinds}}}}
}

func above(of Expr, number float64) Compare { return Compare{Left: of, Op: ">", Number: number} }

// forged are the deliveries that no key of their source verifies.
func forged(window, ago time.Duration) Expr {
	return Aggregate{"sum", []string{"team", "source"}, Increase{Select{Name: "forebay_ingest_deliveries_total", Offset: ago,
		Match: []Match{{"reason", []string{"mismatch", "malformed", "missing_header", "bad_key"}}}}, window}}
}

// Rules returns all alerts.
func Rules(t Thresholds) []Rule {
	died := func(window time.Duration) Expr {
		return Aggregate{"sum", []string{"destination"}, Increase{Select{Name: "forebay_lane_dead_letters_total"}, window}}
	}
	dead := waiting(string(inbox.AttentionDead))
	earlier := Aggregate{"max", dead.By, Select{Name: "forebay_attention_waiting", Match: []Match{{"kind", []string{string(inbox.AttentionDead)}}}, Offset: 15 * time.Minute}}
	standing := waiting(api.KindStopped, api.KindUnread)
	ofSubscription := func(metric string) Expr { return Aggregate{"max", []string{"team", "of"}, Select{Name: metric}} }
	return []Rule{
		{Name: "ForebayDeadLetter", Severity: Warning, Expr: above(died(time.Hour), 0),
			Summary: "An action at destination {{ $labels.destination }} was given up within the last hour."},
		{Name: "ForebayDeadLettersMany", Severity: Critical, Expr: Compare{Left: died(10 * time.Minute), Op: ">=", Number: 5},
			Summary: "{{ printf \"%.0f\" $value }} actions at destination {{ $labels.destination }} were given up within 10 minutes."},
		{Name: "ForebayDeadLettersDeep", Severity: Critical, For: time.Minute, Expr: above(dead, float64(t.Depth)),
			Summary: "{{ printf \"%.0f\" $value }} dead letters of {{ $labels.of }} wait for an operator."},
		{Name: "ForebayDeadLettersGrow", Severity: Warning, For: 30 * time.Minute, Expr: Compare{Left: dead, Op: ">", Right: earlier},
			Summary: "Dead letters of {{ $labels.of }} come faster than they are dealt with, for half an hour: {{ printf \"%.0f\" $value }} wait."},
		{Name: "ForebayDeadAgain", Severity: Warning, Expr: above(ofSubscription("forebay_dead_letters_repeated"), 0),
			Summary: "{{ printf \"%.0f\" $value }} actions of {{ $labels.of }} have died three times: replaying them once more helps nobody."},
		{Name: "ForebayDeadLetterOld", Severity: Warning, Expr: above(ofSubscription("forebay_dead_letters_oldest_seconds"), t.Oldest.Seconds()),
			Summary: "A dead letter of {{ $labels.of }} has waited for {{ humanizeDuration $value }}."},
		{Name: "ForebayLag", Severity: Warning, For: 5 * time.Minute,
			Expr:    above(Aggregate{"max", []string{"subscription", "topic"}, Select{Name: "forebay_stream_lag_seconds"}}, t.Lag.Seconds()),
			Summary: "{{ $labels.subscription }} is {{ humanizeDuration $value }} behind in {{ $labels.topic }}."},
		{Name: "ForebayGapOverdue", Severity: Warning, For: 5 * time.Minute, Expr: above(waiting(string(inbox.AttentionOverdue)), 0),
			Summary: "{{ printf \"%.0f\" $value }} entities of {{ $labels.of }} wait for a missing event past their deadline."},
		{Name: "ForebayVerificationFailures", Severity: Warning,
			Expr:    Unless{above(forged(10*time.Minute, 0), 20), Compare{Left: Times{6, forged(10*time.Minute, 0)}, Op: "<=", Right: Times{5, forged(time.Hour, 10*time.Minute)}}},
			Summary: "{{ printf \"%.0f\" $value }} deliveries of {{ $labels.team }}/{{ $labels.source }} within 10 minutes had no right signature: five times as many as in the hour before, or more."},
		{Name: "ForebayKeyUnmatched", Severity: Critical, Expr: above(waiting(api.KindKeys), 0),
			Summary: "None of the secrets of {{ $labels.of }} verifies what comes: deliveries are refused."},
		{Name: "ForebayKeyExpires", Severity: Warning, Expr: Compare{Left: Aggregate{"min", []string{"key"}, Select{Name: "forebay_key_expires_seconds"}}, Op: "<", Number: t.Expires.Seconds()},
			Summary: "The {{ $labels.key }} ends in {{ humanizeDuration $value }}."},
		{Name: "ForebayEntityParked", Severity: Warning, Expr: above(waiting(string(inbox.AttentionParked)), 0),
			Summary: "{{ printf \"%.0f\" $value }} entities of {{ $labels.of }} stand still behind a missing event, until an operator looks."},
		{Name: "ForebayLaneParked", Severity: Warning, Expr: above(Aggregate{"sum", []string{"subscription"}, Select{Name: "forebay_lane_parked_lanes"}}, 0),
			Summary: "{{ printf \"%.0f\" $value }} entities of {{ $labels.subscription }} stand still behind an action that was given up."},
		{Name: "ForebayPartitionStopped", Severity: Critical, Expr: above(waiting(api.KindStopped), 0),
			Summary: "{{ printf \"%.0f\" $value }} partitions of {{ $labels.of }} are stopped, and nothing in them is decided: `forebay attention --kind stopped_partition` says why, and what to run."},
		{Name: "ForebayPartitionUnread", Severity: Critical, For: time.Minute, Expr: above(waiting(api.KindUnread), 0),
			Summary: "{{ printf \"%.0f\" $value }} partitions of {{ $labels.of }} are read by no process."},
		{Name: "ForebayNotReady", Severity: Critical, For: 2 * time.Minute, // where a partition stands still, its own alert says so
			Expr:    Unless{Compare{Left: Aggregate{"min", []string{"team", "of"}, Select{Name: "forebay_ready"}}, Op: "<", Number: 1}, above(standing, 0)},
			Summary: "{{ $labels.of }} is not ready in at least one process: what it needs, such as Postgres or the brokers, does not work. /readyz says why."},
		{Name: "ForebayInvariantBroken", Severity: Critical,
			Expr:    above(Aggregate{"sum", []string{"subscription"}, Select{Name: "forebay_stream_discontinuities_total"}}, 0),
			Summary: "A check that must never fail has failed in {{ $labels.subscription }}: a fault of Forebay. Nothing was lost by it; please report it."},
	}
}

// Metric is a metric that alerts ask about, with all of its labels that they name.
type Metric struct {
	Name   string
	Labels []string
}

// Metrics returns what the rules ask about: a metric for each place where one is named.
func Metrics(rules []Rule) (list []Metric) {
	for _, r := range rules {
		for _, s := range r.Expr.selects() {
			m := Metric{Name: s.Name, Labels: s.by}
			for _, match := range s.Match {
				m.Labels = append(m.Labels, match.Label)
			}
			list = append(list, m)
		}
	}
	return list
}

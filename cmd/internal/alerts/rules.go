package alerts

import (
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/stream/inbox"
)

// Severities: what wakes somebody, and what waits for the morning.
const (
	Critical = "critical"
	Warning  = "warning"
)

// Rule is one alert, about each thing that has the labels By.
type Rule struct {
	// Name is its name in Prometheus, in messages, in `forebay alerts` and of its page.
	Name     string
	Severity string
	// For is for how long a thing must be there before the alert fires.
	For time.Duration
	By  []string
	// Summary is a sentence about one thing, as Prometheus has templates: {{ $labels.of }}, {{ $value }}.
	Summary string

	find func(*seen) counts // what there is now
	may  func(*seen) counts // nil, or what there may be: this process cannot tell yet
}

// RunbookURL is where the page of an alert is.
func RunbookURL(alert string) string {
	return "https://github.com/forebay-io/forebay/blob/main/deploy/runbooks/" + alert + ".md"
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

// growth is how far back dead letters are compared.
const growth = 15 * time.Minute

// total finds the subscriptions for which one of metrics is above 0.
func total(metrics ...string) func(*seen) counts {
	return func(s *seen) counts {
		var all samples
		for _, m := range metrics {
			all = append(all, s.of(m)...)
		}
		return all.by(sum, "subscription").above(0)
	}
}

// Rules returns all alerts, in the order of deploy/alerts/forebay.rules.yaml.
func Rules(t Thresholds) []Rule { return slices.Concat(deadRules(t), otherRules(t)) }

// largest finds where the largest value of a metric is above a bound.
func largest(metric string, above float64, by ...string) func(*seen) counts {
	return func(s *seen) counts { return s.of(metric).by(math.Max, by...).above(above) }
}

// deadRules are about dead letters.
func deadRules(t Thresholds) []Rule {
	owner, destination := []string{"team", "of"}, []string{"destination"}
	return []Rule{
		{Name: "ForebayDeadLetter", Severity: Warning, By: destination,
			Summary: "An action at destination {{ $labels.destination }} was given up within the last hour.",
			find:    func(s *seen) counts { return s.died(time.Hour).above(0) }},
		{Name: "ForebayDeadLettersMany", Severity: Critical, By: destination,
			Summary: "{{ printf \"%.0f\" $value }} actions at destination {{ $labels.destination }} were given up within 10 minutes.",
			find:    func(s *seen) counts { return s.died(10 * time.Minute).above(4) }},
		{Name: "ForebayDeadLettersDeep", Severity: Critical, For: time.Minute, By: owner,
			Summary: "{{ printf \"%.0f\" $value }} dead letters of {{ $labels.of }} wait for an operator.",
			find:    func(s *seen) counts { return s.waiting(inbox.AttentionDead).above(float64(t.Depth)) }},
		{Name: "ForebayDeadLettersGrow", Severity: Warning, For: 30 * time.Minute, By: owner,
			Summary: "Dead letters of {{ $labels.of }} come faster than they are dealt with, for half an hour: {{ printf \"%.0f\" $value }} wait.",
			find: func(s *seen) counts {
				before := s.ago(growth).waited
				return s.waiting(inbox.AttentionDead).where(func(of [2]string, value float64) bool {
					was, known := before[of]
					return known && value > was
				})
			},
			may: func(s *seen) counts {
				if s.at.Sub(s.first) > growth+2*time.Minute { // the first looks may know nothing yet
					return nil
				}
				return s.waiting(inbox.AttentionDead)
			}},
		{Name: "ForebayDeadAgain", Severity: Warning, By: owner,
			Summary: "{{ printf \"%.0f\" $value }} actions of {{ $labels.of }} have died three times: replaying them once more helps nobody.",
			find:    largest("forebay_dead_letters_repeated", 0, owner...)},
		{Name: "ForebayDeadLetterOld", Severity: Warning, By: owner,
			Summary: "A dead letter of {{ $labels.of }} has waited for {{ humanizeDuration $value }}.",
			find:    largest("forebay_dead_letters_oldest_seconds", t.Oldest.Seconds(), owner...)},
	}
}

func otherRules(t Thresholds) []Rule {
	waiting := func(kind inbox.AttentionKind) func(*seen) counts {
		return func(s *seen) counts { return s.waiting(kind).above(0) }
	}
	owner, subscription := []string{"team", "of"}, []string{"subscription"}
	return []Rule{
		{Name: "ForebayLag", Severity: Warning, For: 5 * time.Minute, By: []string{"subscription", "topic"},
			Summary: "{{ $labels.subscription }} is {{ humanizeDuration $value }} behind in {{ $labels.topic }}: in deciding its records, or with an action that is to run.",
			find: func(s *seen) counts {
				both := slices.Concat(s.of("forebay_stream_lag_seconds"), s.of("forebay_lane_oldest_seconds"))
				return both.by(math.Max, "subscription", "topic").above(t.Lag.Seconds())
			}},
		{Name: "ForebayGapOverdue", Severity: Warning, For: 5 * time.Minute, By: owner,
			Summary: "{{ printf \"%.0f\" $value }} entities of {{ $labels.of }} wait for a missing event past their deadline.",
			find:    waiting(inbox.AttentionOverdue)},
		{Name: "ForebayConflict", Severity: Warning, By: owner,
			Summary: "{{ printf \"%.0f\" $value }} events of {{ $labels.of }} came with the id of another and another body, and act on nothing until an operator looks.",
			find:    waiting(inbox.AttentionConflict)},
		{Name: "ForebayDeliveryNotTaken", Severity: Critical, By: []string{"team", "source"},
			Summary: "{{ printf \"%.0f\" $value }} deliveries of {{ $labels.team }}/{{ $labels.source }} within 10 minutes were answered 503, and sending them again helps nobody: the log does not take what the source allows.",
			find:    func(s *seen) counts { return s.ago(0).broken.minus(s.ago(10 * time.Minute).broken).above(0) }},
		{Name: "ForebayQuarantinedDelivery", Severity: Warning, By: []string{"team", "source"},
			Summary: "{{ printf \"%.0f\" $value }} deliveries of {{ $labels.team }}/{{ $labels.source }} within the last hour were authentic, and no event could be made of them.",
			find:    func(s *seen) counts { return s.ago(0).unusable.minus(s.ago(time.Hour).unusable).above(0) }},
		{Name: "ForebayQuarantinedRecord", Severity: Warning, By: subscription,
			Summary: "{{ printf \"%.0f\" $value }} records that {{ $labels.subscription }} read within the last hour cannot be decided.",
			find:    func(s *seen) counts { return s.ago(0).undecided.minus(s.ago(time.Hour).undecided).above(0) }},
		{Name: "ForebayVerificationFailures", Severity: Warning, By: []string{"team", "source"},
			Summary: "{{ printf \"%.0f\" $value }} deliveries of {{ $labels.team }}/{{ $labels.source }} within 10 minutes had no right signature: five times as many as in the hour before, or more.",
			find: func(s *seen) counts {
				before := s.forged(time.Hour, 10*time.Minute)
				return s.forged(10*time.Minute, 0).where(func(of [2]string, value float64) bool { return value > 20 && 6*value > 5*before[of] })
			}},
		{Name: "ForebaySpooling", Severity: Critical, For: time.Minute, By: owner,
			Summary: "Deliveries of {{ $labels.of }} wait on an intake's disk, since the brokers do not take them: `forebay attention --kind spooling` says how many.",
			find:    waiting(api.KindSpooling)},
		{Name: "ForebayKeyUnmatched", Severity: Critical, By: owner,
			Summary: "None of the secrets of {{ $labels.of }} verifies what comes: deliveries are refused.",
			find:    waiting(api.KindKeys)},
		{Name: "ForebayKeyExpires", Severity: Warning, By: []string{"key"},
			Summary: "The {{ $labels.key }} ends in {{ humanizeDuration $value }}.",
			find: func(s *seen) counts {
				return s.of("forebay_key_expires_seconds").by(math.Min, "key").where(func(_ [2]string, value float64) bool { return value < t.Expires.Seconds() })
			}},
		{Name: "ForebayReloadRefused", Severity: Warning, For: 5 * time.Minute, By: owner,
			Summary: "{{ $labels.of }} was changed and is not in force, for it has a problem: `forebay attention --kind reload_refused` says where.",
			find:    waiting(api.KindRefused)},
		{Name: "ForebayEntityParked", Severity: Warning, By: owner,
			Summary: "{{ printf \"%.0f\" $value }} entities of {{ $labels.of }} stand still behind a missing event, until an operator looks.",
			find:    waiting(inbox.AttentionParked)},
		{Name: "ForebayLaneParked", Severity: Warning, By: subscription,
			Summary: "{{ printf \"%.0f\" $value }} entities of {{ $labels.subscription }} stand still behind an action that was given up.",
			find:    total("forebay_lane_parked_lanes")},
		{Name: "ForebayPartitionStopped", Severity: Critical, By: owner,
			Summary: "{{ printf \"%.0f\" $value }} partitions of {{ $labels.of }} are stopped, and nothing in them is decided: `forebay attention --kind stopped_partition` says why, and what to run.",
			find:    waiting(api.KindStopped)},
		{Name: "ForebayPartitionUnread", Severity: Critical, For: time.Minute, By: owner,
			Summary: "{{ printf \"%.0f\" $value }} partitions of {{ $labels.of }} are read by no process.",
			find:    waiting(api.KindUnread)},
		{Name: "ForebayConfigDiffers", Severity: Critical, For: 15 * time.Minute, By: owner, // a rollout is over by then
			Summary: "Processes decide for {{ $labels.of }} by different files: `forebay attention --kind differing_config -o wide` says which, and in what they differ.",
			find:    waiting(api.KindDiffers)},
		{Name: "ForebayDestinationDown", Severity: Critical, For: 3 * time.Minute, By: owner,
			Summary: "Nothing gets through to destination {{ $labels.of }}, and actions wait for it: `forebay destinations get {{ $labels.of }}` says since when.",
			find:    waiting(api.KindDown)},
		{Name: "ForebayDestinationPaused", Severity: Warning, For: 5 * time.Minute, By: owner,
			Summary: "Destination {{ $labels.of }} is paused, and nothing is attempted at it: `forebay attention --kind paused_destination` says who did it, and what to run.",
			find:    waiting(api.KindPaused)},
		{Name: "ForebayApprovalWaits", Severity: Warning, For: 15 * time.Minute, By: owner,
			Summary: "{{ printf \"%.0f\" $value }} actions of {{ $labels.of }} wait for a person's word, and end without it: `forebay approvals list` says what is asked.",
			find:    waiting(api.KindApproval)},
		{Name: "ForebayLoop", Severity: Warning, By: owner,
			Summary: "{{ printf \"%.0f\" $value }} entities of {{ $labels.of }} stand still, since agents seem to answer one another: `forebay attention --kind loop` says which.",
			find:    waiting(inbox.AttentionLoop)},
		{Name: "ForebayScopePaused", Severity: Warning, For: 5 * time.Minute, By: owner,
			Summary: "{{ $labels.of }} is paused by the kill switch, and nothing it covers is attempted: `forebay attention --kind paused_scope` says who did it, and what to run.",
			find:    waiting(api.KindPausedScope)},
		{Name: "ForebayBudget", Severity: Warning, For: time.Minute, By: owner,
			Summary: "Four fifths or more of {{ $labels.of }} are used, by all processes, or actions wait since less is left than the last run has cost: `forebay attention --kind budget` says how much.",
			find:    waiting(api.KindBudget)},
		{Name: "ForebayNotReady", Severity: Critical, For: 2 * time.Minute, By: owner, // where a partition stands still, its own alert says so
			Summary: "{{ $labels.of }} is not ready in at least one process: what it needs, such as Postgres or the brokers, does not work. /readyz says why.",
			find: func(s *seen) counts {
				standing := s.waiting(api.KindStopped, api.KindUnread)
				return s.of("forebay_ready").by(math.Min, owner...).where(func(of [2]string, value float64) bool { return value < 1 && standing[of] == 0 })
			}},
		{Name: "ForebayInvariantBroken", Severity: Critical, By: subscription,
			Summary: "A check that must never fail has failed in {{ $labels.subscription }}: a fault of Forebay. Nothing was lost by it; please report it.",
			find:    total("forebay_stream_discontinuities_total", "forebay_lane_forgotten_actions")},
	}
}

// Seen returns the names of those rules for which there is something in a registry now, be it for how short a time.
func Seen(families []*dto.MetricFamily, t Thresholds) (names []string) {
	var s seen
	s.take(families, time.Now())
	for _, r := range Rules(t) {
		if len(r.find(&s)) > 0 {
			names = append(names, r.Name)
		}
	}
	return names
}

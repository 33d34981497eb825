package metrics

import "strings"

// Rule is a recording rule.
type Rule struct {
	Name, Expr, Help string
	Labels           []string
	hourly           bool // evaluated once an hour, of that hour
}

// Recorded are the recording rules. What is counted over weeks is summed up by the hour first, so that no query reads 28 days of samples.
func Recorded() []Rule {
	counted := func(name, what, metric, where string, labels ...string) Rule {
		return Rule{Name: name, Help: what, Labels: labels, hourly: true,
			Expr: "sum by (" + strings.Join(labels, ", ") + ") (increase(" + metric + where + "[1h]))"}
	}
	ratio := func(name, what, good, all, over string, labels ...string) Rule {
		by := "sum by (" + strings.Join(labels, ", ") + ") (sum_over_time("
		return Rule{Name: name + ":ratio_" + over, Help: what + " Over " + over + "; nothing where nothing ended.", Labels: labels,
			Expr: by + good + "[" + over + "])) / (" + by + all + "[" + over + "])) > 0)"}
	}
	destination, subscription := []string{"subscription", "destination"}, []string{"subscription"}
	list := []Rule{
		counted("forebay:actions_done:increase1h", "Attempts that succeeded within an hour.", "forebay_lane_attempts_total", `{class="ok"}`, destination...),
		counted("forebay:actions_dead:increase1h", "Actions that were given up, or left unknown, within an hour.", "forebay_lane_dead_letters_total", "", destination...),
		{Name: "forebay:actions_ended:increase1h", Help: "Both together.", Labels: destination, hourly: true,
			Expr: "forebay:actions_done:increase1h + on (subscription, destination) forebay:actions_dead:increase1h"},
		counted("forebay:replay_parts_complete:increase1h", "Partitions of replays that ended whole within an hour.", "forebay_stream_replay_parts_total", `{end="complete"}`, subscription...),
		counted("forebay:replay_parts_ended:increase1h", "Partitions of replays that ended within an hour.", "forebay_stream_replay_parts_total", "", subscription...),
	}
	for _, over := range []string{"7d", "28d"} {
		list = append(list,
			ratio("forebay:delivery_success", "Share of the actions that ended which were done.", "forebay:actions_done:increase1h", "forebay:actions_ended:increase1h", over, destination...),
			ratio("forebay:replay_success", "Share of the partitions of replays that ended which were replayed whole.", "forebay:replay_parts_complete:increase1h", "forebay:replay_parts_ended:increase1h", over, subscription...))
	}
	return list
}

// RecordingRules is the text of the file of recording rules.
func RecordingRules() string {
	var b strings.Builder
	b.WriteString("# Generated: go test ./cmd/internal/metrics -update. Tested with forebay.recording.tests.yaml. What they say is in deploy/docs/METRICS.md.\ngroups:\n")
	for _, hourly := range []bool{true, false} {
		b.WriteString(map[bool]string{true: "  - name: forebay-hours\n    interval: 1h\n    rules:\n", false: "  - name: forebay-weeks\n    interval: 5m\n    rules:\n"}[hourly])
		for _, r := range Recorded() {
			if r.hourly == hourly {
				b.WriteString("      - record: " + r.Name + "\n        expr: " + r.Expr + "\n")
			}
		}
	}
	return b.String()
}

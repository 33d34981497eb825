package metrics

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Dashboard is a page of Grafana.
type Dashboard struct {
	Name, Title string
	byTeam      bool // it has the variable team
	Rows        []Row
}

// Row is a heading with the panels below it.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is a graph, or with Stat a number.
type Panel struct {
	Title, Unit string // of Grafana: short, s, bytes, ops, percentunit
	Stat        bool
	Queries     []Query
}

// Query is PromQL, in which $rate is the range of a rate and $team the team. Legend is what a series is called.
type Query struct{ Expr, Legend string }

func graph(title, unit string, queries ...Query) Panel {
	return Panel{Title: title, Unit: unit, Queries: queries}
}

func stat(title, unit, expr string) Panel {
	return Panel{Title: title, Unit: unit, Stat: true, Queries: []Query{{expr, ""}}}
}

// rate is how much of a counter comes in a second, by labels.
func rate(by, metric string) Query {
	return Query{"sum by (" + by + ") (rate(" + metric + "[$__rate_interval]))", legend(by)}
}

// gauge is the largest of a gauge over processes, or with sum their sum, by labels.
func gauge(how, by, metric string) Query {
	if by == "" {
		return Query{how + "(" + metric + ")", ""}
	}
	return Query{how + " by (" + by + ") (" + metric + ")", legend(by)}
}

// quantile is of a histogram, by labels.
func quantile(q float64, by, metric, where string) Query {
	name := fmt.Sprintf("p%g", q*100)
	if by != "" {
		name += " " + legend(by)
		by += ", "
	}
	return Query{fmt.Sprintf("histogram_quantile(%g, sum by (%sle) (rate(%s_bucket%s[$__rate_interval])))", q, by, metric, where), name}
}

func legend(by string) string {
	names := strings.Split(by, ", ")
	for i, n := range names {
		names[i] = "{{" + n + "}}"
	}
	return strings.Join(names, " ")
}

// Attempts that succeeded, and the others.
const (
	succeeded = `forebay_lane_attempts_total{class="ok"}`
	failed    = `forebay_lane_attempts_total{class!="ok"}`
)

// Dashboards are the pages.
func Dashboards() []Dashboard {
	return []Dashboard{overviewPage(), intakePage(), streamPage(), destinationsPage(), teamPage()}
}

func overviewPage() Dashboard {
	return Dashboard{Name: "overview", Title: "Forebay: overview", Rows: []Row{
		{"Now", []Panel{
			stat("Deliveries a second", "ops", "sum(rate(forebay_ingest_deliveries_total[$__rate_interval]))"),
			stat("Actions a second", "ops", "sum(rate("+succeeded+"[$__rate_interval]))"),
			stat("Largest lag", "s", `max({__name__=~"forebay_stream_lag_seconds|forebay_lane_oldest_seconds"})`),
			stat("Waits for an operator", "short", "sum(max by (kind, of) (forebay_attention_waiting)) or vector(0)"),
			stat("Not ready", "short", "count(min by (team, of) (forebay_ready) < 1) or vector(0)"),
			stat("Delivery success, 28 days", "percentunit", "min(forebay:delivery_success:ratio_28d)"),
		}},
		{"Through", []Panel{
			graph("Deliveries", "ops", rate("outcome", "forebay_ingest_deliveries_total")),
			graph("Decisions", "ops", rate("decision", "forebay_stream_decisions_total")),
			graph("Attempts", "ops", rate("class", "forebay_lane_attempts_total")),
			graph("From acceptance to act", "s", quantile(0.5, "", "forebay_lane_accept_to_act_seconds", ""), quantile(0.99, "", "forebay_lane_accept_to_act_seconds", "")),
		}},
		{"Waits", []Panel{
			graph("Waits for an operator", "short", Query{"sum by (kind) (max by (kind, of) (forebay_attention_waiting))", "{{kind}}"}),
			graph("Lag", "s", gauge("max", "subscription", "forebay_stream_lag_seconds")),
			graph("Delivery success, 7 days", "percentunit", gauge("min", "destination", "forebay:delivery_success:ratio_7d")),
			graph("Replays that ended whole, 28 days", "percentunit", gauge("min", "subscription", "forebay:replay_success:ratio_28d")),
		}},
		{"Processes", []Panel{
			graph("Processor", "short", Query{"sum by (instance) (rate(process_cpu_seconds_total[$__rate_interval]))", "{{instance}}"}),
			graph("Memory", "bytes", gauge("max", "instance", "process_resident_memory_bytes")),
			graph("Goroutines", "short", gauge("max", "instance", "go_goroutines")),
			graph("Parts that are not ready", "short", Query{"min by (team, of) (forebay_ready)", "{{of}}"}),
		}},
		{"Configuration", []Panel{
			graph("Changes that are not in force", "short",
				Query{`max by (kind, of) (forebay_attention_waiting{kind=~"reload_refused|waits_for_restart"})`, "{{kind}} {{of}}"}),
		}},
	}}
}

func intakePage() Dashboard {
	return Dashboard{Name: "intake", Title: "Forebay: intake", Rows: []Row{
		{"Deliveries", []Panel{
			graph("By outcome", "ops", rate("outcome", "forebay_ingest_deliveries_total")),
			graph("By source", "ops", rate("team, source", "forebay_ingest_deliveries_total")),
			graph("Refused, by reason", "ops", rate("source, reason", `forebay_ingest_deliveries_total{outcome="refused"}`)),
			graph("Time to the answer", "s", quantile(0.5, "", "forebay_ingest_delivery_seconds", ""), quantile(0.99, "", "forebay_ingest_delivery_seconds", "")),
		}},
		{"Bodies", []Panel{
			graph("Bytes", "Bps", rate("team, source", "forebay_ingest_body_bytes_total")),
			graph("Being handled", "short", gauge("sum", "instance", "forebay_ingest_deliveries_in_flight")),
			graph("Memory held", "bytes", gauge("sum", "instance", "forebay_ingest_memory_bytes")),
			graph("Bodies on their way", "short", gauge("sum", "instance", "forebay_ingest_bodies_arriving")),
		}},
		{"Spool", []Panel{
			graph("Spooled deliveries that wait", "short", gauge("sum", "team, source", "forebay_spool_records")),
			graph("The oldest of them", "s", gauge("max", "team, source", "forebay_spool_oldest_seconds")),
			graph("Size of the spool", "bytes", gauge("max", "instance", "forebay_spool_size_bytes")),
		}},
		{"Behind the answer", []Panel{
			graph("First filter", "ops", rate("result", "forebay_ingest_first_filter_total")),
			graph("Refused and kept", "ops", rate("result", "forebay_ingest_refused_kept_total")),
		}},
	}}
}

func streamPage() Dashboard {
	return Dashboard{Name: "stream", Title: "Forebay: stream", Rows: []Row{
		{"Position", []Panel{
			graph("Lag in seconds", "s", gauge("max", "subscription, topic", "forebay_stream_lag_seconds")),
			graph("Lag in records", "short", gauge("sum", "subscription, topic", "forebay_stream_lag_records")),
			graph("Partitions by state", "short", gauge("sum", "subscription, state", "forebay_stream_partitions")),
			graph("Claims", "ops", rate("subscription, result", "forebay_stream_claims_total")),
		}},
		{"Batches", []Panel{
			graph("Decisions", "ops", rate("decision, reason", "forebay_stream_decisions_total")),
			graph("Time to commit", "s", quantile(0.5, "", "forebay_stream_apply_seconds", ""), quantile(0.99, "", "forebay_stream_apply_seconds", "")),
			graph("Records of a batch", "short", quantile(0.5, "", "forebay_stream_batch_records", "")),
			graph("Errors while reading", "ops", rate("subscription", "forebay_stream_fetch_errors_total")),
		}},
		{"Lanes", []Panel{
			graph("Oldest action that is to run", "s", gauge("max", "subscription", "forebay_lane_oldest_seconds")),
			graph("Open actions", "short", gauge("sum", "subscription", "forebay_lane_open_actions")),
			graph("Lanes that stand still", "short", gauge("sum", "subscription", "forebay_lane_parked_lanes")),
			graph("Lanes that wait for an attempt", "short", gauge("sum", "subscription", "forebay_lane_waiting_lanes")),
		}},
		{"Guards", []Panel{
			graph("Actions that they hold or end, by status", "ops", rate("subscription, status", "forebay_lane_verdicts_total")),
			graph("By reason", "ops", rate("status, reason", "forebay_lane_verdicts_total")),
		}},
		{"Must stay at nothing", []Panel{
			graph("Discontinuities", "short", Query{"sum by (subscription) (increase(forebay_stream_discontinuities_total[1h]))", "{{subscription}}"}),
			graph("Forgotten actions", "short", gauge("sum", "subscription", "forebay_lane_forgotten_actions")),
			graph("Stops", "short", Query{"sum by (subscription, reason) (increase(forebay_stream_stops_total[1h]))", "{{subscription}} {{reason}}"}),
			graph("Partitions of replays that ended", "short", Query{"sum by (subscription, end) (increase(forebay_stream_replay_parts_total[1h]))", "{{subscription}} {{end}}"}),
		}},
	}}
}

func destinationsPage() Dashboard {
	return Dashboard{Name: "destinations", Title: "Forebay: destinations", Rows: []Row{
		{"Attempts", []Panel{
			graph("Succeeded", "ops", rate("destination", succeeded)),
			graph("Failed, by class", "ops", rate("destination, class", failed)),
			graph("Duration, p99", "s", quantile(0.99, "destination", "forebay_lane_attempt_duration_seconds", "")),
			graph("From acceptance to act, p99", "s", quantile(0.99, "destination", "forebay_lane_accept_to_act_seconds", "")),
		}},
		{"Given up", []Panel{
			graph("Dead letters within an hour", "short", Query{"sum by (destination) (increase(forebay_lane_dead_letters_total[1h]))", "{{destination}}"}),
			graph("Delivery success, 7 days", "percentunit", gauge("min", "destination", "forebay:delivery_success:ratio_7d")),
			graph("Delivery success, 28 days", "percentunit", gauge("min", "destination", "forebay:delivery_success:ratio_28d")),
			graph("Long work that ended", "ops", rate("destination, end", "forebay_lane_long_total")),
		}},
		{"What holds calls back", []Panel{
			graph("Breaker: changes", "short", Query{"sum by (destination, to) (increase(forebay_destination_breaker_transitions_total[1h]))", "{{destination}} {{to}}"}),
			graph("Asked to wait", "short", Query{"sum by (destination) (increase(forebay_destination_holds_total[1h]))", "{{destination}}"}),
			graph("Pauses", "short", Query{"sum by (destination) (increase(forebay_destination_pauses_total[1h]))", "{{destination}}"}),
			graph("Found no token of the rate", "short", Query{"sum by (destination) (increase(forebay_destination_limited_total[1h]))", "{{destination}}"}),
		}},
		{"What waits", []Panel{
			graph("Oldest action that is to run", "s", gauge("max", "subscription, destination", "forebay_lane_destination_oldest_seconds")),
			graph("Budgets: used", "percentunit", gauge("max", "budget, of", "forebay_budget_used_ratio")),
			graph("Budgets: attempts that they stop", "ops", rate("budget, of", "forebay_budget_stopped_total")),
		}},
	}}
}

func teamPage() Dashboard {
	return Dashboard{Name: "team", Title: "Forebay: a team", byTeam: true, Rows: []Row{
		{"In", []Panel{
			graph("Deliveries", "ops", rate("source, outcome", `forebay_ingest_deliveries_total{team="$team"}`)),
			graph("Refused, by reason", "ops", rate("source, reason", `forebay_ingest_deliveries_total{team="$team", outcome="refused"}`)),
		}},
		{"Decided", []Panel{
			graph("Decisions", "ops", rate("subscription, decision", `forebay_stream_decisions_total{subscription=~"$team[.].*"}`)),
			graph("Lag", "s", gauge("max", "subscription", `forebay_stream_lag_seconds{subscription=~"$team[.].*"}`)),
		}},
		{"Acted on", []Panel{
			graph("Attempts", "ops", rate("destination, class", `forebay_lane_attempts_total{subscription=~"$team[.].*"}`)),
			graph("From acceptance to act, p99", "s", quantile(0.99, "destination", "forebay_lane_accept_to_act_seconds", `{subscription=~"$team[.].*"}`)),
			graph("Delivery success, 28 days", "percentunit", gauge("min", "destination", `forebay:delivery_success:ratio_28d{subscription=~"$team[.].*"}`)),
			graph("Lanes that stand still", "short", gauge("sum", "subscription", `forebay_lane_parked_lanes{subscription=~"$team[.].*"}`)),
		}},
		{"Waits", []Panel{
			graph("For an operator", "short", gauge("max", "kind, of", `forebay_attention_waiting{team="$team"}`)),
			graph("Oldest dead letter", "s", gauge("max", "of", `forebay_dead_letters_oldest_seconds{team="$team"}`)),
		}},
	}}
}

// JSON is the page as Grafana reads it.
func (d Dashboard) JSON() []byte {
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${source}"}
	variables := []object{{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}}
	if d.byTeam {
		variables = append(variables, object{"name": "team", "label": "Team", "type": "query", "datasource": source, "refresh": 2, "sort": 1,
			"query": object{"query": TeamsQuery, "refId": "team"}})
	}
	panels, y, id := []object{}, 0, 0
	for _, row := range d.Rows {
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": row.Title, "collapsed": false, "panels": []object{}, "gridPos": object{"x": 0, "y": y, "w": 24, "h": 1}})
		y++
		x, height := 0, 0
		for _, p := range row.Panels {
			width, kind := 24/min(len(row.Panels), 4), "timeseries"
			height = 8
			if p.Stat {
				width, height, kind = 24/len(row.Panels), 4, "stat"
			}
			targets := []object{}
			for i, q := range p.Queries {
				targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.Expr, "legendFormat": q.Legend, "instant": p.Stat, "range": !p.Stat})
			}
			defaults := object{"unit": p.Unit, "min": 0}
			if p.Unit == "percentunit" {
				defaults["max"] = 1
			}
			id++
			panels = append(panels, object{"id": id, "type": kind, "title": p.Title, "datasource": source, "targets": targets,
				"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "gridPos": object{"x": x, "y": y, "w": width, "h": height}})
			x += width
		}
		y += height
	}
	text, err := json.MarshalIndent(object{
		"uid": "forebay-" + d.Name, "title": d.Title, "tags": []string{"forebay"}, "schemaVersion": 39, "editable": false, "refresh": "30s",
		"time": object{"from": "now-3h", "to": "now"}, "templating": object{"list": variables}, "panels": panels,
		"links": []object{{"type": "dashboards", "tags": []string{"forebay"}, "title": "Forebay", "asDropdown": false, "includeVars": false, "keepTime": true}},
	}, "", "  ")
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return append(text, '\n')
}

// TeamsQuery is what fills the variable team.
const TeamsQuery = "label_values(forebay_attention_waiting, team)"

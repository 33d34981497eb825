package app

import (
	"flag"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/spool"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// attentionPage returns the sections of ATTENTION.md by their headings, and those in their order.
func attentionPage(t *testing.T) (sections map[string]string, order []string) {
	t.Helper()
	page, err := os.ReadFile("ATTENTION.md")
	if err != nil {
		t.Fatal(err)
	}
	sections = map[string]string{}
	for _, s := range strings.Split(string(page), "\n## ")[1:] {
		kind, text, _ := strings.Cut(s, "\n")
		sections[kind], order = text, append(order, kind)
	}
	return sections, order
}

// TestAttentionPage: ATTENTION.md tells of each kind, in the order of the list, what happened, what it holds up, what to look at first and what
// the command does; and the commands in it are those that are printed.
func TestAttentionPage(t *testing.T) {
	t.Parallel()
	sections, order := attentionPage(t)
	if d := cmp.Diff(api.AttentionKinds(), order); d != "" {
		t.Errorf("kinds (-code +ATTENTION.md):\n%s", d)
	}
	printed := printedCommands(t)
	for kind, text := range sections {
		at := 0
		for _, part := range []string{"\n**What happened:** ", "\n**It holds up:** ", "\n**Look first:** ", "\n**The command** "} {
			n := strings.Index(text[at:], part)
			if n < 0 {
				t.Fatalf("ATTENTION.md says of %s nothing that begins with %q in its place", kind, strings.TrimSpace(part))
			}
			at += n
		}
		_, block, _ := strings.Cut(text[at:], "\n```\n")
		block, _, _ = strings.Cut(block, "\n```")
		if d := cmp.Diff(printed[kind], strings.Split(block, "\n")); d != "" {
			t.Errorf("commands of %s (-printed +ATTENTION.md):\n%s", kind, d)
		}
	}
}

// printedCommands returns, by kind, the commands that the list has for the page's examples, each once.
func printedCommands(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, row := range exampleRows(t) {
		if !slices.Contains(all[row.Kind], row.Command) {
			all[row.Kind] = append(all[row.Kind], row.Command)
		}
	}
	return all
}

// exampleRows returns rows of every kind, with every command that a kind may have.
func exampleRows(t *testing.T) (all []api.AttentionItem) {
	t.Helper()
	add := func(row api.AttentionItem) { all = append(all, row) }
	at, source, file := nameInTeam{"acme", "fulfil"}, nameInTeam{"acme", "orders"}, "forebay.yaml"
	partition := partitionKey{at, "events.acme.orders", 3}
	stopped := func(reason owner.StopReason, id int64) *standing {
		item := stopItem(ledger.Stop{ID: id, Subscription: "acme.fulfil", Kind: string(reason), To: 24, Resume: 4711, Detail: "(what was found)",
			Partition: ledger.Partition{Topic: partition.topic, Number: partition.number}})
		return &standing{partitionKey: partition, stop: &item, why: item.Text}
	}
	for _, reason := range stopReasons(t) {
		add(standingRow(stopped(reason, 17), "-c "+file))
		if reason == owner.StopBelowStart {
			add(standingRow(stopped(reason, 0), "-c "+file)) // not stored yet
		}
	}
	add(standingRow(&standing{partitionKey: partition, state: stateUnread, why: "no process has claimed it"}, "-c "+file))
	add(standingRow(&standing{partitionKey: partition, state: stateUnread, left: true, why: "3 records are unread"}, "-c "+file))
	add(standingRow(&standing{partitionKey: partition, state: stateUnread, left: true, gone: true, why: leftAdvice(&config.Config{}, at, "3 records are unread")}, "-c "+file))
	grown := stopped(owner.StopPartitions, 0)
	grown.state = stateUnread
	add(standingRow(grown, "-c "+file))
	for _, key := range []string{ledger.AllSubscriptions, ledger.TeamSubscriptions("acme"), ledger.AgentDestinations("coder")} {
		scope, name, _ := scopeOf(key)
		add(scopeRow(scope, name, key, &ledger.Pause{By: "ann", Reason: "an agent runs wild"}, &config.Config{}))
	}
	add(forgottenRow(at, ledger.Partition{Topic: partition.topic, Number: partition.number}, 2))
	add(pausedSubscriptionRow(at, &ledger.Pause{By: "ann", Reason: "the agent moves"}))
	add(barredRow(at, barring{reason: "not_shared", why: "(which source); or take it out of the subscription"}, file))
	add(refusedRow("teams/acme.yaml", refusedFile{problems: 2, line: 7}, true, file))
	add(refusedRow("teams/acme.yaml", refusedFile{problems: 1}, false, file))
	add(refusedRow(file, refusedFile{problems: 1}, false, file))
	add(waitingRow(config.Waiting{Team: "acme", Path: "teams.acme.sources.orders.topic"}, time.Now()))
	began := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	two := []side{{since: began, names: []string{"host-1/17"}}, {since: began.Add(5 * time.Minute), names: []string{"host-2/9", "host-3/4"}}}
	for _, later := range []time.Duration{8 * time.Minute, time.Hour} {
		add(differsRow("acme.fulfil", two, []string{"teams.acme.subscriptions.fulfil.types[0]", "teams.acme.destinations.agent (where it leads)"}, began.Add(later)))
	}
	add(downRow(api.DestinationItem{Team: "acme", Destination: "agent", FailingSince: &time.Time{}}, 66, lane.Waiting{}))
	for _, limit := range []string{config.BudgetHold, config.BudgetPark, config.BudgetDrop} {
		limits := []api.BudgetItem{{Budget: "teams.acme.budget", Of: "cost", Team: "acme", Command: overBudget[limit] + " --team acme"}}
		add(budgetRow(ledger.CounterUsed{Name: "budget teams.acme.budget.cost", Used: 45e6, Limit: 50e6, Left: time.Hour}, &config.Config{}, limits, time.Date(2026, 11, 29, 5, 0, 0, 0, time.UTC)))
	}
	asked := ledger.Approval{ID: 7, Team: "acme", Subscription: "fulfil", Action: "run", Destination: "acme/agent", Source: "/acme/orders", EventID: "4711", Entity: "o-1", Why: "rule ask of policy: changes production",
		Roles: []string{"approver"}, AskedAt: time.Date(2026, 11, 29, 5, 0, 0, 0, time.UTC), ExpiresAt: time.Date(2026, 11, 30, 5, 0, 0, 0, time.UTC)}
	asked.State, asked.ActionID = ledger.ApprovalWaiting, "act_4711"
	asks := &config.Config{Teams: map[string]*config.Team{"acme": {Subscriptions: map[string]*config.Subscription{"fulfil": {Actions: []config.Action{{Name: "run"}}}}}}}
	add(approvalRow(asks, &asked))
	asked.FirstBy = "ann"
	add(approvalRow(asks, &asked))
	asked.Action, asked.FirstBy = "start", ""
	add(approvalRow(asks, &asked))
	add(pausedRow(api.DestinationItem{Team: "acme", Destination: "agent", Paused: &api.PauseItem{By: "forebay", Class: "rejected", Reason: "1 answer with status 410: it is not there any more"}}))
	add(spoolRow(spool.Stats{Team: "acme", Source: "orders", Records: 66, Bytes: 70000, Err: errNotStarted}, "/var/lib/forebay/spool", 0, 1<<30, file))
	add(spoolRow(spool.Stats{Team: "acme", Source: "orders", Records: 6600, Bytes: 1 << 30, Full: true}, "/var/lib/forebay/spool", 1<<30, 1<<30, file))
	add(unmatchedRow(api.SourceItem{Team: "acme", Source: "orders", Seen: &api.SeenItem{Mismatches: unmatchedAfter}}, file))
	for _, last := range []bool{true, false} {
		ends := config.Expiring{Team: "acme", Source: "orders", Number: 1, Until: began, Last: last}
		add(expiresRow(ends, began.Add(-time.Hour), file))
		add(expiresRow(ends, began, file))
	}
	add(untimelyRow(source, ingest.Untimely{Count: ingest.ClockAfter, Least: time.Hour, Most: time.Hour}, 1))
	add(untimelyRow(source, ingest.Untimely{Count: ingest.ClockAfter, Least: -time.Hour, Most: -time.Hour}, 2))
	files := &config.Config{Teams: map[string]*config.Team{"acme": {Sources: map[string]*config.Source{"orders": {Topic: partition.topic}},
		Subscriptions: map[string]*config.Subscription{"fulfil": {Sources: []string{"orders"}}}}}}
	for _, kind := range inbox.AttentionKinds() {
		waits := inbox.Attention{Kind: kind, Team: "acme", Subscription: "fulfil", Source: "/acme/orders", EventID: "4711", Topic: partition.topic, Partition: 3, Offset: 17}
		switch kind {
		case inbox.AttentionDead:
			dead := ledger.DeadLetter{ID: "act_4711", Team: "acme", Subscription: "fulfil", Topic: partition.topic, Class: "rejected", Destination: "acme/agent"}
			for _, dead.Status = range []ledger.Status{ledger.Dead, ledger.Unknown} {
				waits.Dead = &inbox.DeadLetter{DeadLetter: dead}
				waits.Detail = "server: 422"
				add(ledgerRow(files, &waits))
			}
			dead.Status = ledger.Dead
			waits.Dead = &inbox.DeadLetter{DeadLetter: dead}
			add(ledgerRow(&config.Config{}, &waits))
		case inbox.AttentionLoop:
			waits.Dead = &inbox.DeadLetter{DeadLetter: ledger.DeadLetter{ID: "act_4711", Team: "acme", Subscription: "fulfil", Topic: partition.topic, Status: ledger.Dead, Class: "loop", Destination: "acme/agent"}}
			waits.Detail = "programs said 31 things about the entity within 1h0m0s, and loop.runs is 30"
			add(ledgerRow(files, &waits))
			add(ledgerRow(&config.Config{}, &waits))
		case inbox.AttentionQuarantined:
			waits.Detail = "(what is wrong with it)"
			for _, waits.Reason = range []gate.Reason{gate.ReasonUndecodable, gate.ReasonTooLarge, gate.ReasonMisplaced, gate.ReasonDataRejected} {
				add(ledgerRow(files, &waits))
			}
		default:
			add(ledgerRow(files, &waits))
		}
	}
	add(deliveryRow(api.QuarantineItem{Team: "acme", Source: "orders", Topic: "quarantine.acme.orders", Offset: 17, Reason: "missing_field", Detail: "no /type"}))
	return all
}

var update = flag.Bool("update", false, "write golden files again")

// TestMessagesOfTheFirstNight shows, in a golden file, what is said to who is called at night: each thing that waits, with what is said of it
// and its command; why a process is not ready; and what a newcomer is told whose port is taken.
func TestMessagesOfTheFirstNight(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, row := range exampleRows(t) {
		if said := fmt.Sprintf("%s %s: %s\n    %s\n    $ %s\n\n", row.Kind, row.ID, row.Reason, row.Detail, row.Command); !strings.Contains(text.String(), said) {
			text.WriteString(said)
		}
	}
	at, long := nameInTeam{"acme", "fulfil"}, time.Now().Add(-time.Hour)
	since := time.Date(2026, 11, 23, 2, 15, 0, 0, time.UTC)
	var waits attention
	for n := range int32(5) {
		waits.last.partitions.standing = append(waits.last.partitions.standing,
			standing{partitionKey: partitionKey{at, "events.acme.orders", n}, state: string(owner.Stopped), mine: true, since: since, seen: long})
	}
	fmt.Fprintf(&text, "/readyz: %v\n\n", waits.standsStill(at))

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: \"postgres://127.0.0.1:1/none\"}", "http://127.0.0.1:1")}
	a := r.app(config.RoleStream)
	defer a.waits.close(t.Context())
	_, err = a.listen("intake", taken.Addr().String(), nil)
	fmt.Fprintln(&text, strings.ReplaceAll(fmt.Sprint(err), taken.Addr().String(), "127.0.0.1:8080"))

	const path = "testdata/night.golden.txt"
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text.String()); d != "" {
		t.Errorf("%s (-want +got; -update writes it again):\n%s", path, d)
	}
}

// stopReasons reads the reasons of stops from the source of their package, which exports no list of them.
func stopReasons(t *testing.T) (all []owner.StopReason) {
	t.Helper()
	source, err := os.ReadFile("../../../stream/owner/stopped.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\tStop\w+ +StopReason = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		all = append(all, owner.StopReason(m[1]))
	}
	return all
}

// TestAttentionPageHasEveryStop: so does the table of why a partition is stopped.
func TestAttentionPageHasEveryStop(t *testing.T) {
	t.Parallel()
	sections, _ := attentionPage(t)
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]+ \\| [^|]+ \\|$").FindAllStringSubmatch(sections[api.KindStopped], -1)
	var listed []owner.StopReason
	for _, row := range rows {
		listed = append(listed, owner.StopReason(row[1]))
	}
	want := stopReasons(t)
	slices.Sort(listed)
	slices.Sort(want)
	if d := cmp.Diff(want, listed); d != "" || len(want) < 9 {
		t.Errorf("reasons (-code +ATTENTION.md):\n%s", d)
	}
}

// TestCrowdedDestination: where memory may have no more entities that wait, a destination that looks down may be whole, and its row says so.
func TestCrowdedDestination(t *testing.T) {
	t.Parallel()
	item := api.DestinationItem{Team: "acme", Destination: "agent", FailingSince: &time.Time{}}
	usual, crowded := downRow(item, 66, lane.Waiting{Actions: 66}).Detail, downRow(item, 66, lane.Waiting{Actions: 66, Crowded: true}).Detail
	if rest, ok := strings.CutPrefix(crowded, usual); !ok || !strings.Contains(rest, "memory") {
		t.Errorf("%q, and crowded %q", usual, crowded)
	}
}

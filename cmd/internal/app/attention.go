package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
)

const (
	attentionEvery = 15 * time.Second // how often what waits is looked at, for the gauge, the log and readiness
	attentionTry   = 4 * time.Second  // how long each part of a look may take, and the wait for one's turn: all of them less than an answer may
	attentionKept  = time.Second      // how long a look serves those who ask
)

// attention looks at what waits for an operator: in the ledger, in this process and in Kafka. Safe for concurrent use; one look is taken
// at a time, and those who ask meanwhile share it.
type attention struct {
	a     *App
	began time.Time // when the process did
	gauge *prometheus.GaugeVec

	deliveries producer.Waiting

	turn   chan struct{} // a mutex that can be waited for with a context: full while it is held; never closed
	ended  chan struct{} // closed by close
	client *kgo.Client   // nil until the first look; under turn
	tally  inbox.Tally   // of the ledger; under turn
	first  map[partitionKey]time.Time
	me     decider       // under turn
	every  time.Duration // between the looks of run, as it was last; under turn

	mu   sync.Mutex
	last look
}

// look is what one look has found. Of the kinds in unknown it has what was found of them last: readiness, gauge and log go by that.
type look struct {
	at         time.Time
	ledger     []inbox.AttentionCount // nil: nothing was counted in the ledger
	part       map[string]error       // why that is not all of a team's ("": of all teams); its kinds are in unknown then
	partitions partitions
	backlogs   map[nameInTeam]producer.Backlog // of deliveries in quarantine, by source
	rows       []api.AttentionItem             // what is few: partitions, destinations, sources
	over       []api.AttentionItem             // of what was left out of rows, since there is much of its kind and owner, at least one row each
	dead       []inbox.DeadFacts               // of the subscriptions that have dead letters
	ends       map[string]time.Time            // when certificates and tokens end
	unknown    map[string]string               // by kind, why nothing is known of it
	failed     bool                            // something is unknown that the next look may find
}

func newAttention(a *App) (*attention, error) {
	t := &attention{a: a, began: time.Now(), turn: make(chan struct{}, 1), ended: make(chan struct{}), first: map[partitionKey]time.Time{},
		gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "forebay", Subsystem: "attention", Name: "items",
			Help: "What waits for an operator, by kind, as `forebay attention` counts it: of the ledger and the topics in each process alike, 10,000 of a subscription and kind at most."},
			[]string{"kind"})}
	return t, errors.Join(a.registry.Register(t.gauge), a.registry.Register(newAlertMetrics(t)))
}

// run looks every attentionEvery until ctx is done, or less often where a look takes long: one connection is at work for a twentieth of
// the time at most.
func (t *attention) run(ctx context.Context) {
	for {
		began := time.Now()
		l, err := t.look(ctx, 0)
		if err != nil && ctx.Err() == nil {
			t.a.log.Warn("what waits for an operator cannot be looked at; trying again", "error", err)
		} else if err == nil {
			t.show(l)
		}
		pause := time.NewTimer(t.pause(time.Since(began)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// pause returns how long to wait after a look that took so long.
func (t *attention) pause(took time.Duration) time.Duration {
	every := max(attentionEvery, 20*took)
	select {
	case t.turn <- struct{}{}:
		t.every = took + every
		<-t.turn
	default: // somebody else looks
	}
	return every
}

// show sets the gauge. A kind that nothing is known of keeps the value that it had, or has none; of one that is known in part, the part counts.
func (t *attention) show(l look) {
	counts := l.counts("")
	for _, kind := range api.AttentionKinds() {
		i := slices.IndexFunc(counts, func(c api.AttentionCount) bool { return c.Kind == kind })
		if i >= 0 {
			t.gauge.WithLabelValues(kind).Set(float64(counts[i].Count))
		}
	}
}

// look returns what waits, as it was found at most kept ago.
func (t *attention) look(ctx context.Context, kept time.Duration) (look, error) {
	waiting, cancel := context.WithTimeout(ctx, attentionTry)
	defer cancel()
	stops := schemas.Errorf(schemas.Unavailable, "", "the process stops")
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-t.ended:
		return look{}, stops
	case <-waiting.Done():
		return look{}, schemas.Errorf(schemas.Unavailable, "", "the list of what waits for an operator is not ready yet; try again: %w", context.Cause(waiting))
	}
	select {
	case <-t.ended:
		return look{}, stops
	default:
	}
	if last := t.seen(); !last.failed && time.Since(last.at) < kept {
		return last, nil
	}
	l := look{at: time.Now(), unknown: map[string]string{}}
	cl, err := t.admin()
	if err != nil {
		return l, err
	}
	l.take(ctx, t.ofLedger, func(ctx context.Context, l *look) { t.ofPartitions(ctx, cl, l) }, t.ofForgotten, t.ofPauses, t.ofBarred, t.ofFiles, t.ofDeciders, t.ofDestinations, t.ofBudgets, t.ofApprovals, t.ofKeys, t.ofEnds,
		func(ctx context.Context, l *look) { t.ofDeliveries(ctx, cl, l) })
	l.keep(t.seen())
	t.warn(t.seen(), l)
	t.mu.Lock()
	t.last = l
	t.mu.Unlock()
	return l, nil
}

// take lets each part look in turn. Each has its own time: one that nobody answers takes none from the others.
func (l *look) take(ctx context.Context, parts ...func(context.Context, *look)) {
	for _, part := range parts {
		mine, cancel := context.WithTimeout(ctx, attentionTry)
		part(mine, l)
		cancel()
	}
}

// keep takes what nothing is known of now from the look before: that nobody answers ends no incident.
func (l *look) keep(before look) {
	isUnknown := func(kind string) bool { return l.unknown[kind] != "" }
	l.rows = append(l.rows, slices.DeleteFunc(slices.Clone(before.rows), func(i api.AttentionItem) bool { return !isUnknown(i.Kind) })...)
	if l.ledger == nil {
		l.ledger, l.dead = before.ledger, before.dead
	}
	if isUnknown(api.KindStopped) {
		l.partitions = before.partitions
	}
	if isUnknown(api.KindQuarantinedDelivery) {
		l.backlogs = before.backlogs
	}
}

// seen returns the last look; its time is zero if there was none.
func (t *attention) seen() look {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// admin returns the client that asks the brokers.
func (t *attention) admin() (*kgo.Client, error) {
	if t.client == nil {
		role := config.RoleIntake // a process without subscriptions may have no login of the stream's
		if t.a.stream != nil {
			role = config.RoleStream
		}
		var err error
		if t.client, err = kgo.NewClient(KafkaOptions(t.a.file(), role)...); err != nil {
			return nil, err
		}
	}
	return t.client, nil
}

// close waits for the look that is under way, until ctx ends, and closes the client behind it. No look is taken after it.
func (t *attention) close(ctx context.Context) {
	close(t.ended)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		t.turn <- struct{}{} // and never back; the look ends when its parts have had their time
		if t.client != nil {
			t.client.Close()
		}
	}()
	select {
	case <-looked:
		t.forget(ctx)
	case <-ctx.Done():
	}
}

// noStream is why a process without the stream role knows nothing of the ledger.
const noStream = "this process has no stream role; ask one that runs `forebay serve --roles stream`"

// ofLedger counts what waits in the ledger.
func (t *attention) ofLedger(ctx context.Context, l *look) {
	why := noStream
	if t.a.stream != nil {
		err := t.count(ctx, l)
		if err == nil {
			return
		}
		why, l.failed = err.Error(), true
	}
	for _, kind := range inbox.AttentionKinds() {
		l.unknown[string(kind)] = why
	}
}

// count counts what waits in the ledger, as far as there is time. Its error says what is missing.
func (t *attention) count(ctx context.Context, l *look) error {
	box, _, err := (&inboxAPI{t.a.stream}).open()
	if err == nil {
		err = box.CountAttention(ctx, &t.tally)
	}
	if err != nil {
		return err
	}
	if failed := t.tally.FactsFailed; failed != nil { // for alerts alone: what waits is known all the same
		t.a.log.Warn("dead letters cannot be read; alerts use the counts from before; trying again", "error", failed)
	}
	l.ledger, l.dead = ofThisLedger(t.a.file(), t.tally.Counts(), t.tally.Dead())
	missing := t.tally.Missing()
	if l.ledger != nil {
		l.part = missing
	}
	return missing[""]
}

// nothing reports whether nothing is known of a kind now.
func (l look) nothing(kind string) bool {
	return l.unknown[kind] != "" && !l.inPart(kind)
}

// inPart reports whether some of a kind is known, and not all.
func (l look) inPart(kind string) bool {
	return len(l.part) > 0 && slices.Contains(inbox.AttentionKinds(), inbox.AttentionKind(kind))
}

// unknownTo returns why a kind is unknown to a team ("": to all), or known in part; empty if all of it is known.
func (l look) unknownTo(team, kind string) string {
	if kind == api.KindQuarantinedDelivery && l.unknown[kind] == "" {
		return l.notReadOf(team)
	}
	if !l.inPart(kind) {
		return l.unknown[kind]
	}
	if err := l.part[team]; err != nil {
		return err.Error()
	}
	return ""
}

// notReadOf returns why a quarantine topic of a team ("": of any) could not be read to its ends, of the first one by name; empty if all were.
func (l look) notReadOf(team string) string {
	first := ""
	for of, backlog := range l.backlogs {
		if why := of.team + "/" + of.name; backlog.Err != nil && (team == "" || of.team == team) {
			if why += ": " + backlog.Err.Error(); first == "" || why < first {
				first = why
			}
		}
	}
	return first
}

// ofPartitions adds partitions that are stopped or that nobody reads.
func (t *attention) ofPartitions(ctx context.Context, cl *kgo.Client, l *look) {
	if t.a.stream == nil {
		l.unknown[api.KindStopped], l.unknown[api.KindUnread] = noStream, noStream
		return
	}
	facts, err := t.a.stream.readPartitions(ctx, cl)
	if err != nil {
		l.unknown[api.KindStopped], l.unknown[api.KindUnread], l.failed = err.Error(), err.Error(), true
		return
	}
	run := t.a.stream.topicsOf()
	maps.DeleteFunc(run, func(at nameInTeam, _ []string) bool { return t.a.stream.barred(at) != "" }) // that nobody reads them is known
	for key := range facts.left {
		if isGone(t.a.file(), key.of) {
			run[key.of] = nil
		}
	}
	l.partitions = facts.judge(run, t.first, l.at)
	for _, st := range l.partitions.standing {
		l.rows = append(l.rows, standingRow(&st, t.a.cfg.fileFlags()))
	}
}

// topicsOf returns the topics of each subscription of this process's ledger.
func (s *streams) topicsOf() map[nameInTeam][]string {
	all := map[nameInTeam][]string{}
	c := s.a.file()
	for team, t := range c.Teams {
		for name := range t.Subscriptions {
			if !c.HasLedger(team, name) {
				continue
			}
			for _, source := range c.SourcesOf(team, name) {
				at := nameInTeam{team, name}
				all[at] = append(all[at], source.Topic)
			}
		}
	}
	return all
}

// ofBarred adds subscriptions that may not read one of their sources.
func (t *attention) ofBarred(_ context.Context, l *look) {
	if t.a.stream == nil {
		l.unknown[api.KindBarred] = noStream
		return
	}
	l.rows = append(l.rows, t.barredRows()...)
}

// ofForgotten adds partitions of this process with actions that no lane of it has.
func (t *attention) ofForgotten(_ context.Context, l *look) {
	if t.a.stream == nil {
		l.unknown[api.KindForgotten] = noStream
		return
	}
	for at, of := range t.a.stream.forgotten() {
		for p, n := range of {
			l.rows = append(l.rows, forgottenRow(at, p, n))
		}
	}
}

// ofPauses adds subscriptions that are paused, as this process knows it: it asks the ledger every second.
func (t *attention) ofPauses(_ context.Context, l *look) {
	if t.a.stream == nil {
		l.unknown[api.KindPausedSubscription], l.unknown[api.KindPausedScope] = noStream, noStream
		return
	}
	for at := range t.a.stream.topicsOf() {
		if p := t.a.stream.pauses.own(at); p != nil {
			l.rows = append(l.rows, pausedSubscriptionRow(at, p))
		}
	}
	for key, p := range t.a.stream.scopePauses() {
		scope, name, _ := scopeOf(key)
		l.rows = append(l.rows, scopeRow(scope, name, key, &p, t.a.file()))
	}
}

// ofBudgets adds budgets of which most is used, by all processes of the ledger.
func (t *attention) ofBudgets(ctx context.Context, l *look) {
	if t.a.stream == nil {
		l.unknown[api.KindBudget] = noStream
		return
	}
	from, err := t.a.stream.openLedger()
	var used []ledger.CounterUsed
	if err == nil {
		used, err = from.CountersUsedOfEach(ctx, policy.BudgetCounters, policy.SoftLimit, mostBudgets+1)
	}
	if err != nil {
		l.unknown[api.KindBudget], l.failed = err.Error(), true
		return
	}
	limits := budgetLimits(t.a.file(), l.at)
	holds, err := heldCosts(ctx, from, limits)
	names := slices.DeleteFunc(slices.Collect(maps.Keys(holds)), func(name string) bool {
		return slices.ContainsFunc(used, func(u ledger.CounterUsed) bool { return u.Name == name })
	})
	if err == nil && len(names) > 0 {
		var more map[string]ledger.CounterUsed
		more, err = from.CountersOf(ctx, names) // of which nothing is used, the window has just begun, and what waits goes on
		for _, name := range slices.Sorted(maps.Keys(more)) {
			used = append(used, more[name])
		}
	}
	if err != nil {
		l.unknown[api.KindBudget], l.failed = err.Error(), true
		return
	}
	slices.SortStableFunc(used, func(a, b ledger.CounterUsed) int { // what actions wait for comes first
		switch {
		case holds[a.Name] == holds[b.Name]:
			return 0
		case holds[a.Name]:
			return -1
		}
		return 1
	})
	listed := map[string]int{}
	for _, u := range used {
		row := budgetRow(u, t.a.file(), limits, l.at)
		if holds[u.Name] && u.Used < u.Limit {
			row.Reason, row.Detail = "too_little_left", "actions wait, since less is left than the last run has cost: "+row.Detail
		}
		path, _, _ := strings.Cut(row.ID, " ")
		l.add(row, listed, path+" "+row.Source, mostBudgets)
	}
}

// add adds a row of what is of somebody, unless there are most of them already.
func (l *look) add(row api.AttentionItem, listed map[string]int, of string, most int) {
	if listed[of]++; listed[of] > most {
		l.over = append(l.over, row)
		return
	}
	l.rows = append(l.rows, row)
}

// heldCosts returns the counters of those budgets of cost for which actions wait that have just asked; none where it takes too long to find out. The ledger is asked only
// where the file has one that holds.
func heldCosts(ctx context.Context, from *ledger.Ledger, limits []api.BudgetItem) (map[string]bool, error) {
	if !slices.ContainsFunc(limits, func(i api.BudgetItem) bool { return i.Of == "cost" && i.OnLimit == config.BudgetHold }) {
		return nil, nil
	}
	names := map[string]bool{}
	held, err := inbox.New(from).HeldByBudgets(ctx)
	for _, h := range held {
		name := policy.BudgetCounters + h.Budget
		if h.Entity != "" {
			name += " " + h.Source + " " + h.Entity
		}
		if strings.HasSuffix(h.Budget, ".cost") && h.Asked > 0 { // what does not ask may find room
			names[name] = true
		}
	}
	return names, err
}

// mostBudgets is how many entities of a source are listed at most for a budget that each of them has.
const mostBudgets = 100

// mostApprovals is how many actions of a subscription that wait for a person's word are counted at most.
const mostApprovals = 1000

// ofApprovals adds actions that wait for a person's word, and those that have it and cannot run, as the file has them no more.
func (t *attention) ofApprovals(ctx context.Context, l *look) {
	if t.a.stream == nil {
		l.unknown[api.KindApproval] = noStream
		return
	}
	from, err := t.a.stream.openLedger()
	var waits []ledger.Approval
	if err == nil {
		waits, err = from.ApprovalsOpen(ctx, mostApprovals+1)
	}
	if err != nil {
		l.unknown[api.KindApproval], l.failed = err.Error(), true
		return
	}
	listed := map[string]int{}
	for i := range waits {
		row := approvalRow(t.a.file(), &waits[i])
		if waits[i].State == ledger.ApprovalApproved && row.Reason != policy.Removed { // it runs in its turn
			continue
		}
		l.add(row, listed, waits[i].Team+"."+waits[i].Subscription, mostApprovals)
	}
}

// ofDestinations adds destinations that are paused, or to which nothing gets through.
func (t *attention) ofDestinations(_ context.Context, l *look) {
	if t.a.stream == nil {
		l.unknown[api.KindDown], l.unknown[api.KindPaused] = noStream, noStream
		return
	}
	waiting := t.a.stream.waiting()
	for _, i := range (destinationsAPI{t.a.stream}).items(waiting) {
		of := waiting[fullName(i.Team, i.Destination)] // of one moment with i.Waiting: i.Running is of a later one
		switch {
		case i.Paused != nil && i.Paused.Scope != "": // one row says that of all
		case i.Paused != nil:
			l.rows = append(l.rows, pausedRow(i))
		case i.FailingSince != nil && l.at.Sub(*i.FailingSince) >= downAfter && i.Waiting+of.Running > 0:
			l.rows = append(l.rows, downRow(i, i.Waiting+of.Running, of))
		}
	}
}

// noIntake is why a process without the intake role knows nothing of what sources get.
const noIntake = "this process has no intake role; ask those that run `forebay serve --roles intake`"

// ofKeys adds sources none of whose secrets verifies what comes, whose deliveries have a wrong time, or wait on disk. Each process with the intake role knows of what came to it.
func (t *attention) ofKeys(_ context.Context, l *look) {
	if t.a.intake == nil {
		l.unknown[api.KindKeys], l.unknown[api.KindClock], l.unknown[api.KindSpooling] = noIntake, noIntake, noIntake
		return
	}
	l.rows = append(append(append(l.rows, t.a.unmatched()...), t.a.untimely()...), t.a.spoolRows()...)
}

// ofDeliveries counts the deliveries in quarantine topics. Only a process with the intake role knows what to do with them.
func (t *attention) ofDeliveries(ctx context.Context, cl *kgo.Client, l *look) {
	if t.a.intake == nil {
		l.unknown[api.KindQuarantinedDelivery] = noIntake
		return
	}
	var names []string
	of := map[string]nameInTeam{}
	for _, s := range sourceItems(t.a.file()) {
		topic := topics.Quarantine(s.Team, s.Source)
		names, of[topic] = append(names, topic), nameInTeam{s.Team, s.Source}
	}
	found, err := t.deliveries.Look(ctx, cl, names, (&quarantineAPI{a: t.a}).options()...)
	if err != nil {
		l.unknown[api.KindQuarantinedDelivery], l.failed = err.Error(), true
		return
	}
	l.backlogs = map[nameInTeam]producer.Backlog{}
	for topic, backlog := range found {
		l.backlogs[of[topic]] = backlog
	}
}

// warn logs what has begun to wait since the last look, as far as nothing else logs it.
func (t *attention) warn(before, now look) {
	for _, c := range now.ledger {
		if c.Kind != inbox.AttentionHeld && c.Kind != inbox.AttentionOverdue {
			continue
		}
		was := slices.IndexFunc(before.ledger, func(b inbox.AttentionCount) bool {
			return b.Team == c.Team && b.Subscription == c.Subscription && b.Kind == c.Kind && b.Count >= c.Count
		})
		if was < 0 {
			t.a.log.Warn("waits for an operator", "kind", string(c.Kind), "subscription", c.Team+"."+c.Subscription, "count", c.Count, "run", "forebay attention --kind "+string(c.Kind))
		}
	}
	var begun []api.AttentionItem
	more := map[string]int{} // partitions of a topic begin to wait together: they are one line
	for _, row := range now.rows {
		if row.Kind != api.KindUnread && row.Kind != api.KindDown && row.Kind != api.KindKeys && row.Kind != api.KindExpires && row.Kind != api.KindClock && row.Kind != api.KindDiffers {
			continue
		}
		if slices.ContainsFunc(before.rows, func(b api.AttentionItem) bool { return b.Kind == row.Kind && b.ID == row.ID && samePartition(b, row) }) {
			continue
		}
		if more[lineOf(row)]++; more[lineOf(row)] == 1 {
			begun = append(begun, row)
		}
	}
	for _, row := range begun {
		attrs := []any{"kind", row.Kind, "id", row.ID, "detail", row.Detail, "run", row.Command}
		switch n := more[lineOf(row)]; {
		case row.Partition == nil:
		case n == 1:
			attrs = append(attrs, "topic", row.Topic, "partition", *row.Partition)
		default:
			attrs = append(attrs, "topic", row.Topic, "partitions", n)
		}
		t.a.log.Warn("waits for an operator", attrs...)
	}
}

// lineOf is equal for rows that are one line in the log: partitions of one topic of which the same is said.
func lineOf(i api.AttentionItem) string {
	return strings.Join([]string{i.Kind, i.ID, i.Topic, i.Detail}, "\x00")
}

func samePartition(a, b api.AttentionItem) bool {
	return a.Topic == b.Topic && (a.Partition == nil || b.Partition == nil || *a.Partition == *b.Partition)
}

// counts sums what a look has found by kind, of one team or of all. Kinds that nothing is known of are left out. Of a kind that is known in
// part there may be more: More is set where some was found, and unknownTo says so in any case.
func (l look) counts(team string) (out []api.AttentionCount) {
	for _, kind := range api.AttentionKinds() {
		if l.nothing(kind) {
			continue
		}
		c := api.AttentionCount{Kind: kind}
		for _, of := range l.ledger {
			if string(of.Kind) == kind && (team == "" || of.Team == team) {
				c.Count += of.Count
				c.More = c.More || of.More || l.part[team] != nil
			}
		}
		for _, row := range l.rows {
			if row.Kind == kind && row.Of(team) {
				c.Count++
			}
		}
		for _, row := range l.over {
			c.More = c.More || row.Kind == kind && row.Of(team)
		}
		for of, backlog := range l.backlogs {
			if kind == api.KindQuarantinedDelivery && (team == "" || of.team == team) {
				c.Count += int64(len(backlog.Items))
				c.More = c.More || backlog.More
			}
		}
		out = append(out, c)
	}
	return out
}

// ofSubscription sums what waits in a subscription; known is false if that cannot be told.
func (l look) ofSubscription(at nameInTeam) (sum int64, more, known bool) {
	for _, c := range l.ledger {
		if c.Team == at.team && c.Subscription == at.name {
			sum += c.Count
			more = more || c.More
		}
	}
	for _, st := range l.partitions.standing {
		if st.of == at {
			sum++
		}
	}
	for _, row := range l.rows {
		if (row.Kind == api.KindPausedSubscription || row.Kind == api.KindBarred || row.Kind == api.KindApproval) && row.Team == at.team && row.Subscription == at.name {
			sum++
		}
	}
	for _, row := range l.over {
		more = more || row.Kind == api.KindApproval && row.Team == at.team && row.Subscription == at.name
	}
	return sum, more || l.part[at.team] != nil, !l.at.IsZero() && !l.nothing(string(inbox.AttentionDead)) && !l.nothing(api.KindStopped)
}

// known is a look without what it has of kinds that nothing is known of now.
func (l look) known() look {
	l.ledger = slices.DeleteFunc(slices.Clone(l.ledger), func(c inbox.AttentionCount) bool { return l.nothing(string(c.Kind)) })
	l.rows = slices.DeleteFunc(slices.Clone(l.rows), func(i api.AttentionItem) bool { return l.nothing(i.Kind) })
	if l.nothing(api.KindQuarantinedDelivery) {
		l.backlogs = nil
	}
	return l
}

// list answers the operator's question what waits.
func (t *attention) list(ctx context.Context, f api.AttentionFilter) (*api.Attention, error) {
	if err := t.knownTeam(ctx, f.Team); err != nil {
		return nil, err
	}
	l, err := t.look(ctx, attentionKept)
	if err != nil {
		return nil, err
	}
	out := &api.Attention{Items: []api.AttentionItem{}, Counts: []api.AttentionCount{}, Unknown: []api.AttentionUnknown{}}
	for _, c := range l.counts(f.Team) {
		if f.Kind == "" || f.Kind == c.Kind {
			out.Counts = append(out.Counts, c)
		}
	}
	for _, kind := range api.AttentionKinds() {
		if why := l.unknownTo(f.Team, kind); why != "" && (f.Kind == "" || f.Kind == kind) {
			out.Unknown = append(out.Unknown, api.AttentionUnknown{Kind: kind, Why: why})
		}
	}
	if others := t.a.file().Elsewhere(f.Team); t.a.stream != nil && len(others) > 0 {
		out.Unknown = append(out.Unknown, unknownElsewhere(others, out.Unknown, f.Kind)...)
	}
	l = l.known()
	rows := slices.DeleteFunc(slices.Clone(l.rows), func(i api.AttentionItem) bool {
		return !i.Of(f.Team) || f.Kind != "" && f.Kind != i.Kind
	})
	ledger, err := t.ledgerRows(ctx, l, f)
	if err != nil && l.part[f.Team] == nil { // else it may be what could not be counted either, and that is said already
		return nil, err
	}
	out.Items = firstOfEach(slices.Concat(rows, ledger, l.deliveryRows(f)), f.Limit)
	recount(out, f.Limit)
	for i := range out.Items {
		out.Items[i].People = peopleOf(t.a.file(), out.Items[i].Team, out.Items[i].Subscription)
	}
	return out, nil
}

// knownTeam refuses a team that neither the file nor the ledger has: an empty list would say that nothing waits.
func (t *attention) knownTeam(ctx context.Context, team string) error {
	k := configured(t.a.file())
	err := names.Team(team, k.teams)
	if err == nil || t.a.stream == nil {
		return err
	}
	box, _, openErr := (&inboxAPI{t.a.stream}).open()
	if openErr != nil {
		return err
	}
	if err := k.addLedger(ctx, box); err != nil {
		return err
	}
	return names.Team(team, k.teams)
}

// recount takes the number of rows for the count of a kind of the ledger that is listed whole: the rows were read last. Where the count was
// cut off, so may the rows have been.
func recount(out *api.Attention, limit int) {
	listed := map[string]int{}
	for _, i := range out.Items {
		listed[i.Kind]++
	}
	for i := range out.Counts {
		if n := listed[out.Counts[i].Kind]; n < limit && !out.Counts[i].More && slices.Contains(inbox.AttentionKinds(), inbox.AttentionKind(out.Counts[i].Kind)) {
			out.Counts[i] = api.AttentionCount{Kind: out.Counts[i].Kind, Count: int64(n)}
		}
	}
}

// firstOfEach returns the items in the order of kinds, of each the oldest first and at most limit.
func firstOfEach(all []api.AttentionItem, limit int) []api.AttentionItem {
	out := []api.AttentionItem{}
	for _, kind := range api.AttentionKinds() {
		var mine []api.AttentionItem
		for _, i := range all {
			if i.Kind == kind {
				mine = append(mine, i)
			}
		}
		slices.SortStableFunc(mine, func(a, b api.AttentionItem) int {
			return cmp.Or(compareTimes(a.Since, b.Since), cmp.Compare(a.ID, b.ID))
		})
		out = append(out, mine[:min(limit, len(mine))]...)
	}
	return out
}

func compareTimes(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(*b)
}

// standsStill returns an error if a partition of a subscription stands still, that this process has or nobody has; nil in the first
// standsAfter of the process.
func (t *attention) standsStill(at nameInTeam) error {
	if time.Since(t.began) < standsAfter {
		return nil
	}
	l := t.seen()
	var found []string
	for _, st := range l.partitions.standing {
		if st.of == at && st.mine {
			found = append(found, fmt.Sprintf("%s/%d is %s since %s", st.topic, st.number, st.state, st.since.UTC().Format(time.RFC3339)))
		}
	}
	if len(found) == 0 {
		return nil
	}
	more := ""
	if n := len(found); n > 3 {
		found, more = found[:3], fmt.Sprintf(" and %d more", n-3)
	}
	return fmt.Errorf("%s%s; `forebay attention` says what to run", strings.Join(found, ", "), more)
}

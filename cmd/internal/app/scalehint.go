package app

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
)

// scaleFacts are what a hint follows from, of one subscription.
type scaleFacts struct {
	name       string
	paused     bool
	partitions int
	standing   int // of them, stopped or read by nobody
	processes  int // that have partitions
	cores      int // that the asked process may use
	busy       float64
	in, out    float64 // records/s that came, and that were decided
	lag        int64   // records that are not decided
	hot        float64 // share of the lag that the fullest partition has
	behind     int     // partitions that have a lag
	counted    bool    // open, dead and growth are known: there are not too many to count in time
	open       int64   // actions that have not ended, without dead
	dead       int64   // actions that wait for an operator
	growth     float64 // of open, a second
	to         []scaleDestination
	// lagOf and openOf are the owners of the partitions that are behind, and that have open actions, where the asked process has none of them:
	// its cores and slots say nothing of those.
	lagOf, openOf []string
}

// scaleDestination is a destination of the subscription, as the asked process sees it.
type scaleDestination struct {
	name                 string
	state                string
	running, concurrency int
	waiting              int
	limit                string // its rate in the file; empty: none
}

const (
	littleLag   = 1000 // records that are no backlog
	littleOpen  = 100  // open actions that are none
	fullOf      = 0.9  // of its slots, a destination that is full
	busyOf      = 0.8  // of the cores, a process that has no more to give
	hotOf       = 0.8  // of the lag, a partition that alone is behind
	catchUp     = 10 * time.Minute
	sampleEvery = 3 * time.Second // between the two looks that rates come from
)

// hint returns what to add, a word of the API, and a sentence with the numbers that this follows from.
func (f *scaleFacts) hint() (add, why string) {
	d := f.fullest()
	switch {
	case f.paused:
		return api.ScaleNothing, fmt.Sprintf("add nothing: it is paused, with %d records not decided; `forebay subscriptions resume %s --reason TEXT` lets it go on", f.lag, f.name)
	case f.standing > 0:
		return api.ScaleNothing, fmt.Sprintf("add nothing yet: %d of %d partitions stand still, which no size changes; `forebay subscriptions get %s` says why", f.standing, f.partitions, f.name)
	case d != nil && f.hasOpen() && len(f.openOf) == 0 && d.state != "running":
		return api.ScaleNothing, fmt.Sprintf("add nothing: %s, and %d of them wait for %s, which is %s; `forebay destinations get %s` says why", f.openText(), d.waiting, d.name, d.state, d.name)
	case f.slowGate() && len(f.lagOf) > 0:
		return f.hintToAsk("the partitions that are behind", f.lagOf)
	case f.slowGate():
		return f.hintForGate()
	case f.hasOpen() && f.growth >= 0 && len(f.openOf) > 0:
		return f.hintToAsk("the partitions with open actions", f.openOf)
	case d != nil && f.hasOpen() && f.growth >= 0:
		return f.hintForLanes(d)
	case !f.counted:
		return api.ScaleUnknown, "nobody can tell whether it keeps up: " + f.numbers()
	}
	return api.ScaleNothing, "add nothing: it keeps up: " + f.numbers()
}

// hasOpen reports whether more actions are open than come and go. Where there are too many to count, there are.
func (f *scaleFacts) hasOpen() bool { return !f.counted || f.open > littleOpen }

// openText says how many actions are open.
func (f *scaleFacts) openText() string {
	switch {
	case !f.counted:
		return "more actions are open than can be counted in time"
	case f.dead > 0:
		return fmt.Sprintf("%d actions are open, besides %d that are dead or parked (`forebay dlq list`)", f.open, f.dead)
	}
	return fmt.Sprintf("%d actions are open", f.open)
}

// hintToAsk is for partitions that other processes have.
func (f *scaleFacts) hintToAsk(which string, owners []string) (add, why string) {
	return api.ScaleUnknown, fmt.Sprintf("ask another process: %s are of %s, and this one's cores and slots say nothing of them: %s", which, strings.Join(owners, ", "), f.numbers())
}

// slowGate reports whether records come faster than they are decided, or what is behind would take longer than catchUp.
func (f *scaleFacts) slowGate() bool {
	if f.lag <= littleLag {
		return false
	}
	gain := f.out - f.in
	return gain <= 0 || time.Duration(float64(f.lag)/gain*float64(time.Second)) > catchUp
}

// numbers are the rates and what is behind.
func (f *scaleFacts) numbers() string {
	return fmt.Sprintf("%.0f records/s come and %.0f are decided, %d are not decided yet, %s", f.in, f.out, f.lag, f.openText())
}

// hintForGate is for records that are decided too slowly.
func (f *scaleFacts) hintForGate() (add, why string) {
	switch wanted := f.wantedProcesses(); {
	case f.behind == 1 && f.partitions > 1 && f.hot >= hotOf:
		return api.ScaleNothing, fmt.Sprintf("add nothing: one of %d partitions has all that is behind, so its entities are busier than the others, and neither processes nor partitions divide one entity: %s", f.partitions, f.numbers())
	case f.busy < busyOf*float64(f.cores) && f.processes > 0:
		return api.ScaleNothing, fmt.Sprintf("add no process: this one uses %.1f of %d cores while it is behind, so Postgres or the brokers hold it up: %s", f.busy, f.cores, f.numbers())
	case f.processes >= f.partitions:
		return api.ScalePartitions, fmt.Sprintf("add partitions: each of %d processes has one of %d already, and this one uses %.1f of %d cores: %s; `forebay topics rekey` says how", f.processes, f.partitions, f.busy, f.cores, f.numbers())
	case wanted > f.partitions:
		return api.ScalePartitions, fmt.Sprintf("add %d processes, to %d, and then partitions, of which there are %d for %d that would be needed: %s", f.partitions-f.processes, f.partitions, f.partitions, wanted, f.numbers())
	default:
		return api.ScaleProcesses, fmt.Sprintf("add %d processes, to %d: this one uses %.1f of %d cores, and %s", wanted-f.processes, wanted, f.busy, f.cores, f.numbers())
	}
}

// wantedProcesses is how many decide what comes and what is behind within catchUp, at the rate of those that there are.
func (f *scaleFacts) wantedProcesses() int {
	each := f.out / float64(max(1, f.processes))
	if each <= 0 {
		return f.processes + 1
	}
	return max(f.processes+1, int(math.Ceil((f.in+float64(f.lag)/catchUp.Seconds())/each)))
}

// fullest returns the destination that takes the least for what waits for it: one that is not called, else the one with the largest share of
// its slots in use; nil if none has anything.
func (f *scaleFacts) fullest() *scaleDestination {
	var found *scaleDestination
	for i := range f.to {
		d := &f.to[i]
		if d.waiting+d.running > 0 && (found == nil || d.rank() > found.rank()) {
			found = d
		}
	}
	return found
}

func (d *scaleDestination) rank() float64 {
	if d.state != "running" {
		return 2
	}
	return float64(d.running) / float64(max(1, d.concurrency))
}

// hintForLanes is for actions that end too slowly.
func (f *scaleFacts) hintForLanes(d *scaleDestination) (add, why string) {
	open := f.openText()
	if f.counted {
		open += fmt.Sprintf(", %+.0f a second", f.growth)
	}
	switch {
	case d.limit != "":
		return api.ScaleNothing, fmt.Sprintf("raise the rate of %s, or add nothing: its limit is %s in each of %d processes, and %s", d.name, d.limit, f.processes, open)
	case d.rank() >= fullOf:
		return api.ScaleConcurrency, fmt.Sprintf("raise `concurrency` of %s from %d, if it can take more: %d of %d slots are in use in this process, %d actions wait for one, and %s",
			d.name, d.concurrency, d.running, d.concurrency, d.waiting, open)
	case f.busy >= busyOf*float64(f.cores) && f.processes < f.partitions:
		return api.ScaleProcesses, fmt.Sprintf("add a process, to %d of %d partitions: this one uses %.1f of %d cores, and %s", f.processes+1, f.partitions, f.busy, f.cores, open)
	}
	return api.ScaleNothing, fmt.Sprintf("add nothing: %s, while %d of %d slots of %s are in use: actions wait for the one before them of their entity, or for a retry", open, d.running, d.concurrency, d.name)
}

// ScaleHint says what to add to a subscription, from two looks at it.
func (s *steeringAPI) ScaleHint(ctx context.Context, team, name string) (*api.ScaleHintItem, error) {
	at := nameInTeam{team, name}
	if err := s.configured(at); err != nil {
		return nil, err
	}
	b, err := s.a.stream.asker()
	if err != nil {
		return nil, err
	}
	defer b.cl.Close()
	before, err := s.positions(ctx, b, at)
	if err != nil {
		return nil, err
	}
	began, usedBefore := time.Now(), s.a.processorTime()
	if err := s.countOpen(ctx, before); err != nil {
		return nil, err
	}
	sample := time.NewTimer(sampleEvery)
	defer sample.Stop()
	select {
	case <-sample.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	now, err := s.positions(ctx, b, at)
	if err != nil {
		return nil, err
	}
	seconds := time.Since(began).Seconds()
	busy := max(0, s.a.processorTime()-usedBefore) / seconds
	if err := s.countOpen(ctx, now); err != nil {
		return nil, err
	}
	states := s.states(ctx, at)
	f := factsOf(before, now, seconds, func(s *partitionPosition) bool {
		_, own := states.own[partitionKey{at, s.partition.Topic, s.partition.Number}]
		return own
	})
	f.name, f.paused, f.cores, f.busy = team+"."+name, states.paused != nil, cores(), busy
	for i := range now {
		if state, _ := states.of(at, &now[i]); state == "stopped" || state == stateUnread {
			f.standing++
		}
	}
	if f.to, err = s.scaleDestinations(ctx, at); err != nil {
		return nil, err
	}
	add, why := f.hint()
	item := &api.ScaleHintItem{Team: team, Subscription: name, Add: add, Hint: why, Lag: f.lag, ComePerSecond: f.in, DecidedPerSecond: f.out,
		Partitions: f.partitions, Processes: f.processes, Cores: f.cores, BusyCores: f.busy}
	if f.counted {
		item.OpenActions = &f.open
	}
	return item, nil
}

// cores returns how many cores this process may use: no more than its control group allows, where the machine has more.
func cores() int { return runtime.GOMAXPROCS(0) }

// factsOf returns what two looks, some seconds apart, say of lag, rates and open actions. own says which partitions this process has.
func factsOf(before, now []partitionPosition, seconds float64, own func(*partitionPosition) bool) (f scaleFacts) {
	var came, decided, opened, most int64
	var all, lagging, opening ownerList
	f.counted = true
	for i := range now {
		s := &now[i]
		f.partitions++
		mine := own(s)
		all.add(s, mine)
		from, known := s.from()
		if lag := s.end - from; known && lag > 0 {
			f.lag, most, f.behind = f.lag+lag, max(most, lag), f.behind+1
			lagging.add(s, mine)
		}
		if n := s.counts(); n == nil {
			f.counted = false
			opening.add(s, mine)
		} else if f.dead += n.Dead; n.Going() > 0 {
			f.open += n.Going()
			opening.add(s, mine)
		}
		j := slices.IndexFunc(before, func(b partitionPosition) bool { return b.partition == s.partition })
		if j < 0 {
			continue
		}
		b := &before[j]
		came += max(0, s.end-b.end)
		if s.position() != nil && b.position() != nil {
			decided += max(0, *s.position()-*b.position())
		}
		if n, was := s.counts(), b.counts(); n != nil && was != nil {
			opened += n.Going() - was.Going()
		} else {
			f.counted = false
		}
	}
	f.processes, f.lagOf, f.openOf = len(all.names), lagging.others(), opening.others()
	f.in, f.out, f.growth = float64(came)/seconds, float64(decided)/seconds, float64(opened)/seconds
	if f.lag > 0 {
		f.hot = float64(most) / float64(f.lag)
	}
	return f
}

// ownerList is who has some partitions.
type ownerList struct {
	names []string
	mine  bool // the asked process has one of them
}

func (l *ownerList) add(s *partitionPosition, mine bool) {
	l.mine = l.mine || mine
	if s.ledger != nil && s.ledger.Owner != "" && !slices.Contains(l.names, s.ledger.Owner) {
		l.names = append(l.names, s.ledger.Owner)
	}
}

// others returns the owners, if the asked process has none of the partitions.
func (l *ownerList) others() []string {
	if l.mine {
		return nil
	}
	return l.names
}

// scaleDestinations returns the destinations of a subscription as this process sees them.
func (s *steeringAPI) scaleDestinations(ctx context.Context, at nameInTeam) (out []scaleDestination, err error) {
	all, err := destinationsAPI{s.a.stream}.Destinations(ctx)
	if err != nil {
		return nil, err
	}
	file := s.a.file()
	seen := map[string]bool{}
	for _, action := range file.Teams[at.team].Subscriptions[at.name].Actions {
		d, ok := file.Destination(at.team, action.To)
		if !ok || seen[action.To] {
			continue
		}
		seen[action.To] = true
		for _, item := range all {
			if fullName(item.Team, item.Destination) == d.FullName() {
				out = append(out, scaleDestination{name: d.FullName(), state: item.State, running: item.Running, concurrency: item.Concurrency,
					waiting: item.Waiting, limit: limitOf(d.Destination)})
			}
		}
	}
	return out, nil
}

// limitOf returns a destination's rate in words; empty if it has none.
func limitOf(d *config.Destination) string {
	if d.Rate == nil {
		return ""
	}
	return fmt.Sprintf("%v per %s", d.Rate.Limit, d.Rate.Per.Std())
}

// processorTime returns the seconds of processor time that this process has used; 0 where the system does not say.
func (a *App) processorTime() float64 {
	families, err := a.registry.Gather()
	if err != nil {
		return 0
	}
	for _, f := range families {
		if f.GetName() == "process_cpu_seconds_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

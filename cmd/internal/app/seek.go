package app

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// target is where a seek is to lead: one of its fields is set.
type target struct {
	start, end bool
	offset     *int64
	at         time.Time
}

// parseTarget reads what --to takes.
func parseTarget(text string, now time.Time) (t target, err error) {
	bad := func(format string, args ...any) (target, error) {
		return t, schemas.Errorf(schemas.Invalid, "", format, args...)
	}
	switch {
	case text == "start":
		return target{start: true}, nil
	case text == "end":
		return target{end: true}, nil
	case text == "":
		return bad("it is not said where to: start, end, an offset, a time such as 2026-11-20T08:00:00Z, or how long ago: -1h")
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 {
			return bad("%d is no offset; how long ago is said with a unit: %ds, %dm or %dh", n, n, n, n)
		}
		return target{offset: &n}, nil
	}
	if ago, ok := strings.CutPrefix(text, "-"); ok {
		d, err := parseAgo(ago)
		if err != nil {
			return bad("%q is not how long ago: -90s, -30m, -1h or -2d", text)
		}
		return target{at: now.Add(-d)}, nil
	}
	if t.at, err = time.Parse(time.RFC3339, text); err != nil {
		return bad("%q is not start, end, an offset, an RFC 3339 time such as 2026-11-20T08:00:00Z, or how long ago: -1h", text)
	}
	if t.at.After(now) {
		return bad("%s is in the future, by %s; `--to end` passes over all that is there", text, t.at.Sub(now).Round(time.Second))
	}
	return t, nil
}

// parseAgo reads a duration, also in days.
func parseAgo(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 15)
		return time.Duration(n) * 24 * time.Hour, err
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is negative", text)
	}
	return d, err
}

// Seek asks the owners of a subscription's partitions, of all or of those that the request names, to move their positions, and waits a while
// for their answers. Either all can be moved as far as this process can tell, or nothing is asked of any. Each moves by itself: its owner
// claims the partition again for that.
func (s *steeringAPI) Seek(ctx context.Context, team, name string, r api.SeekRequest) ([]api.SeekAskedItem, error) {
	at := nameInTeam{team, name}
	if err := s.configured(at); err != nil {
		return nil, err
	}
	to, err := parseTarget(r.To, time.Now())
	if err != nil {
		return nil, err
	}
	b, err := s.a.stream.asker()
	if err != nil {
		return nil, err
	}
	defer b.cl.Close()
	all, err := s.positions(ctx, b, at)
	if err != nil {
		return nil, err
	}
	chosen, err := selected(all, at, r, to)
	if err != nil {
		return nil, err
	}
	l, err := (&stopsAPI{s.a}).ledger()
	if err != nil {
		return nil, err
	}
	remembers, err := l.Remembers(ctx, team+"."+name)
	if err != nil {
		return nil, err
	}
	known, err := l.SeekRequests(ctx, team+"."+name, seeksListed)
	if err != nil {
		return nil, err
	}
	plan := seekPlan{at: at, all: all, remembers: remembers, known: known}
	for i := range chosen {
		if err := plan.add(ctx, b, &chosen[i], to); err != nil {
			return nil, err
		}
	}
	if len(plan.refusals) > 0 {
		return nil, schemas.Errorf(schemas.Conflict, "", "nothing was moved: %s", strings.Join(plan.refusals, "; "))
	}
	if r.DryRun || len(plan.asks) == 0 {
		return plan.items, nil
	}
	return plan.items, s.carryOut(ctx, l, &plan, cmp.Or(r.By, "unknown"), r.Reason)
}

// selected returns the partitions that a request names.
func selected(all []partitionPosition, at nameInTeam, r api.SeekRequest, to target) ([]partitionPosition, error) {
	var topics []string
	for i := range all {
		if topic := all[i].partition.Topic; !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	if r.Topic != "" && !slices.Contains(topics, r.Topic) {
		return nil, schemas.Errorf(schemas.NotFound, "", "%s.%s does not read topic %s, but %s", at.team, at.name, r.Topic, strings.Join(topics, ", "))
	}
	if r.Topic == "" && r.Partition != nil && len(topics) > 1 {
		return nil, schemas.Errorf(schemas.Invalid, "", "%s.%s reads %s: say with --topic of which partition %d is", at.team, at.name, strings.Join(topics, ", "), *r.Partition)
	}
	var out []partitionPosition
	for i := range all {
		p := all[i].partition
		if (r.Topic == "" || p.Topic == r.Topic) && (r.Partition == nil || p.Number == *r.Partition) {
			out = append(out, all[i])
		}
	}
	switch {
	case len(out) == 0 && r.Partition != nil:
		n := len(slices.DeleteFunc(slices.Clone(all), func(s partitionPosition) bool { return r.Topic != "" && s.partition.Topic != r.Topic }))
		return nil, schemas.Errorf(schemas.NotFound, "", "there is no partition %d: the topic has %d, from 0 on", *r.Partition, n)
	case to.offset != nil && len(out) > 1:
		return nil, schemas.Errorf(schemas.Invalid, "", "an offset is of one partition: say with --partition of which; there are %d", len(out))
	}
	return out, nil
}

// seekPlan is what is to be asked of which partition, or why it cannot be.
type seekPlan struct {
	at        nameInTeam
	all       []partitionPosition // all partitions of the subscription
	remembers time.Time
	known     []ledger.SeekStatus // what was asked for before
	items     []api.SeekAskedItem
	asks      []ledger.SeekAsk
	positions []*partitionPosition // by item
	of        []int                // by ask, the index of its item
	refusals  []string
}

// add plans the move of one partition. The error is one of asking the brokers.
func (p *seekPlan) add(ctx context.Context, b *asker, s *partitionPosition, to target) error {
	why := p.unfit(s)
	if why == "" {
		offset, refusal, err := b.offsetOf(ctx, s, to)
		if err == nil && refusal == "" {
			refusal, err = p.forgotten(ctx, b, s, offset)
		}
		if err != nil {
			return schemas.Errorf(schemas.Unavailable, "ask the brokers", "%w", err)
		}
		if why = refusal; why == "" {
			p.plan(s, offset)
			return nil
		}
	}
	p.refusals = append(p.refusals, fmt.Sprintf("%s/%d: %s", s.partition.Topic, s.partition.Number, why))
	return nil
}

// unfit says why a partition has no position that can be moved; empty if it has.
func (p *seekPlan) unfit(s *partitionPosition) string {
	name := p.at.team + "." + p.at.name
	partitions := int32(0)
	for i := range p.all {
		if p.all[i].partition.Topic == s.partition.Topic {
			partitions++
		}
	}
	switch {
	case s.former:
		return fmt.Sprintf("the topic was deleted and created again, and its offsets are others: `forebay subscriptions get %s` says how to go on in it", name)
	case s.position() == nil:
		return "no process has claimed it yet, so it has no position; it begins as `begin` in the file says"
	case s.ledger.Recorded != partitions:
		return fmt.Sprintf("the topic has %d partitions and had %d: `forebay subscriptions get %s` says what to do", partitions, s.ledger.Recorded, name)
	}
	return ""
}

// offsetOf returns the offset that a target is in a partition, or why it cannot be one.
func (b *asker) offsetOf(ctx context.Context, s *partitionPosition, to target) (offset int64, refusal string, err error) {
	switch {
	case to.start:
		return s.start, "", nil
	case to.end:
		return s.end, "", nil
	case to.offset != nil && *to.offset < s.start:
		return 0, fmt.Sprintf("offset %d is not in the log any more, which begins at %d (`--to start`): retention has deleted what was before", *to.offset, s.start), nil
	case to.offset != nil && *to.offset > s.end:
		return 0, fmt.Sprintf("offset %d is beyond the end of the log, which is %d (`--to end`)", *to.offset, s.end), nil
	case to.offset != nil:
		return *to.offset, "", nil
	}
	if offset, err = b.log.OffsetAfter(ctx, reader.At(s.partition), to.at); err != nil {
		return 0, "", err
	}
	offset = min(max(offset, s.start), s.end)
	if offset > s.start || s.start == 0 || s.start == s.end {
		return offset, "", nil
	}
	refusal, err = b.mayBeDeleted(ctx, s, to.at)
	return offset, refusal, err
}

// mayBeDeleted returns why records since a time may be missing at the start of a log whose first record is younger; empty if none can be. A log
// that does not begin at offset 0 proves nothing: perhaps the partition had no record for long, and retention deleted only older ones.
func (b *asker) mayBeDeleted(ctx context.Context, s *partitionPosition, since time.Time) (string, error) {
	first, err := b.log.AppendTime(ctx, s.partition, s.start)
	if err != nil || !first.Truncate(time.Millisecond).After(since) {
		return "", err
	}
	may, err := b.log.MayHaveDeleted(ctx, s.partition.Topic, since.Add(-clockSkew))
	if err != nil || !may {
		return "", err
	}
	return fmt.Sprintf("the log begins at %s (offset %d, `--to start`): retention has deleted what was before, and records since %s may be among it",
		first.UTC().Format(time.RFC3339), s.start, since.UTC().Format(time.RFC3339)), nil
}

// clockSkew is how far the clocks of the database, which dates what dedupe remembers, and of the brokers may differ, as package owner has it.
const clockSkew = 5 * time.Minute

// forgotten returns why a move back leads to records that dedupe may have forgotten; empty if it does not.
func (p *seekPlan) forgotten(ctx context.Context, b *asker, s *partitionPosition, offset int64) (string, error) {
	if p.remembers.IsZero() || offset >= *s.position() || offset >= s.end {
		return "", nil
	}
	first, err := b.log.AppendTime(ctx, s.partition, offset)
	if err != nil || !first.Before(p.remembers.Add(clockSkew)) {
		return "", err
	}
	return fmt.Sprintf("offset %d is of %s, and dedupe remembers decisions since %s: what was decided before would run again; `--to %s` is the earliest",
		offset, first.UTC().Format(time.RFC3339), p.remembers.UTC().Format(time.RFC3339), p.remembers.Add(clockSkew+time.Second).UTC().Format(time.RFC3339)), nil
}

// plan adds a move that can be made.
func (p *seekPlan) plan(s *partitionPosition, offset int64) {
	from := *s.position()
	item := api.SeekAskedItem{Team: p.at.team, Subscription: p.at.name, Topic: s.partition.Topic, Partition: s.partition.Number, From: &from, To: offset, State: api.SeekPlanned}
	s.count(&item)
	if offset == from && !p.hasOpenSeek(s) {
		item.State = api.SeekUnchanged
	} else { // a request for where the partition is undoes one that is still open
		p.asks = append(p.asks, ledger.SeekAsk{Fence: s.ledger.Fence, TopicID: s.partition.TopicID, To: offset})
		p.of = append(p.of, len(p.items))
	}
	p.items, p.positions = append(p.items, item), append(p.positions, s)
}

// count sets how many offsets a move reads again, how many of them are known as done, and how many it passes over that were not decided.
// By the time that its owner moves a partition, it may have read on: what it has read by then is decided.
func (s *partitionPosition) count(i *api.SeekAskedItem) {
	from, end, high := *i.From, s.end, max(*s.ledger.High, *i.From)
	if from > *s.position() {
		end = max(end, from)
	}
	reread := max(0, min(from, end)-i.To)
	i.Again, i.KnownDone, i.Skipped = &reread, new(reread-s.undecided(high, i.To, i.To+reread)), new(s.undecided(high, max(from, s.start), i.To))
}

// undecided returns how many of the offsets [from, to) were never decided: those before the subscription's begin, those that moves forward have
// passed over, and those from high on. It is an estimate: a later move may have led back to the begin, or to what was passed over.
func (s *partitionPosition) undecided(high, from, to int64) int64 {
	ranges := append(slices.Clone(s.ledger.Skipped), [2]int64{high, math.MaxInt64})
	if s.ledger.Begin != nil {
		ranges = append(ranges, [2]int64{0, *s.ledger.Begin})
	}
	return overlap(ranges, from, to)
}

// hasOpenSeek reports whether a seek of the partition is still open.
func (p *seekPlan) hasOpenSeek(s *partitionPosition) bool {
	return slices.ContainsFunc(p.known, func(k ledger.SeekStatus) bool {
		return k.EndedAt == nil && k.Topic == s.partition.Topic && k.Partition == s.partition.Number
	})
}

// overlap returns how many of the offsets [from, to) are in one of the ranges.
func overlap(ranges [][2]int64, from, to int64) (sum int64) {
	slices.SortFunc(ranges, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	for _, r := range ranges {
		begin, end := max(r[0], from), min(r[1], to)
		if end > begin {
			sum += end - begin
			from = end
		}
	}
	return sum
}

const (
	seekWait = 12 * time.Second       // how long an answer waits for the owners
	seekLook = 200 * time.Millisecond // how often it looks what they have done
)

// carryOut asks the owners and waits until they have answered, or seekWait has passed: then the rest is waiting.
func (s *steeringAPI) carryOut(ctx context.Context, l *ledger.Ledger, p *seekPlan, by, reason string) error {
	ids, err := l.AskSeeks(ctx, p.asks, by, reason)
	if err != nil {
		return err
	}
	for i, id := range ids {
		p.items[p.of[i]].ID, p.items[p.of[i]].State = id, api.SeekWaiting
	}
	wait := time.NewTimer(seekWait)
	defer wait.Stop()
	look := time.NewTicker(seekLook)
	defer look.Stop()
	for {
		open, err := s.takeOutcomes(ctx, l, p)
		if err != nil || !open {
			return nil // they were asked: what cannot be read now is told as waiting
		}
		select {
		case <-wait.C:
			return nil
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// takeOutcomes brings the items up to what has become of them, and reports whether one is still open.
func (s *steeringAPI) takeOutcomes(ctx context.Context, l *ledger.Ledger, p *seekPlan) (open bool, err error) {
	known, err := l.SeekRequests(ctx, p.at.team+"."+p.at.name, len(p.all)*2)
	if err != nil {
		return true, err
	}
	for i := range p.items {
		item := &p.items[i]
		for _, k := range known {
			if k.ID != item.ID {
				continue
			}
			copySeekStatus(item, &k)
			if k.From != nil {
				p.positions[i].count(item)
			}
		}
		open = open || item.State == api.SeekWaiting
	}
	return open, nil
}

// Seeks lists what was asked of a subscription with `subscriptions seek`, what has ended too: the newest seeksListed.
func (s *steeringAPI) Seeks(ctx context.Context, team, name string) ([]api.SeekAskedItem, error) {
	at := nameInTeam{team, name}
	if err := s.configured(at); err != nil {
		return nil, err
	}
	l, err := (&stopsAPI{s.a}).ledger()
	if err != nil {
		return nil, err
	}
	known, err := l.SeekRequests(ctx, team+"."+name, seeksListed)
	items := make([]api.SeekAskedItem, len(known))
	for i := range known {
		items[i] = api.SeekAskedItem{ID: known[i].ID, Team: team, Subscription: name, Topic: known[i].Topic, Partition: known[i].Partition}
		copySeekStatus(&items[i], &known[i])
	}
	return items, err
}

// seeksListed is how many seeks are listed at most.
const seeksListed = 1000

// copySeekStatus brings an item up to what has become of its request.
func copySeekStatus(i *api.SeekAskedItem, k *ledger.SeekStatus) {
	i.State, i.To, i.Detail, i.By, i.Reason = cmp.Or(k.Outcome, api.SeekWaiting), k.To, k.Detail, k.By, k.Reason
	i.AskedAt, i.EndedAt = timeOrNull(k.AskedAt), k.EndedAt
	if k.From != nil {
		i.From = k.From
	}
	if i.State == api.SeekWaiting {
		i.Detail = "no process has the partition: the next one that claims it moves it"
		if k.Owner != "" {
			i.Detail = "for " + k.Owner + ", which has the partition and ends what is under way"
		}
	}
}

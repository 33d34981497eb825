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
	"github.com/forebay-io/forebay/cmd/internal/config"
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
		d, err := config.ParseDuration(ago)
		if err != nil || d <= 0 {
			return bad("%q is not how long ago: -90s, -30m, -1h or -2d", text)
		}
		return target{at: now.Add(-d.Std())}, nil
	}
	if t.at, err = time.Parse(time.RFC3339, text); err != nil {
		return bad("%q is not start, end, an offset, an RFC 3339 time such as 2026-11-20T08:00:00Z, or how long ago: -1h", text)
	}
	if t.at.After(now) {
		return bad("%s is in the future, by %s; `--to end` passes over all that is there", text, t.at.Sub(now).Round(time.Second))
	}
	return t, nil
}

// Seek asks the owners of a subscription's partitions, of all or of those that the request names, to move their positions. Either all can be
// moved as far as this process can tell, or nothing is asked of any. Each moves by itself: its owner claims the partition again for that. It
// does not wait for them: Seeks says what has become of it.
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
	l, err := s.a.stream.openLedger()
	if err != nil {
		return nil, err
	}
	remembers, err := l.Remembers(ctx, team+"."+name)
	if err != nil {
		return nil, err
	}
	var (
		items    []api.SeekAskedItem
		asks     []ledger.SeekAsk
		refusals []string
	)
	for i := range chosen {
		p := &chosen[i]
		offset, refusal, err := b.offsetOf(ctx, p, to, remembers)
		switch {
		case err != nil:
			return nil, schemas.Errorf(schemas.Unavailable, "ask the brokers", "%w", err)
		case refusal != "":
			refusals = append(refusals, fmt.Sprintf("%s/%d: %s", p.partition.Topic, p.partition.Number, refusal))
			continue
		}
		items = append(items, p.plan(at, offset))
		asks = append(asks, ledger.SeekAsk{Fence: p.ledger.Fence, TopicID: p.partition.TopicID, From: *p.position(), To: offset})
	}
	if len(refusals) > 0 {
		return nil, schemas.Errorf(schemas.Conflict, "", "nothing was moved: %s", strings.Join(refusals, "; "))
	}
	if r.DryRun {
		return items, nil
	}
	ids, err := l.AskSeeks(ctx, asks, cmp.Or(r.By, "unknown"), r.Reason)
	for i, id := range ids {
		if items[i].ID = id; id != 0 {
			items[i].State = api.SeekWaiting
		}
	}
	return items, err
}

// selected returns the partitions that a request names.
func selected(all []partitionPosition, at nameInTeam, r api.SeekRequest, to target) ([]partitionPosition, error) {
	var (
		topics []string
		of     int // partitions of the topics that are meant
		out    []partitionPosition
	)
	for i := range all {
		p := all[i].partition
		if !slices.Contains(topics, p.Topic) {
			topics = append(topics, p.Topic)
		}
		if r.Topic == "" || p.Topic == r.Topic {
			of++
			if r.Partition == nil || p.Number == *r.Partition {
				out = append(out, all[i])
			}
		}
	}
	switch {
	case of == 0:
		return nil, schemas.Errorf(schemas.NotFound, "", "%s.%s does not read topic %s, but %s", at.team, at.name, r.Topic, strings.Join(topics, ", "))
	case r.Topic == "" && r.Partition != nil && len(topics) > 1:
		return nil, schemas.Errorf(schemas.Invalid, "", "%s.%s reads %s: say with --topic of which partition %d is", at.team, at.name, strings.Join(topics, ", "), *r.Partition)
	case len(out) == 0:
		return nil, schemas.Errorf(schemas.NotFound, "", "there is no partition %d: the topic has %d, from 0 on", *r.Partition, of)
	case to.offset != nil && len(out) > 1:
		return nil, schemas.Errorf(schemas.Invalid, "", "an offset is of one partition: say with --partition of which; there are %d", len(out))
	}
	return out, nil
}

// offsetOf returns the offset that a target is in a partition, or why the partition cannot be moved there.
func (b *asker) offsetOf(ctx context.Context, s *partitionPosition, to target, remembers time.Time) (offset int64, refusal string, err error) {
	switch {
	case s.former:
		return 0, "the topic was deleted and created again, and its offsets are others: `forebay subscriptions get` says how to go on in it", nil
	case s.position() == nil:
		return 0, "no process has claimed it yet, so it has no position; it begins as `begin` in the file says", nil
	case to.start:
		offset = s.start
	case to.end:
		offset = s.end
	case to.offset != nil && *to.offset < s.start:
		return 0, fmt.Sprintf("offset %d is not in the log any more, which begins at %d (`--to start`): retention has deleted what was before", *to.offset, s.start), nil
	case to.offset != nil && *to.offset > s.end:
		return 0, fmt.Sprintf("offset %d is beyond the end of the log, which is %d (`--to end`)", *to.offset, s.end), nil
	case to.offset != nil:
		offset = *to.offset
	default:
		if offset, err = b.log.OffsetAfter(ctx, reader.At(s.partition), to.at); err != nil {
			return 0, "", err
		}
		offset = min(max(offset, s.start), s.end)
	}
	if remembers.IsZero() || offset >= *s.position() || offset >= s.end {
		return offset, "", nil
	}
	first, err := b.log.AppendTime(ctx, s.partition, offset)
	if earliest := remembers.Add(clockSkew); err == nil && first.Before(earliest) {
		refusal = fmt.Sprintf("offset %d is of %s, and dedupe remembers decisions since %s: what was decided before would run again; `--to %s` is the earliest",
			offset, first.UTC().Format(time.RFC3339), remembers.UTC().Format(time.RFC3339), earliest.Add(time.Second).UTC().Format(time.RFC3339))
	}
	return offset, refusal, err
}

// clockSkew is how far the clocks of the database, which dates what dedupe remembers, and of the brokers may differ, as package owner has it.
const clockSkew = 5 * time.Minute

// plan returns what a move would do: how many offsets are read again, how many of them are known as done, and how many that were not decided
// are passed over. By the time that its owner moves a partition, it may have read on: what it has read by then is decided.
func (s *partitionPosition) plan(at nameInTeam, to int64) api.SeekAskedItem {
	from := *s.position()
	high := max(*s.ledger.High, from)
	again := max(0, min(from, s.end)-to)
	state := api.SeekPlanned
	if from == to {
		state = api.SeekUnchanged
	}
	return api.SeekAskedItem{Team: at.team, Subscription: at.name, Topic: s.partition.Topic, Partition: s.partition.Number, From: &from, To: to, State: state,
		Again: &again, KnownDone: new(again - s.undecided(high, to, to+again)), Skipped: new(s.undecided(high, max(from, s.start), to))}
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

// Seeks lists what was asked of a subscription with `subscriptions seek`, what has ended too: the newest seeksListed.
func (s *steeringAPI) Seeks(ctx context.Context, team, name string) ([]api.SeekAskedItem, error) {
	at := nameInTeam{team, name}
	if err := s.configured(at); err != nil {
		return nil, err
	}
	l, err := s.a.stream.openLedger()
	if err != nil {
		return nil, err
	}
	known, err := l.SeekRequests(ctx, team+"."+name, seeksListed)
	items := make([]api.SeekAskedItem, len(known))
	for i := range known {
		k := &known[i]
		items[i] = api.SeekAskedItem{ID: k.ID, Team: team, Subscription: name, Topic: k.Topic, Partition: k.Partition, From: k.From, To: k.To,
			State: cmp.Or(k.Outcome, api.SeekWaiting), By: k.By, Reason: k.Reason, AskedAt: timeOrNull(k.AskedAt), EndedAt: k.EndedAt}
		switch {
		case k.Outcome == api.SeekRefused:
			items[i].Detail = "the topic was deleted and created again since: the offset is of the former one"
		case k.Outcome == "" && k.Owner != "":
			items[i].Detail = "for " + k.Owner + ", which has the partition and ends what is under way"
		case k.Outcome == "":
			items[i].Detail = "no process has the partition: the next one that claims it moves it"
		}
	}
	return items, err
}

// seeksListed is how many seeks are listed at most.
const seeksListed = 1000

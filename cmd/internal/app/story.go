package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// teller tells the story of one event.
type teller struct {
	item     *inbox.Item
	s        inbox.Story
	event    *schemas.Event // as the log has it; zero: it does not any more
	gap      config.Gap
	id       string // of the item
	apart    map[string]api.DestinationItem
	pause    *ledger.Pause // of the subscription; nil: it is not paused
	pausedBy string        // the name of the widest pause that stands
	gone     string        // what of the event the file has no more, as gone says it
	approved bool          // its open action has a person's word
	removed  string        // that no such word lets the action run, as removed says it
	items    []api.StoryItem
}

// story adds to an event's detail how it came to stand where it stands, and what happens next. e is the event in the log.
func (i *inboxAPI) story(ctx context.Context, box *inbox.Inbox, d *api.InboxDetail, item *inbox.Item, e *schemas.Event) error {
	s, err := box.Story(ctx, item)
	if err != nil {
		return err
	}
	t := teller{item: item, s: s, event: e, id: api.EventName(item).String(), apart: map[string]api.DestinationItem{}, pause: i.s.pauses.of(nameInTeam{item.Team, item.Subscription}).Paused, pausedBy: i.s.pauses.by(nameInTeam{item.Team, item.Subscription}), gone: gone(i.s.a.file(), item)}
	if team := i.s.a.file().Teams[item.Team]; team != nil && team.Subscriptions[item.Subscription] != nil {
		t.gap = team.Subscriptions[item.Subscription].Gap
	}
	all, err := destinationsAPI{i.s}.Destinations(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.State != "running" {
			t.apart[names.Destination.Print(names.Name{Team: one.Team, Name: one.Destination})] = one
		}
	}
	if err := t.approval(ctx, i.s); err != nil {
		return err
	}
	t.tell()
	d.Story, d.Next = t.items, t.next()
	return nil
}

// approval finds out what was said to the question for an approval that the open action waits for.
func (t *teller) approval(ctx context.Context, s *streams) error {
	a := t.open()
	if a == nil || a.Status != ledger.WaitingApproval {
		return nil
	}
	l, err := s.openLedger()
	if err != nil {
		return err
	}
	said, err := l.LastApproval(ctx, a.ID)
	if err != nil && schemas.KindOf(err) != schemas.NotFound {
		return err
	}
	t.approved, t.removed = said.State == ledger.ApprovalApproved || said.State == ledger.ApprovalUsed, removed(s.a.file(), &said)
	return nil
}

// gone says what the file has no more of what an event's actions need to run: its subscription, or the event's source among those of it. Empty: nothing.
func gone(c *config.Config, i *inbox.Item) string {
	if t := c.Teams[i.Team]; t == nil || t.Subscriptions[i.Subscription] == nil {
		return "subscription " + i.Team + "." + i.Subscription
	}
	if !slices.ContainsFunc(c.SourcesOf(i.Team, i.Subscription), func(s config.NamedSource) bool { return "/"+s.FullName() == i.CESource }) {
		return "source " + i.Source + " of subscription " + i.Team + "." + i.Subscription
	}
	return ""
}

// add adds what happened at a time; nil if that is not kept.
func (t *teller) add(at *time.Time, what, format string, args ...any) {
	if at != nil {
		at = new(at.UTC())
	}
	t.items = append(t.items, api.StoryItem{At: at, What: what, Text: fmt.Sprintf(format, args...)})
}

// tell tells what happened, in the order of time.
func (t *teller) tell() {
	i := t.item
	t.received()
	t.decided()
	for _, a := range t.s.Backfills {
		t.add(&a.AskedAt, "backfill", "the provider's API was asked for %s", spanText(gate.Span{From: a.From, To: a.To}))
		if a.EndedAt != nil && a.Failure == "" {
			t.add(a.EndedAt, "backfill", "it answered with %d", a.Produced)
		} else if a.EndedAt != nil {
			t.add(a.EndedAt, "backfill", "that failed: %s %s", a.Failure, a.Detail)
		}
	}
	for _, c := range t.s.Commands {
		about := ""
		if c.Other {
			about = " of its version line"
		}
		if c.Kind == ledger.AskGuards { // a person's word about an approval; what came of it is the action's
			t.add(&c.AskedAt, "asked", "approval answered by %s: %s", c.By, c.Reason)
			continue
		}
		t.add(&c.AskedAt, "asked", "%s%s asked by %s (%s): %s", c.Kind, about, c.By, c.Reason, cmp.Or(c.Outcome, "not done yet"))
	}
	for n := range i.Actions {
		if a := &i.Actions[n]; a.Status == ledger.Stale {
			t.add(a.FinishedAt, "stale", "action %s did not run: %s", a.Name, a.Error)
		}
	}
	if r := i.Redriven; r != nil {
		t.add(&r.At, "redriven", "produced again by %s: %s", r.By, r.Reason)
	}
	if r := i.Discarded; r != nil {
		t.add(&r.At, "discarded", "discarded by %s: %s", r.By, r.Reason)
	}
	for _, a := range t.s.Reprocesses {
		t.add(&a.At, "again", "replay %d runs it again, started by %s: %s", a.Replay, a.By, a.Reason)
	}
	slices.SortStableFunc(t.items, func(a, b api.StoryItem) int {
		if a.At == nil || b.At == nil {
			return 0 // in the order in which it was added
		}
		return a.At.Compare(*b.At)
	})
	if a := t.s.Behind; a != nil && t.open() != nil {
		t.add(nil, "stands_behind", "it stands behind action %s of event %s: %s at %s %s", a.Action, a.EventID, a.Status, a.Destination, a.LastText)
	}
	if a := t.open(); a != nil {
		if one, ok := t.apart[a.Destination]; ok {
			t.add(nil, "destination", "%s is %s%s", a.Destination, one.State, whyApart(one))
		}
	}
	for n := range t.items {
		t.items[n].Text = strings.TrimSpace(t.items[n].Text)
	}
}

// received tells how the event came into the log: by the intake, or later, by an operator's word about what was set aside.
func (t *teller) received() {
	i, place, verified := t.item, names.Place{Topic: t.item.Topic, Partition: t.item.Partition, Offset: t.item.Offset}, ""
	if t.event.Secret > 0 {
		verified = fmt.Sprintf(", verified with secret %d of its source", t.event.Secret)
	}
	r := t.event.Redriven
	if r == nil {
		t.add(i.ReceivedAt, "received", "received%s, and kept in the log as %s", verified, place)
		return
	}
	t.add(i.ReceivedAt, "received", "received%s, and quarantined: %s", verified, r.From)
	at := &r.At
	if at.IsZero() {
		at = nil
	}
	t.add(at, "redriven", "produced from there by %s (%s), and kept in the log as %s", r.By, r.Reason, place)
}

// decided tells the decisions, from the first one, whose time the ledger keeps, to the last one.
func (t *teller) decided() {
	i, w := t.item, t.s.Wait
	switch {
	case w != nil && w.Held:
		t.add(&w.Since, "decided", "held for an operator (%s)", i.Reason)
	case w != nil && t.s.Parked != nil:
		t.add(&w.Since, "buffered", "buffered: %s", t.waitsFor())
		t.add(t.s.Parked, "parked", "parked (%s)", i.Reason)
	case w != nil:
		t.add(&w.Since, "buffered", "%s (%s): %s", i.Decision, i.Reason, t.waitsFor())
	case t.s.Left != nil:
		waited := "waited, or was held"
		if t.s.Parked != nil || i.Reason == gate.ReasonReleased || i.Reason == gate.ReasonGapSkipped || i.Reason == gate.ReasonGapDead {
			waited = "waited: versions before it were missing"
		}
		t.add(&i.DecidedAt, "buffered", "%s", waited)
		if t.s.Parked != nil {
			t.add(t.s.Parked, "parked", "parked: what was missing had not come")
		}
		t.add(t.s.Left, "released", "%s (%s)%s%s", i.Decision, i.Reason, t.by(), t.neverCame())
	default:
		t.add(&i.DecidedAt, "decided", "%s (%s)%s", i.Decision, i.Reason, t.neverCame())
	}
}

// neverCame returns which versions are missing before an event that ran behind a gap; empty if there is none, or it has come since.
func (t *teller) neverCame() string {
	value, err := strconv.ParseInt(t.item.Version, 10, 64)
	if t.s.VersionLine == nil || err != nil {
		return ""
	}
	for _, s := range t.s.VersionLine.Skipped {
		switch {
		case s.To != value-1:
		case s.From == s.To:
			return ", and version " + spanText(s) + " before it has not come"
		default:
			return ", and versions " + spanText(s) + " before it have not come"
		}
	}
	return ""
}

// by returns who let the event go on; empty if nobody did, and its wait came to its end.
func (t *teller) by() string {
	switch {
	case t.releasedAt() != nil:
		return ", by an operator"
	case t.s.Released != nil:
		return ", by event " + t.s.Released.EventID
	}
	return ""
}

// releasedAt returns when an operator's word let the event go on; nil if none did.
func (t *teller) releasedAt() (at *time.Time) {
	for _, c := range t.s.Commands {
		if c.EndedAt != nil && (c.Kind == ledger.Release || c.Kind == ledger.Discard && !c.Other) {
			at = c.EndedAt
		}
	}
	return at
}

// waitsFor returns what a waiting event stands behind.
func (t *teller) waitsFor() string {
	l := t.s.VersionLine
	if l == nil {
		return "for the first version of its entity"
	}
	var upTo int64
	if t.item.VersionKind == string(schemas.Sequence) {
		upTo, _ = strconv.ParseInt(t.item.Version, 10, 64) // 0 is all that is missing
	}
	if missing := l.Missing(upTo); len(missing) > 0 {
		return t.item.Entity + " is at version " + versionText(l.At) + "; missing before this one: " + spansText(missing)
	}
	return t.item.Entity + " is at version " + versionText(l.At)
}

// open returns the first action of the event that has not ended; nil if there is none.
func (t *teller) open() *inbox.Action {
	for n := range t.item.Actions {
		if a := &t.item.Actions[n]; !a.Status.Closed() {
			return a
		}
	}
	return nil
}

// next returns what happens next, and which command changes that.
func (t *teller) next() string {
	i, w := t.item, t.s.Wait
	switch {
	case i.Decision == gate.Conflict:
		return "nothing: " + t.cameFirst() + t.untilDiscarded()
	case i.Decision == gate.Filtered && i.Reason == gate.ReasonMatch:
		return fmt.Sprintf("nothing: the subscription's match leaves it out: `forebay subscriptions explain %s.%s --event %s` says by what", i.Team, i.Subscription, quoted(t.id))
	case i.Decision == gate.Duplicate && i.Reason == gate.ReasonKey:
		return "nothing: another event with the same key (dedupe.also) came first, and that one counts"
	case i.Decision == gate.Filtered:
		return "nothing: the subscription's types leave it out"
	case i.Decision == gate.Quarantined && i.Discarded != nil:
		return "nothing: an operator discarded it"
	case i.Decision == gate.Quarantined && i.Redriven != nil:
		return "nothing: it was produced again, and is an event of its own since"
	case i.Decision == gate.Quarantined:
		return "it waits for an operator: `forebay inbox redrive " + quoted(t.id) + " --reason TEXT`"
	case i.Decision == gate.Stale:
		return "nothing: a newer version of its entity was decided before"
	case t.gone != "" && (w != nil || t.open() != nil):
		return "nothing: the file has no " + t.gone + " any more, so no process runs it; it goes on once that is in the file again"
	case w != nil && t.pause != nil:
		return "nothing before the subscription is resumed" + t.pauseText()
	case w != nil && w.Held:
		return "an operator decides: `forebay inbox redrive " + quoted(t.id) + " --reason TEXT` runs it, or with --discard discards it"
	case w != nil && w.Until == nil:
		return "it runs when what is missing comes, or by `forebay inbox redrive " + quoted(t.id) + " --reason TEXT`"
	case w != nil:
		return "it runs when what is missing comes; " + thenText(t.gap, *w)
	}
	return t.nextOfLane()
}

// cameFirst returns what a conflict came too late for.
func (t *teller) cameFirst() string {
	if !t.s.First {
		return "another body came first under its id"
	}
	first := names.Event{Team: t.item.Team, Subscription: t.item.Subscription, Source: t.item.Source, ID: t.item.EventID}
	return "the event that came first under its id counts: " + first.String()
}

// untilDiscarded returns which command takes a conflict off the list of what waits for an operator; empty if that was done.
func (t *teller) untilDiscarded() string {
	if t.item.Discarded != nil {
		return ""
	}
	return "; `forebay attention` lists it until `forebay inbox redrive " + quoted(t.id) + " --discard --reason TEXT`"
}

// pauseText returns who has paused the subscription and why, and the command that resumes it.
func (t *teller) pauseText() string {
	return ", which " + t.pause.By + " has paused since " + timeText(t.pause.At) + " (" + t.pause.Reason + "): `" + resumeCommand(t.pausedBy) + "`"
}

// nextOfLane returns what happens next to an event that was decided to run.
func (t *teller) nextOfLane() string {
	a := t.open()
	if a == nil {
		return "nothing: " + t.ended()
	}
	apart, held := t.apart[a.Destination]
	switch {
	case t.pause != nil && a.Status != ledger.Dead && a.Status != ledger.Unknown && a.Status != ledger.Processing:
		return "it runs in its turn once the subscription is resumed" + t.pauseText()
	case a.Status == ledger.Dead:
		return "an operator decides: `forebay dlq get " + string(a.ID) + "`, then replay, resolve or discard"
	case a.Status == ledger.Unknown:
		return "an operator looks whether " + a.Destination + " has done it: `forebay dlq resolve " + string(a.ID) + "`, or replay --outcome-unknown"
	case t.s.Behind != nil && (t.s.Behind.Status == ledger.Dead || t.s.Behind.Status == ledger.Unknown):
		return "it waits for an operator's word about what it stands behind: `forebay dlq get " + string(t.s.Behind.Action) + "`"
	case t.s.Behind != nil:
		return "it runs once " + string(t.s.Behind.Action) + " has ended"
	case t.removed != "":
		return t.removed
	case held && apart.Paused != nil:
		return "it runs once " + a.Destination + " is resumed: `" + apart.Paused.Command("destinations", a.Destination) + "`"
	case a.Status == ledger.Processing && a.NextAt != nil:
		return a.Destination + " works on it, and says what came of it by " + timeText(*a.NextAt)
	case a.Status == ledger.WaitingApproval && t.approved && !held:
		return "it was approved, and runs next"
	case a.Status == ledger.WaitingApproval && !t.approved:
		return "it runs once somebody approves it"
	case a.Status == ledger.WaitingBudget:
		return "it runs once its budget has room again"
	case a.Status == ledger.Failed && a.NextAt != nil && destination.Troubling(sink.Class(a.Class)):
		return "it is tried again at " + timeText(*a.NextAt) + ", or as soon as " + a.Destination + " is back, if it was away"
	case a.Status == ledger.Failed && a.NextAt != nil:
		return "it is tried again at " + timeText(*a.NextAt) + " or later"
	case held:
		return "it runs when " + a.Destination + " takes calls again"
	}
	return "it runs next, when " + a.Destination + " has room for it"
}

// ended returns how the actions of an event ended, of which none is open: of the first that did not run, why.
func (t *teller) ended() string {
	for n := range t.item.Actions {
		switch a := &t.item.Actions[n]; a.Status {
		case ledger.Discarded:
			return "an operator discarded action " + a.Name
		case ledger.Stale:
			return "action " + a.Name + " did not run: its entity had a newer version; `forebay dlq replay " + string(a.ID) + " --force --reason TEXT` runs it all the same"
		case ledger.Superseded:
			return "action " + a.Name + " did not run: a newer state of its entity runs instead"
		case ledger.Skipped, ledger.Dropped, ledger.Denied:
			return "action " + a.Name + " did not run (" + a.Class + "): " + a.Error
		}
	}
	return "it is done"
}

// then returns the word of the gap policy for what follows when a wait ends without what is missing.
func then(g config.Gap, w inbox.Wait) string {
	if w.Stage == gate.Backfilling {
		return g.Otherwise
	}
	return g.Then
}

// thenText returns what follows when a wait ends without what is missing.
func thenText(g config.Gap, w inbox.Wait) string {
	text := map[string]string{"skip": "the gap is passed over, and it runs", "park": "it is parked, and waits for an operator", "dead_letter": "it becomes a dead letter",
		"backfill": "the provider's API is asked for it"}[then(g, w)]
	return "if it has not by " + timeText(*w.Until) + ", " + cmp.Or(text, "the gap policy decides")
}

// whyApart returns why a destination is not called, and until when.
func whyApart(d api.DestinationItem) string {
	switch {
	case d.Paused != nil:
		return " since " + timeText(d.Paused.At) + " by " + d.Paused.By + ": " + d.Paused.Reason
	case d.OnHoldUntil != nil:
		return " until " + timeText(*d.OnHoldUntil) + ", as it has asked for"
	case d.OpenUntil != nil:
		return " until " + timeText(*d.OpenUntil) + ": nothing gets through"
	}
	return ""
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// versionText returns a version to read.
func versionText(v schemas.Version) string {
	text := strconv.FormatInt(v.Value, 10)
	switch {
	case v.Kind == schemas.None:
		return "none"
	case v.Text != "":
		text = v.Text
	case v.Kind == schemas.Timestamp:
		text = time.Unix(0, v.Value).UTC().Format(time.RFC3339Nano)
	}
	if v.Epoch > 0 {
		text += " of epoch " + strconv.FormatInt(v.Epoch, 10)
	}
	return text
}

func spanText(s gate.Span) string {
	if s.From == s.To {
		return strconv.FormatInt(s.From, 10)
	}
	return strconv.FormatInt(s.From, 10) + ".." + strconv.FormatInt(s.To, 10)
}

func spansText(spans []gate.Span) string {
	var texts []string
	for _, s := range spans {
		texts = append(texts, spanText(s))
	}
	return strings.Join(texts, ", ")
}

package app

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// ledgerRows lists what a look has counted in the ledger, as far as the filter wants it.
func (t *attention) ledgerRows(ctx context.Context, l look, f api.AttentionFilter) (rows []api.AttentionItem, err error) {
	wanted := slices.DeleteFunc(slices.Clone(l.ledger), func(c inbox.AttentionCount) bool {
		return f.Team != "" && f.Team != c.Team || f.Kind != "" && f.Kind != string(c.Kind)
	})
	if len(wanted) == 0 {
		return nil, nil
	}
	box, _, err := (&inboxAPI{t.a.stream}).open()
	if err != nil {
		return nil, err
	}
	if l.part[f.Team] != nil { // it may be slow, or silent: nobody waits for it as if all were well
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, attentionTry)
		defer cancel()
	}
	found, err := box.Attention(ctx, wanted, f.Limit)
	for i := range found {
		rows = append(rows, ledgerRow(t.a.file(), &found[i]))
	}
	return rows, err
}

// deliveryRows lists the deliveries in quarantine that a look has found, as far as the filter wants them.
func (l look) deliveryRows(f api.AttentionFilter) (rows []api.AttentionItem) {
	if f.Kind != "" && f.Kind != api.KindQuarantinedDelivery {
		return nil
	}
	for of, backlog := range l.backlogs {
		if f.Team != "" && f.Team != of.team {
			continue
		}
		for i := range backlog.Items[:min(f.Limit, len(backlog.Items))] {
			rows = append(rows, deliveryRow(quarantineItem(of, &backlog.Items[i])))
		}
	}
	return rows
}

// deliveryRow returns a delivery in quarantine as the list has it. With a mapping that understands it by now, the command makes it an event.
func deliveryRow(i api.QuarantineItem) api.AttentionItem {
	id := fmt.Sprintf("%s/%d@%d", i.Topic, i.Partition, i.Offset)
	return api.AttentionItem{Kind: api.KindQuarantinedDelivery, ID: id, Team: i.Team, Source: i.Source, Topic: i.Topic, Partition: &i.Partition, Offset: &i.Offset, Reason: i.Reason,
		Detail: strings.TrimSpace(i.Detail + "; once the source's mapping understands it, the command makes it an event; --discard discards it"), Since: &i.ReceivedAt,
		Command: "forebay quarantine redrive " + id + " --reason TEXT"}
}

// ledgerRow returns what waits in the ledger as the API has it, by the file.
func ledgerRow(file *config.Config, a *inbox.Attention) api.AttentionItem {
	since := a.Since
	row := api.AttentionItem{Kind: string(a.Kind), Team: a.Team, Subscription: a.Subscription, Source: strings.TrimPrefix(a.Source, "/"+a.Team+"/"), Entity: string(a.Entity),
		Type: a.Type, EventID: a.EventID, Topic: a.Topic, Partition: &a.Partition, Offset: &a.Offset, Reason: string(a.Reason), Detail: a.Detail, Events: a.Events, Since: &since}
	redrive := fmt.Sprintf("forebay inbox redrive %s.%s ", a.Team, a.Subscription)
	place := fmt.Sprintf("%d@%d", a.Partition, a.Offset)
	switch a.Kind {
	case inbox.AttentionDead, inbox.AttentionLoop:
		row.ID, row.Destination, row.Reason, row.Command = string(a.Dead.ID), a.Dead.Destination, a.Dead.Class, deadCommand(a.Dead)
		if a.Kind == inbox.AttentionLoop {
			row.Command = discardCommand(a.Dead)
		}
		if why := abandoned(file, a.Dead); why != "" && a.Dead.Status != ledger.Unknown { // `dlq replay` is refused
			row.Detail, row.Command = strings.TrimPrefix(a.Detail+"; "+why+", so nobody would run it again", "; "), discardCommand(a.Dead)
		}
	case inbox.AttentionConflict, inbox.AttentionQuarantined:
		row.ID = strings.Join([]string{a.Team, a.Subscription, a.Topic, place}, "/")
		row.Command = redrive + a.Topic + " " + place + " --discard --reason TEXT"
		own := strings.HasPrefix(a.Topic, "events."+a.Team+".")                                                                    // what another team shares is that team's to redrive
		if own && (a.Reason == gate.ReasonMisplaced || a.Reason == gate.ReasonDataRejected || a.Reason == gate.ReasonExpression) { // the bytes are those of an event
			row.Command = redrive + a.Topic + " " + place + " --reason TEXT"
		}
	default:
		row.ID = names.Event{Team: a.Team, Subscription: a.Subscription, Source: row.Source, ID: a.EventID}.String()
		row.Command = "forebay inbox redrive " + quoted(row.ID) + " --reason TEXT" // the id begins with the team, not with a dash that a sender chose
	}
	if row.Detail == "" {
		row.Detail = details[a.Kind]
	}
	return row
}

// details say in words what a kind is about, and what else than the command can be done.
var details = map[inbox.AttentionKind]string{
	inbox.AttentionLoop:     "agents seem to answer one another; the command ends it, and `forebay dlq replay` runs it all the same",
	inbox.AttentionParked:   "the entity stands still behind a gap; the command runs the waiting events, across the gap",
	inbox.AttentionHeld:     "kept for an operator; the command runs it, or with --discard discards it",
	inbox.AttentionOverdue:  "the wait for the gap should be over, and its partition is not read to the end; the command runs the waiting events, across the gap",
	inbox.AttentionConflict: "another body came under the id of an event that counts; `forebay inbox raw` shows it",
}

// standingRow returns a partition that stands still as the list has it. flags name the configuration's file.
func standingRow(st *standing, flags string) api.AttentionItem {
	kind := api.KindStopped
	if st.state == stateUnread {
		kind = api.KindUnread
	}
	return api.AttentionItem{Kind: kind, ID: st.of.team + "." + st.of.name, Team: st.of.team, Subscription: st.of.name, Topic: st.topic,
		Partition: &st.number, Reason: st.reason(), Detail: st.why, Since: timeOrNull(st.since), Command: st.command(flags)}
}

// forgottenRow returns a partition with actions that no lane of its owner has as the list has it.
func forgottenRow(at nameInTeam, p ledger.Partition, actions int) api.AttentionItem {
	name := at.team + "." + at.name
	return api.AttentionItem{Kind: api.KindForgotten, ID: name, Team: at.team, Subscription: at.name, Topic: p.Topic, Partition: &p.Number,
		Detail:  fmt.Sprintf("%d actions or more are open in the ledger and in no lane of the asked process, so that it never runs them: a fault of forebay; restart it, so that the next owner does, and report it", actions),
		Command: "forebay subscriptions get " + name}
}

// downAfter is for how long nothing has got through to a destination that is down.
const downAfter = 2 * time.Minute

// downRow returns a destination to which nothing gets through as the list has it: n actions are for it, of which some are held and not tried now.
func downRow(i api.DestinationItem, n int, of lane.Waiting) api.AttentionItem {
	full := fullName(i.Team, i.Destination)
	row := api.AttentionItem{Kind: api.KindDown, ID: full, Team: i.Team, Teams: i.Teams, Destination: full, Since: i.FailingSince, Command: "forebay destinations get " + full}
	if i.State == api.DestinationMissing {
		row.Reason = i.State
		row.Detail = fmt.Sprintf("the file has it no more for team %s, and %d actions in the asked process are for it: they are tried again until it is there again under this name, or until they are given up", i.Team, n)
		return row
	}
	now := "; once it is back, `forebay destinations resume " + full + " --reason TEXT` has them tried at once"
	then := "they are tried again until it answers, or until their policy gives them up" + now
	switch {
	case of.Held == n:
		then = "none is tried now, so nobody knows whether it answers again: they wait for an approval or a budget, or their subscription is paused"
	case of.Held > 0:
		then = fmt.Sprintf("%d of them wait for an approval or a budget, or their subscription is paused; the others are tried again until it answers, or until their policy gives them up", of.Held) + now
	}
	if of.Crowded {
		then += "; a subscription has as many entities waiting as memory may have, so that its others are not tried, whatever would become of them: mend what fails, shorten its retry.within, or run more processes"
	}
	row.Detail = fmt.Sprintf("nothing has got through since then, and %d actions wait in the asked process: %s", n, then)
	return row
}

// pausedRow returns a paused destination as the list has it.
func pausedRow(i api.DestinationItem) api.AttentionItem {
	full := fullName(i.Team, i.Destination)
	return api.AttentionItem{Kind: api.KindPaused, ID: full, Team: i.Team, Teams: i.Teams, Destination: full, Reason: i.Paused.Class,
		Detail: i.Paused.By + ": " + i.Paused.Reason, Since: timeOrNull(i.Paused.At), Command: i.Paused.Command("destinations", full)}
}

// overBudget lists what becomes of what is over a budget, by its on_limit.
var overBudget = map[string]string{
	config.BudgetHold: "forebay inbox list --status waiting_budget",
	config.BudgetPark: "forebay dlq list --class budget",
	config.BudgetDrop: "forebay inbox list --status dropped",
}

// budgetRow returns a budget of which most is used as the list has it. The counter's name is "budget PATH.runs", and SOURCE ENTITY of an entity's;
// limits are those of file, which may have it no more.
func budgetRow(u ledger.CounterUsed, file *config.Config, limits []api.BudgetItem, now time.Time) api.AttentionItem {
	path, entity, ofEntity := strings.Cut(strings.TrimPrefix(u.Name, policy.BudgetCounters), " ")
	i := api.AttentionItem{Kind: api.KindBudget, ID: path, Command: overBudget[config.BudgetHold]}
	if n := slices.IndexFunc(limits, func(l api.BudgetItem) bool { return l.Budget+"."+l.Of == path }); n >= 0 {
		i.Team, i.Teams, i.Command = limits[n].Team, limits[n].Teams, limits[n].Command
	} else if rest, ok := strings.CutPrefix(path, "teams."); ok {
		i.Team, _, _ = strings.Cut(rest, ".")
		i.Command += " --team " + i.Team
	}
	if ofEntity {
		i.ID += " " + entity
		i.Source, i.Entity, _ = strings.Cut(entity, " ")
		if i.Team == "" {
			i.Teams = usersOf(file, path, i.Source)
		}
	}
	used, limit := strconv.FormatInt(u.Used, 10), strconv.FormatInt(u.Limit, 10)
	if strings.HasSuffix(path, ".cost") {
		used, limit = sink.Cost(u.Used).String(), sink.Cost(u.Limit).String()
	}
	i.Detail = fmt.Sprintf("%s of %s are used; there is room again at %s", used, limit, timeText(now.Add(u.Left).Round(time.Second)))
	if u.Used >= u.Limit {
		i.Reason = "used_up"
	}
	return i
}

// approvalRow returns an action that waits for a person's word as the list has it, by the file.
func approvalRow(file *config.Config, a *ledger.Approval) api.AttentionItem {
	id, asked := strconv.FormatInt(a.ID, 10), a.AskedAt
	i := api.AttentionItem{Kind: api.KindApproval, ID: id, Team: a.Team, Subscription: a.Subscription, Destination: a.Destination, Source: strings.TrimPrefix(a.Source, "/"+a.Team+"/"),
		Entity: a.Entity, Type: a.Type, EventID: a.EventID, Since: &asked, Command: "forebay approvals approve " + id + " --reason TEXT",
		Detail: fmt.Sprintf("%s: for %s, until %s; `forebay approvals get %s` shows what is sent, and `forebay approvals deny %s` ends it", a.Why, strings.Join(a.Roles, ", "), timeText(a.ExpiresAt), id, id)}
	if a.GivenUp {
		i.Reason = "not_told"
		i.Detail = api.NotTold + "; " + i.Detail
	}
	if a.ToldAt == nil && a.TellError != "" {
		i.Detail += "; " + a.Asks + " was not told: " + a.TellError
	}
	if a.FirstBy != "" {
		i.Detail = "approved by " + a.FirstBy + ", and another person must, too; " + i.Detail
	}
	if why := removed(file, a); why != "" {
		i.Reason, i.Detail, i.Command = policy.Removed, why+"; it was asked for by "+a.Why, "forebay approvals get "+id
	}
	return i
}

// pausedSubscriptionRow returns a paused subscription as the list has it.
func pausedSubscriptionRow(at nameInTeam, p *ledger.Pause) api.AttentionItem {
	name := at.team + "." + at.name
	return api.AttentionItem{Kind: api.KindPausedSubscription, ID: name, Team: at.team, Subscription: at.name,
		Detail: p.By + ": " + p.Reason, Since: timeOrNull(p.At), Command: "forebay subscriptions resume " + name + " --reason TEXT"}
}

// unmatchedRow returns a source none of whose secrets verifies what comes, as the list has it. file is the configuration's.
func unmatchedRow(i api.SourceItem, file string) api.AttentionItem {
	last := "none has verified any since this process began, or since the secrets were changed"
	if at := i.Seen.VerifiedAt; at != nil {
		last = "the last one verified was at " + at.Format(time.RFC3339)
	}
	return api.AttentionItem{Kind: api.KindKeys, ID: i.Team + "/" + i.Source, Team: i.Team, Source: i.Source, Reason: string(verify.Mismatch), Since: i.Seen.MismatchedAt,
		Detail: fmt.Sprintf("none of its secrets verifies the last %d signatures, and %s: the provider signs with another secret, or the sender has none; "+
			"write the provider's present secret into teams.%s.sources.%s.secrets, which takes effect at once", i.Seen.Mismatches, last, i.Team, i.Source),
		Command: "forebay config check -c " + quoted(file)}
}

// expiresRow returns a secret that ends soon, or has, as the list has it. file is the configuration's.
func expiresRow(e config.Expiring, now time.Time, file string) api.AttentionItem {
	reason, since := "soon", e.Until.Add(-config.ExpiresSoon)
	if !now.Before(e.Until) {
		reason, since = "expired", e.Until
	}
	return api.AttentionItem{Kind: api.KindExpires, ID: e.Team + "/" + e.Source, Team: e.Team, Source: e.Source, Reason: reason, Since: &since,
		Detail:  fmt.Sprintf("its secret %d %s; write the next one beside it into teams.%s.sources.%s.secrets, and take out what has ended: both take effect at once", e.Number, e.InWords(now), e.Team, e.Source),
		Command: "forebay config check -c " + quoted(file)}
}

// deadCommand returns the command for a dead letter. Of an unknown outcome it is the one that tells what is to be looked up, and the ways on.
func deadCommand(d *inbox.DeadLetter) string {
	if d.Status == ledger.Unknown {
		return fmt.Sprintf("forebay dlq get %s", d.ID)
	}
	return fmt.Sprintf("forebay dlq replay %s --reason TEXT", d.ID)
}

func discardCommand(d *inbox.DeadLetter) string {
	return fmt.Sprintf("forebay dlq discard %s --reason TEXT", d.ID)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted returns a word as a shell takes it.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

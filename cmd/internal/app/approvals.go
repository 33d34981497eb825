package app

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// approvalsAPI lists what waits for a person's word, and takes it.
type approvalsAPI struct{ a *App }

// Approvals implements [api.Approvals].
func (s *approvalsAPI) Approvals(ctx context.Context, f api.ApprovalFilter) (page api.Page[api.ApprovalItem], err error) {
	l, err := s.a.stream.openLedger()
	if err != nil {
		return page, err
	}
	if _, err := (&inboxAPI{s.a.stream}).resolve(ctx, inbox.New(l), queryNames{&f.Team, new(string), new(string), new(string)}); err != nil {
		return page, err
	}
	before, err := strconv.ParseInt(cmp.Or(f.Cursor, "0"), 10, 64)
	if err != nil {
		return page, schemas.Errorf(schemas.Invalid, "", "%q is no cursor of this list", f.Cursor)
	}
	limit := cmp.Or(f.Limit, 100)
	list, err := l.Approvals(ctx, ledger.ApprovalQuery{Team: f.Team, State: ledger.ApprovalState(f.State), Limit: limit + 1, Before: before})
	if err != nil {
		return page, err
	}
	page.Elsewhere = s.a.leftOut(f.Team, "")
	if len(list) > limit {
		list = list[:limit]
		page.Next = strconv.FormatInt(list[limit-1].ID, 10)
	}
	for i := range list {
		item := approvalItem(s.a.file(), &list[i])
		item.Sends = ""
		page.Items = append(page.Items, item)
	}
	return page, nil
}

// find opens the ledger, and returns an approval of it.
func (s *approvalsAPI) find(ctx context.Context, id int64) (l *ledger.Ledger, found ledger.Approval, err error) {
	if l, err = s.a.stream.openLedger(); err == nil {
		found, err = l.Approval(ctx, id)
	}
	return l, found, s.a.hintOtherLedgers("", err)
}

// Approval implements [api.Approvals].
func (s *approvalsAPI) Approval(ctx context.Context, id int64) (*api.ApprovalItem, error) {
	_, found, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return new(approvalItem(s.a.file(), &found)), nil
}

// AnswerApproval implements [api.Approvals]. The action's owner is told to look; where nobody can be told, it looks within five minutes.
func (s *approvalsAPI) AnswerApproval(ctx context.Context, id int64, approve bool, r api.ApprovalRequest) (*api.ApprovalItem, error) {
	l, found, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	b := inbox.New(l)
	w := ledger.ApprovalAnswer{Approve: approve, By: cmp.Or(r.By, "unknown"), Reason: cmp.Or(r.Reason, "dry run"), DryRun: r.DryRun}
	if approve && found.FourEyes && found.State == ledger.ApprovalWaiting {
		switch w.Barred, err = b.RanAgain(ctx, found.ActionID); {
		case schemas.KindOf(err) == schemas.NotFound: // of an event that runs again: nobody could tell whether that was asked for by who approves
			return nil, schemas.Errorf(schemas.Conflict, "answer an approval", "that its action waits is not recorded yet: answer again in a few seconds")
		case err != nil:
			return nil, err
		}
	}
	said, err := l.AnswerApproval(ctx, id, w)
	if err != nil {
		return nil, err
	}
	if !r.DryRun && said.State != ledger.ApprovalWaiting {
		if _, err := b.AskAction(ctx, said.ActionID, ledger.AskGuards, ledger.CommandDetail{}, w.By, w.Reason); err != nil {
			s.a.log.Info("the owner of an action that was answered looks for that within five minutes", "approval", id, "action_id", string(said.ActionID), "error", err)
		}
	}
	item := approvalItem(s.a.file(), &said)
	if found.State == ledger.ApprovalWaiting {
		found.State = ledger.ApprovalApproved // whatever was answered, also in a dry run
	}
	item.Removed = removed(s.a.file(), &found)
	return &item, nil
}

func approvalItem(file *config.Config, a *ledger.Approval) api.ApprovalItem {
	item := api.ApprovalItem{
		ID: strconv.FormatInt(a.ID, 10), Team: a.Team, Subscription: a.Subscription, Action: a.Action, ActionID: string(a.ActionID), Destination: a.Destination,
		Digest: hex.EncodeToString(a.Digest), Source: a.Source, EventID: a.EventID, Type: a.Type, Entity: a.Entity, Version: a.Version, Why: a.Why, Sends: a.Sends, Roles: a.Roles, FourEyes: a.FourEyes,
		State: string(a.State), AskedAt: a.AskedAt, ExpiresAt: a.ExpiresAt, FirstBy: a.FirstBy, AnsweredBy: a.AnsweredBy, Reason: a.Reason, AnsweredAt: a.AnsweredAt,
		Asks: a.Asks, ToldAt: a.ToldAt, TellError: a.TellError, GivenUp: a.GivenUp, Removed: removed(file, a),
	}
	return item
}

// removed says that a file does not have the action any more that an approval lets run, or not for where that goes, and what to do; empty: it has, nobody knows while the team's file
// is left out, or while a process with a newer file may just have asked and nobody has answered, or the approval has ended.
func removed(file *config.Config, a *ledger.Approval) string {
	at := nameInTeam{a.Team, a.Subscription}
	actions := subscriptionIn(file, at).Actions
	i := slices.IndexFunc(actions, func(one config.Action) bool { return one.Name == a.Action })
	open := sink.Action{Subscription: at.team + "." + at.name, Destination: a.Destination}
	was, mend, newer := "any more (it was taken out, or renamed)", "write it again under that name", ""
	if time.Since(a.AskedAt) < policy.NewerFile {
		newer = "; a process with a newer file that has it runs it"
	}
	switch {
	case a.State != ledger.ApprovalWaiting && a.State != ledger.ApprovalApproved, file.LeftOut(a.Team), a.State == ledger.ApprovalWaiting && newer != "":
		return ""
	case isGone(file, at):
		return fmt.Sprintf("the file of this process has no subscription %s.%s any more, so no answer lets its action run: write it again%s", at.team, at.name, newer)
	case i >= 0:
		why := file.Unfit(at.team, actions[i], open)
		if why == nil {
			return ""
		}
		was, mend = fmt.Sprintf("for %s (it goes elsewhere now: %v)", open.To(), why), "have it go there again"
	}
	return fmt.Sprintf("the file of this process has no action %s of %s.%s %s, so no answer lets it run: %s, "+
		"or discard it with `forebay dlq discard %s` once it is a dead letter, ten minutes after a process first tries to run it%s", a.Action, at.team, at.name, was, mend, a.ActionID, newer)
}

package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

type approvalsListCmd struct {
	listenerFlag
	watchFlag
	Team   string `help:"Only this team."`
	State  string `default:"waiting" help:"Only this state: waiting, approved, used, denied, expired or void; any lists all."`
	Limit  int    `default:"100" help:"Most lines."`
	Cursor string `help:"Where the page before ended."`
}

func (c *approvalsListCmd) Run(e *env, client *api.Client) error {
	state := c.State
	if state == "any" {
		state = ""
	}
	page, err := client.Approvals(e.ctx, c.Team, state, c.Limit, c.Cursor)
	if err != nil {
		return err
	}
	type item = api.ApprovalItem
	return printList(e, page, func(i item) string { return i.ID },
		column[item]{name: "id", value: func(i item) string { return i.ID }},
		column[item]{name: "subscription", value: func(i item) string { return i.Team + "." + i.Subscription }},
		column[item]{name: "action", value: func(i item) string { return i.Action }},
		column[item]{name: "entity", value: func(i item) string { return i.Entity }},
		column[item]{name: "state", value: func(i item) string { return i.State }},
		column[item]{name: "expires", at: func(i item) *time.Time { return &i.ExpiresAt }},
		column[item]{name: "roles", value: func(i item) string { return strings.Join(i.Roles, ",") }},
		column[item]{name: "told", value: func(i item) string { return i.Told() }},
		column[item]{name: "why", value: func(i item) string { return cmp.Or(i.Removed, i.Why) }},
		column[item]{name: "by", wide: true, value: func(i item) string { return i.AnsweredBy }},
		column[item]{name: "reason", wide: true, value: func(i item) string { return i.Reason }},
		column[item]{name: "destination", wide: true, value: func(i item) string { return i.Destination }})
}

type approvalsGetCmd struct {
	listenerFlag
	watchFlag
	Approval string `arg:"" help:"The approval's id, as the list shows it."`
}

func (c *approvalsGetCmd) Run(e *env, client *api.Client) error {
	a, err := client.Approval(e.ctx, c.Approval)
	if err != nil {
		return err
	}
	return printApproval(e, a)
}

type approvalsAnswer struct {
	listenerFlag
	Approval string `arg:"" help:"The approval's id, as the list shows it."`
	Reason   string `placeholder:"TEXT" help:"Why; kept with who said so and when."`
	DryRun   bool   `help:"Show it and whether it takes the answer, and change nothing."`
}

func (c *approvalsAnswer) run(e *env, client *api.Client, verb string) error {
	r := api.ApprovalRequest{Reason: strings.TrimSpace(c.Reason), By: whoAmI(), DryRun: c.DryRun}
	if r.Reason == "" && !c.DryRun {
		return usageError("--reason is needed: it is kept with the approval")
	}
	a, err := client.AnswerApproval(e.ctx, c.Approval, verb, r)
	if err != nil {
		return err
	}
	if err := printApproval(e, a); err != nil {
		return err
	}
	switch {
	case c.DryRun:
		fmt.Fprintln(e.Stderr, "dry run: nothing was changed")
	case a.Removed != "": // which is printed
		fmt.Fprintln(e.Stderr, "the answer is kept, and counts if the file has the action again in time")
	case a.State == "waiting":
		fmt.Fprintln(e.Stderr, "approved, and another person must approve it, too (four_eyes)")
	case a.State == "approved":
		fmt.Fprintln(e.Stderr, "approved: the action runs unless what it sends has changed since, or its entity has moved on")
	default:
		fmt.Fprintln(e.Stderr, "denied: the action ends without an effect, and its entity goes on")
	}
	return nil
}

type (
	approvalsApproveCmd struct{ approvalsAnswer }
	approvalsDenyCmd    struct{ approvalsAnswer }
)

func (c *approvalsApproveCmd) Run(e *env, client *api.Client) error {
	return c.run(e, client, api.VerbApprove)
}

func (c *approvalsDenyCmd) Run(e *env, client *api.Client) error {
	return c.run(e, client, api.VerbDeny)
}

func printApproval(e *env, a *api.ApprovalItem) error {
	if a.GivenUp && a.State == api.ApprovalWaiting {
		fmt.Fprintln(e.Stderr, api.NotTold)
	}
	if a.Removed != "" {
		fmt.Fprintln(e.Stderr, plain(a.Removed))
	}
	return printOne(e, a, a.ID, func(w io.Writer) {
		fmt.Fprintf(w, "approval     %s\nstate        %s\nwhy          %s\naction       %s of %s.%s\naction id    %s\ndestination  %s\nevent        %s of %s\ntype         %s\nentity       %s\nversion      %s\ndigest       %s\nroles        %s\nasked        %s\nexpires      %s\n",
			a.ID, a.State, plain(a.Why), plain(a.Action), plain(a.Team), plain(a.Subscription), a.ActionID, plain(a.Destination), plain(a.EventID), plain(a.Source), plain(a.Type),
			plain(a.Entity), plain(a.Version), a.Digest, plain(strings.Join(a.Roles, ", ")), formatTime(a.AskedAt), formatTime(a.ExpiresAt))
		if a.FourEyes {
			fmt.Fprintf(w, "four eyes    first %s\n", plain(a.FirstBy))
		}
		switch {
		case a.ToldAt != nil:
			fmt.Fprintf(w, "told         %s at %s\n", plain(a.Asks), formatTime(*a.ToldAt))
		case a.GivenUp:
			fmt.Fprintf(w, "told         given up: %s refused: %s\n", plain(a.Asks), cell(a.TellError))
		case a.Asks != "":
			fmt.Fprintf(w, "told         not yet %s: %s\n", plain(a.Asks), cell(a.TellError))
		}
		switch {
		case a.State == api.ApprovalVoid:
			fmt.Fprintf(w, "void         %s: %s", formatTime(*a.AnsweredAt), plain(a.Reason))
			if a.AnsweredBy != "" {
				fmt.Fprintf(w, ", by %s", plain(a.AnsweredBy))
			}
			fmt.Fprintln(w)
		case a.AnsweredAt != nil:
			fmt.Fprintf(w, "answered     %s by %s: %s\n", formatTime(*a.AnsweredAt), plain(a.AnsweredBy), plain(a.Reason))
		}
		if a.Sends != "" {
			fmt.Fprintln(w, "sends")
			for line := range strings.SplitSeq(strings.TrimSuffix(a.Sends, "\n"), "\n") {
				fmt.Fprintln(w, "  "+plain(line))
			}
		}
	})
}

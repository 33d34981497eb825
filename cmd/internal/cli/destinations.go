package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
)

type destinationsListCmd struct {
	listenerFlag
	watchFlag
	teamFlag
}

func (c *destinationsListCmd) Run(e *env, client *api.Client) error {
	page, err := client.Destinations(e.ctx)
	if err == nil {
		page, err = ofTeam(c.teamFlag, page, func(i api.DestinationItem) []string { return append([]string{i.Team}, i.Teams...) })
	}
	if err != nil {
		return err
	}
	type item = api.DestinationItem
	return printList(e, page, destinationID,
		column[item]{name: "destination", whole: true, value: destinationID},
		column[item]{name: "type", value: func(i item) string { return i.Type }},
		column[item]{name: "state", value: func(i item) string { return i.State }},
		column[item]{name: "running", value: func(i item) string { return fmt.Sprintf("%d/%d", i.Running, i.Concurrency) }},
		column[item]{name: "waiting", value: func(i item) string { return strconv.Itoa(i.Waiting) }},
		column[item]{name: "failures", value: func(i item) string { return strconv.Itoa(i.ConsecutiveFailures) }},
		column[item]{name: "until", at: until},
		column[item]{name: "why", value: func(i item) string { return pauseText(i.Paused) }},
		column[item]{name: "teams", wide: true, value: teamsText},
		column[item]{name: "breaker", wide: true, value: func(i item) string { return i.Breaker }},
		column[item]{name: "failing since", wide: true, at: func(i item) *time.Time { return i.FailingSince }},
		column[item]{name: "rate", wide: true, value: func(i item) string { return i.Rate.Text() }})
}

// destinationID returns TEAM/NAME, or NAME where teams share the destination.
func destinationID(i api.DestinationItem) string {
	return names.Destination.Print(names.Name{Team: i.Team, Name: i.Destination})
}

// teamsText returns the teams that may use a destination.
func teamsText(i api.DestinationItem) string {
	if i.Team != "" {
		return i.Team
	}
	return strings.Join(i.Teams, ", ")
}

// until returns when attempts go on by themselves: when both the hold and the open breaker have ended. It is nil if neither stops
// them, and for a paused destination, which waits for an operator.
func until(i api.DestinationItem) *time.Time {
	if i.Paused != nil {
		return nil
	}
	later := i.OpenUntil
	if later == nil || (i.OnHoldUntil != nil && i.OnHoldUntil.After(*later)) {
		later = i.OnHoldUntil
	}
	return later
}

// pauseText returns who paused a destination and why; empty if it is not paused.
func pauseText(p *api.PauseItem) string {
	if p == nil {
		return ""
	}
	return p.By + ": " + p.Reason
}

// destinationArg names a destination.
type destinationArg struct {
	ID string `arg:"" name:"destination" help:"The destination, as -o id lists it: TEAM/NAME, or NAME where teams share it."`
}

func (a destinationArg) names() (team, name string, err error) {
	team, name, own := strings.Cut(a.ID, "/")
	if !own {
		team, name = "", a.ID
	}
	if own && team == "" || name == "" || strings.ContainsAny(name, "./") {
		return "", "", usageError("%q is neither TEAM/NAME nor NAME of a shared destination; `forebay destinations list -o id` lists them", a.ID)
	}
	return team, name, nil
}

type destinationsGetCmd struct {
	listenerFlag
	watchFlag
	destinationArg
}

func (c *destinationsGetCmd) Run(e *env, client *api.Client) error {
	team, name, err := c.names()
	if err != nil {
		return err
	}
	item, err := client.Destination(e.ctx, team, name)
	if err != nil {
		return err
	}
	return showDestination(e, item)
}

// showDestination prints one destination. A line whose value is empty is left out.
func showDestination(e *env, i *api.DestinationItem) error {
	return printOne(e, i, destinationID(*i), func(w io.Writer) {
		line := func(name, value string) {
			if value != "" {
				fmt.Fprintf(w, "%-15s %s\n", name, plain(value))
			}
		}
		line("destination", destinationID(*i))
		line("teams", strings.Join(i.Teams, ", "))
		line("type", i.Type)
		line("url", i.URL)
		line("state", i.State)
		if p := i.Paused; p != nil {
			line("paused", formatTime(p.At)+" by "+p.By)
			line("why", p.Reason)
			line("class", p.Class)
			line("with", p.Scope)
			line("run", p.Command("destinations", destinationID(*i)))
		}
		line("breaker", i.Breaker)
		line("open until", formatOptionalTime(i.OpenUntil))
		line("on hold until", formatOptionalTime(i.OnHoldUntil))
		line("running", fmt.Sprintf("%d of %d", i.Running, i.Concurrency))
		line("rate", i.Rate.Text())
		line("waiting", strconv.Itoa(i.Waiting))
		line("failures", strconv.Itoa(i.ConsecutiveFailures)+" in a row")
		if f := i.LastError; f != nil {
			line("last error", f.Text())
			line("last error at", formatTime(f.At))
		}
		line("failing since", formatOptionalTime(i.FailingSince))
		line("elsewhere", strings.Join(i.Elsewhere, ", "))
	})
}

// pauseFlags are the flags of pause and resume.
type pauseFlags struct {
	listenerFlag
	destinationArg
	Reason string `placeholder:"TEXT" help:"Why; kept in the ledger with who said so and when."`
	DryRun bool   `help:"Show the destination and change nothing."`
}

// pauseRequest returns the API's request of a pause or a resume. Without --dry-run it needs a reason.
func pauseRequest(reason string, dryRun bool) (api.PauseRequest, error) {
	req := api.PauseRequest{Reason: strings.TrimSpace(reason), By: whoAmI(), DryRun: dryRun}
	if req.Reason == "" && !dryRun {
		return req, usageError("--reason is needed: it is kept with the pause")
	}
	return req, nil
}

type destinationsPauseCmd struct{ pauseFlags }

func (c *destinationsPauseCmd) Run(e *env, client *api.Client) error {
	return c.change(e, client.Pause, "paused: nothing more is attempted, in any process within a second")
}

type destinationsResumeCmd struct{ pauseFlags }

func (c *destinationsResumeCmd) Run(e *env, client *api.Client) error {
	return c.change(e, client.Resume, "resumed: attempts go on, slowly at first, in every process within a second")
}

// nothingChanged is what a dry run says on stderr.
const nothingChanged = "dry run: nothing was changed"

type pauseCall = func(ctx context.Context, team, name string, r api.PauseRequest) (*api.DestinationItem, error)

// change pauses or resumes a destination by the call do, shows it as it is then, and says done on stderr.
func (c *pauseFlags) change(e *env, do pauseCall, done string) error {
	team, name, err := c.names()
	if err != nil {
		return err
	}
	req, err := pauseRequest(c.Reason, c.DryRun)
	if err != nil {
		return err
	}
	item, err := do(e.ctx, team, name, req)
	if err != nil {
		return err
	}
	if err := showDestination(e, item); err != nil {
		return err
	}
	switch {
	case c.DryRun:
		done = nothingChanged
	case item.OnHoldUntil != nil && item.Paused == nil:
		done = "resumed, but it has asked for no calls until " + formatTime(*item.OnHoldUntil) + " (Retry-After): attempts go on then, or with the same command"
	case item.Paused != nil && item.Paused.Scope != "" && strings.HasPrefix(done, "resumed"):
		done = "resumed, but it stays paused with " + item.Paused.Scope + ": `" + item.Paused.Command("destinations", destinationID(*item)) + "`"
	}
	fmt.Fprintln(e.Stderr, done)
	notFor(e, item.Elsewhere)
	return nil
}

// notFor says on stderr which subscriptions a pause, or its end, is not for.
func notFor(e *env, elsewhere []string) {
	if len(elsewhere) > 0 {
		fmt.Fprintf(e.Stderr, "not for %s: another process has that ledger; tell that one, too, by --url\n", strings.Join(elsewhere, ", "))
	}
}

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// steerFlags say what to pause or resume, and why.
type steerFlags struct {
	listenerFlag
	All         bool   `help:"Everything: all subscriptions of the ledger."`
	Team        string `placeholder:"TEAM" help:"All subscriptions of a team."`
	Destination string `placeholder:"[TEAM/]NAME" help:"One destination, as destinations pause does."`
	Agent       string `placeholder:"NAME" help:"All destinations of an agent, by their key agent or their name."`
	Reason      string `placeholder:"TEXT" help:"Why; kept in the ledger with who said so and when."`
	DryRun      bool   `help:"Say how it stands and change nothing."`
}

type pauseCmd struct{ steerFlags }

func (c *pauseCmd) Run(e *env, client *api.Client) error {
	return c.change(e, client.PauseScope, client.Pause, "paused: in every process, within a second, "+c.stops()+" begins; attempts under way end, nothing is lost")
}

// stops says what a pause keeps from beginning: a subscription that is paused decides nothing either, so its events are in no list meanwhile.
func (c *steerFlags) stops() string {
	if c.All || c.Team != "" {
		return "no decision and no attempt"
	}
	return "no attempt"
}

type resumeCmd struct{ steerFlags }

func (c *resumeCmd) Run(e *env, client *api.Client) error {
	return c.change(e, client.ResumeScope, client.Resume, "resumed: attempts go on in order where they stood, in every process within a second")
}

// change pauses or resumes by the call do, or a destination by one, shows how it stands then, and says done on stderr.
func (c *steerFlags) change(e *env, do func(ctx context.Context, scope, name string, r api.PauseRequest) (*api.ScopeItem, error), one pauseCall, done string) error {
	given := 0
	for _, is := range []bool{c.All, c.Team != "", c.Destination != "", c.Agent != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return usageError("say what: one of --all, --team, --destination and --agent")
	}
	if c.Destination != "" {
		d := pauseFlags{listenerFlag: c.listenerFlag, Reason: c.Reason, DryRun: c.DryRun}
		d.ID = c.Destination
		return d.change(e, one, done)
	}
	req, err := pauseRequest(c.Reason, c.DryRun)
	if err != nil {
		return err
	}
	scope, name := api.PauseAll, ""
	switch {
	case c.Team != "":
		scope, name = api.PauseTeam, c.Team
	case c.Agent != "":
		scope, name = api.PauseAgent, c.Agent
	}
	item, err := do(e.ctx, scope, name, req)
	if err != nil {
		return err
	}
	id := strings.TrimSpace(item.Scope + " " + item.Name)
	if err := printOne(e, item, id, func(w io.Writer) {
		text := "not paused"
		if p := item.Paused; p != nil {
			text = "paused since " + formatTime(p.At) + " by " + p.By + ": " + p.Reason
		}
		fmt.Fprintln(w, id+" "+text)
	}); err != nil {
		return err
	}
	if c.DryRun {
		done = nothingChanged
	}
	fmt.Fprintln(e.Stderr, done)
	notFor(e, item.Elsewhere)
	return nil
}

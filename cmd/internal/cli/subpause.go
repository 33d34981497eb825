package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// subscriptionPauseFlags are the flags of pause and resume.
type subscriptionPauseFlags struct {
	listenerFlag
	subscriptionArg
	Reason string `placeholder:"TEXT" help:"Why; kept in the ledger with who said so and when."`
	DryRun bool   `help:"Show the subscription and change nothing."`
}

type subscriptionsPauseCmd struct{ subscriptionPauseFlags }

func (c *subscriptionsPauseCmd) Run(e *env, client *api.Client) error {
	return c.change(e, client, client.PauseSubscription, "paused: in every process, within a second, no decision and no attempt begins; attempts under way end, partitions stay where they are")
}

type subscriptionsResumeCmd struct{ subscriptionPauseFlags }

func (c *subscriptionsResumeCmd) Run(e *env, client *api.Client) error {
	return c.change(e, client, client.ResumeSubscription, "resumed: decisions and attempts go on where they stood, in every process within a second")
}

// change pauses or resumes a subscription by the call do, shows it as it is then, and says done on stderr.
func (c *subscriptionPauseFlags) change(e *env, client *api.Client, do func(ctx context.Context, team, name string, r api.PauseRequest) (*api.SubscriptionItem, error), done string) error {
	req, err := pauseRequest(c.Reason, c.DryRun)
	if err != nil {
		return err
	}
	team, name, err := c.names(e, client)
	if err != nil {
		return err
	}
	item, err := do(e.ctx, team, name, req)
	if err != nil {
		return err
	}
	if err := printOne(e, item, subscriptionID(*item), func(w io.Writer) { showSubscription(w, item) }); err != nil {
		return err
	}
	if c.DryRun {
		done = nothingChanged
	}
	fmt.Fprintln(e.Stderr, done)
	return nil
}

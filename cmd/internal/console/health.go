package console

import (
	"context"
	"net/http"
	"sync"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/build"
	"github.com/forebay-io/forebay/cmd/internal/config"
)

// healthPage is what this process is, what it runs, and whether that can work.
type healthPage struct {
	Build         build.Info
	Roles         []config.Role
	Ready         bool
	Checks        part[[]api.Check]
	Withheld      bool // the checks have names of all teams, and who looks may not see those
	Subscriptions part[[]api.SubscriptionItem]
	Sources       part[[]api.SourceItem]
}

func (c *Console) health(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r); err != nil {
		return nil, err
	}
	p := healthPage{Build: build.Read(), Roles: c.Roles, Ready: true, Withheld: !api.Asks(ctx).All()}
	var all sync.WaitGroup
	all.Go(func() {
		p.Checks = partOf(ctx, c.checks)
	})
	all.Go(func() {
		p.Subscriptions = partOf(ctx, func(ctx context.Context) ([]api.SubscriptionItem, error) { return items(c.API.Subscriptions(ctx)) })
	})
	all.Go(func() {
		p.Sources = partOf(ctx, func(ctx context.Context) ([]api.SourceItem, error) { return items(c.API.Sources(ctx)) })
	})
	all.Wait()
	p.Ready = p.Checks.Problem == "" && len(failing(p.Checks.Value)) == 0
	if p.Withheld {
		p.Checks.Value = nil
	}
	return p, nil
}

package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/sink"
)

// Check builds what a process with these roles would build of sources and destinations, without starting or connecting, and returns
// what fails. No roles means all.
func Check(c *config.Config, roles []config.Role) config.Problems {
	if len(roles) == 0 {
		roles = config.ServeRoles()
	}
	var problems config.Problems
	if slices.Contains(roles, config.RoleIntake) {
		_, bad := compileSources(c, nil, nil)
		problems = append(problems, bad...)
	}
	if slices.Contains(roles, config.RoleStream) {
		_, bad := newFetchers(c, nil, nil)
		problems = append(problems, bad...)
		for _, d := range c.AllDestinations() {
			s, err := newSink(c, d, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				problems = append(problems, c.Problem(d.Path(), err.Error()))
				continue
			}
			_ = s.Close(context.Background()) // it has not connected
		}
	}
	return problems
}

// Reach asks the sink of a destination whether that can be reached, without acting: its name is resolved and its addresses are judged, and
// sinks that have servers of their own ask those. It returns nil for a sink that cannot tell.
func Reach(ctx context.Context, c *config.Config, d config.NamedDestination) (err error) {
	s, err := newSink(c, d, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	if checker, ok := s.(sink.Checker); ok {
		return checker.Check(ctx)
	}
	return nil
}

// Package dev is `forebay dev` and `forebay demo`: one process with an embedded broker and Postgres, sample sources,
// a sample agent, and a short scene that shows what becomes of deliveries that come twice, late and shuffled.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
)

// Options are the arguments of the commands.
type Options struct {
	Config         string // the user's own file; empty: the sample sources, agent and scene
	Data           string // the data directory: sample configuration, broker and Postgres; empty: see place
	Lines          bool   // deliveries, decisions and attempts are told in short lines on Stderr, and not to Logger
	Colour         bool   // of the short lines
	Stdout, Stderr io.Writer
	Logger         *slog.Logger
	// Watch loads the configuration, and returns a function that hands it to reload whenever it has changed.
	Watch func(load func(see func(path string)) (*config.Config, error)) (*config.Config, func(ctx context.Context, reload func(*config.Config) error), error)
	// Hide is [config.Options.Hide], for Stderr and Logger.
	Hide func(config.Hidden)
}

// started is the name of the file in a data directory whose scene has begun to be played.
const started = "scene-played"

// roles are those of the one process.
var roles = []config.Role{config.RoleStream, config.RoleIntake}

// Run is `forebay dev`: it serves until ctx is done. With the sample configuration, it plays the scene first, once per data directory.
func Run(ctx context.Context, o Options) error {
	return o.run(ctx, usual, false, func(ctx context.Context, s *session) error {
		s.lines.lookWith(os.Args[0], s.urlFlag())
		s.printAddresses()
		if s.agent != nil && !s.played() {
			fmt.Fprintln(o.Stdout)
			s.lines.mute(true)
			played, err := s.play(ctx)
			if err != nil {
				return err
			}
			s.lines.mute(false)
			s.printWhatToMend(played)
		}
		s.printHowToLook(ctx)
		<-ctx.Done()
		return nil
	})
}

// Demo is `forebay demo`: it plays the scene in a temporary directory, on free ports, and compares its outcome with the model's.
func Demo(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "forebay-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.Data, o.Config, o.Lines = dir, "", false
	finished := false
	err = o.run(ctx, anywhere, true, func(ctx context.Context, s *session) error {
		got, err := s.play(ctx)
		if err != nil {
			return err
		}
		if err := got.check(); err != nil {
			return err
		}
		fmt.Fprintln(o.Stdout, "\nThe outcome is what the model says: once, in order, on the newest state.")
		finished = true
		return nil
	})
	if err == nil && !finished {
		return context.Cause(ctx) // it was interrupted before the outcome was shown
	}
	return err
}

// errFinished is the error with which a session's body ends the group of its parts when it has succeeded.
var errFinished = errors.New("finished")

// run starts the parts of a session, waits until they are ready, runs body and stops the parts again. p has the ports for a sample
// configuration that is written now; temporary says that the data is removed at the end. The error is body's or a part's; nil if ctx
// has ended them.
func (o Options) run(ctx context.Context, p ports, temporary bool, body func(context.Context, *session) error) error {
	ctx, stop := untilOutputGone(ctx, os.Stdout, os.Stderr)
	defer stop()
	s, err := o.open(ctx, p, temporary)
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	if s.agent != nil {
		g.Go(func() error { return s.agent.Run(gctx) })
	}
	g.Go(func() error { return s.app.Run(gctx) })
	g.Go(func() error { return s.watchPostgres(gctx) })
	g.Go(func() error {
		s.watch(gctx, func(read *config.Config) error { return s.reload(gctx, read) })
		return nil
	})
	g.Go(func() error {
		client, err := s.client()
		if err == nil {
			err = waitReady(gctx, client.Ready, readyWithin)
		}
		if err != nil {
			return err
		}
		if err := body(gctx, s); err != nil {
			return err
		}
		return errFinished
	})
	err = g.Wait()
	switch {
	case err != nil && !errors.Is(err, errFinished) && ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), errOutputGone):
		return errOutputGone
	}
	return nil
}

// open makes a session and starts its embedded parts. The session may be there with an error, too: the caller closes it in any case.
func (o Options) open(ctx context.Context, p ports, temporary bool) (*session, error) {
	given := o.Data
	o.setPaths()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	short := newLines(o.Stderr, o.Colour, o.Logger.Handler())
	if o.Lines {
		o.Logger = slog.New(short)
	}
	s := &session{Options: o, lines: short, path: o.Config, temporary: temporary}
	if s.path == "" {
		err := makeData(o.Data)
		if err == nil {
			s.path, err = ensureConfig(o.Data, p)
		}
		if err != nil {
			return s, o.unusable(err)
		}
	}
	var err error
	s.config, s.watch, err = o.Watch(func(see func(string)) (*config.Config, error) {
		c, err := config.Load(config.Options{Path: s.path, Roles: append(slices.Clone(roles), config.RoleTopics), Embedded: true, See: see, Hide: o.Hide})
		if problems, ok := errors.AsType[config.Problems](err); ok && s.app != nil {
			all := slices.Clone(problems)
			for i, p := range all { // nothing of any file is taken
				if p.File != s.path {
					all[i] = config.Problem{File: s.path, Message: p.String()}
				}
			}
			s.app.Refused(all)
		}
		return c, err
	})
	if err != nil {
		return s, err
	}
	s.printNotes(s.config)
	if err := makeData(o.Data); err != nil {
		return s, o.unusable(err)
	}
	if err := s.startParts(ctx); err != nil {
		return s, err
	}
	if s.app, err = app.New(app.Config{File: s.config, Path: s.path, Data: given, Roles: roles, Logger: o.Logger}); err != nil {
		return s, err
	}
	return s, s.app.Start()
}

// played tells whether the scene was played, or begun to be, in this data directory.
func (s *session) played() bool {
	_, err := os.Stat(filepath.Join(s.Data, started))
	return !errors.Is(err, fs.ErrNotExist)
}

// readyWithin is how long a session waits until more of it is ready: a broker and a Postgres that recover from a crash take a while.
const readyWithin = 2 * time.Minute

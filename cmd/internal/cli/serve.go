package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/notify"
	"github.com/forebay-io/forebay/stream/ledger"
)

type serveCmd struct {
	fileFlags
	Roles []string `default:"intake,stream" placeholder:"ROLE,..." help:"What this process does: intake, stream."`
	subscriptionsFlag
	Drain time.Duration `default:"25s" help:"Longest time that stopping may take."`
}

// Run runs a process with the given roles, and reloads its configuration when that changes.
func (c *serveCmd) Run(e *env) error {
	hup := hangups() // first: whoever asks for a reload while the process starts must not end it
	defer signal.Stop(hup)
	roles, err := roleFlag{c.Roles}.roles()
	if err != nil {
		return err
	}
	if len(roles) == 0 {
		return usageError("--roles is empty; it may be intake, stream or both")
	}
	if len(c.Subscriptions) > 0 && !slices.Contains(roles, config.RoleStream) {
		return usageError("--subscriptions is of the role stream, which this process does not have")
	}
	options := func() config.Options {
		o := c.options(e, roles...)
		o.Subscriptions = c.Subscriptions
		o.Check = func(c *config.Config) config.Problems { return app.Check(c, roles) }
		return o
	}
	cfg, left, read, err := load(options(), e.log)
	if err != nil {
		return err
	}
	for _, n := range cfg.Notes() {
		e.log.Info("configuration", "note", n.String())
	}
	a, err := app.New(app.Config{File: cfg, Path: c.File, Roles: roles, Logger: e.log, Drain: c.Drain,
		Service: notify.New(os.Getenv, e.log)})
	if err != nil {
		return err
	}
	a.Refused(left)
	ctx, stop := context.WithCancel(e.ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	w := watcher{every: watchInterval, hup: hup, log: e.log,
		reload: func(read *config.Config) error {
			err := a.Reload(read)
			if err == nil {
				cfg = read
			} else {
				a.Refused(config.Problems{{File: c.File, Message: err.Error()}})
			}
			return err
		},
		load: func() (*config.Config, fileStates, error) {
			o := options()
			o.Shared = a.Unshare
			return loadAgain(cfg, o, e.log, a.Refused)
		}}
	watching.Go(func() { w.run(ctx, read) })
	if slices.Contains(roles, config.RoleIntake) {
		watching.Go(newReconciler(ctx, e, c.File, a.File).run)
	}
	return a.Run(ctx)
}

type migrateCmd struct {
	fileFlags
	Subscriptions []string `placeholder:"TEAM.SUBSCRIPTION,..." help:"Only the ledgers of these; * stands for any part of a name. Default: all ledgers of the file."`
}

// migrated is a migration that was applied to a ledger.
type migrated struct {
	Migration string `json:"migration"`
	Ledger    string `json:"ledger"` // where the file has it: postgres, or that of a subscription
}

// Run migrates the schemas of the ledgers and lists the migrations that it applied. A ledger that cannot be migrated keeps none of the others
// from it, nor does a team whose file has problems.
func (c *migrateCmd) Run(e *env) error {
	o := c.options(e, config.RoleMigrate)
	o.Subscriptions = c.Subscriptions
	cfg, failed, err := start(o)
	if err != nil {
		return err
	}
	var items []migrated
	ledgers := cfg.Ledgers()
	for _, l := range ledgers {
		applied, err := migrateOne(e, l)
		switch {
		case err != nil && len(ledgers) > 1:
			failed = errors.Join(failed, fmt.Errorf("%s: %w", l.Path, err))
		case err != nil:
			return errors.Join(failed, err)
		case len(applied) == 0:
			fmt.Fprintln(e.Stderr, ledgerText(l, len(ledgers))+" is up to date")
		case len(ledgers) > 1:
			fmt.Fprintln(e.Stderr, ledgerText(l, len(ledgers))+" is migrated")
		}
		for _, name := range applied {
			items = append(items, migrated{name, l.Path})
		}
	}
	if len(items) == 0 && e.output == "table" {
		return failed
	}
	columns := []column[migrated]{{name: "migration", whole: true, value: func(i migrated) string { return i.Migration }}}
	if len(ledgers) > 1 {
		columns = append(columns, column[migrated]{name: "ledger", whole: true, value: func(i migrated) string { return i.Ledger }})
	}
	return errors.Join(printList(e, api.Page[migrated]{Items: items}, func(i migrated) string { return i.Migration }, columns...), failed)
}

// migrateOne migrates one ledger.
func migrateOne(e *env, l config.Ledger) ([]string, error) {
	cfg, err := app.LedgerConfig(l, e.log)
	if err != nil {
		return nil, err
	}
	return ledger.Migrate(e.ctx, cfg)
}

// ledgerText names a ledger in messages; of is how many the configuration has.
func ledgerText(l config.Ledger, of int) string {
	switch {
	case of == 1:
		return "the ledger"
	case l.Path == "postgres":
		return "the ledger of the top of the file (postgres)"
	}
	return "the ledger of " + strings.Join(l.Subscriptions, ", ") + " (" + l.Path + ")"
}

type devCmd struct {
	File string `short:"c" name:"config" placeholder:"FILE" help:"Configuration; kafka and postgres may be left out. Default: sample sources."`
	Data string `placeholder:"DIR" help:"Where the state is kept. Default: .forebay; with -c, .forebay-NAME beside NAME.yaml."`
}

func (c *devCmd) Run(e *env) error { return e.runDev(e.Dev, "dev", c.File, c.Data) }

type demoCmd struct{}

func (c *demoCmd) Run(e *env) error { return e.runDev(e.Demo, "demo", "", "") }

// runDev calls run, which is Options.Dev or Options.Demo.
func (e *env) runDev(run func(context.Context, DevOptions) error, name, file, data string) error {
	if run == nil {
		return fmt.Errorf("%s is not part of this build", name)
	}
	return run(e.ctx, DevOptions{Config: file, Data: data, Lines: e.short, Colour: e.colour, Stdout: e.Stdout, Stderr: e.Stderr, Logger: e.log,
		Watch: e.watch, Hide: e.stderr.hide})
}

// watch is DevOptions.Watch.
func (e *env) watch(read func(see func(path string)) (*config.Config, error)) (*config.Config, func(context.Context, func(*config.Config) error), error) {
	look := func() (*config.Config, fileStates, error) {
		s := fileStates{}
		cfg, err := read(s.remember)
		return cfg, s, err
	}
	cfg, first, err := look()
	return cfg, func(ctx context.Context, reload func(*config.Config) error) {
		watcher{every: devInterval, load: look, reload: reload, hup: hangups(), log: e.log}.run(ctx, first)
	}, err
}

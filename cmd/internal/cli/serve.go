package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/stream/ledger"
)

type serveCmd struct {
	fileFlags
	Roles []string      `default:"intake,stream" placeholder:"ROLE,..." help:"What this process does: intake, stream."`
	Drain time.Duration `default:"25s" help:"Longest time that stopping may take."`
}

// Run runs a process with the given roles, and reloads its configuration when that changes.
func (c *serveCmd) Run(e *env) error {
	roles, err := roleFlag{c.Roles}.roles()
	if err != nil {
		return err
	}
	if len(roles) == 0 {
		return usageError("--roles is empty; it may be intake, stream or both")
	}
	cfg, read, err := load(c.options(e, roles...))
	if err != nil {
		return err
	}
	for _, n := range cfg.Notes() {
		e.log.Info("configuration", "note", n.String())
	}
	a, err := app.New(app.Config{File: cfg, Path: c.File, Roles: roles, Logger: e.log, Drain: c.Drain})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(e.ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	w := watcher{every: watchInterval, reload: a.Reload, log: e.log,
		load: func() (*config.Config, fileStates, error) { return load(c.options(e, roles...)) }}
	watching.Go(func() { w.run(ctx, read) })
	return a.Run(ctx)
}

type migrateCmd struct{ fileFlags }

// Run migrates the ledger's schema and lists the migrations that it applied.
func (c *migrateCmd) Run(e *env) error {
	cfg, err := config.Load(c.options(e, config.RoleMigrate))
	if err != nil {
		return err
	}
	applied, err := ledger.Migrate(e.ctx, ledger.Config{URL: cfg.Postgres.URL, Schema: cfg.Postgres.Schema, Logger: e.log})
	if err != nil {
		return err
	}
	if len(applied) == 0 {
		fmt.Fprintln(e.Stderr, "the ledger is up to date")
	}
	type item struct {
		Migration string `json:"migration"`
	}
	items := make([]item, len(applied))
	for i, name := range applied {
		items[i] = item{name}
	}
	if len(items) == 0 && e.output == "table" {
		return nil
	}
	return printList(e, api.Page[item]{Items: items}, func(i item) string { return i.Migration },
		column[item]{name: "migration", value: func(i item) string { return i.Migration }})
}

type topicsApplyCmd struct {
	fileFlags
	DryRun bool `help:"Say what would be done and do nothing."`
}

// Run creates missing topics and changes settings of others where that is safe. It lists all topics; differences that it must not
// change are an error at the end.
func (c *topicsApplyCmd) Run(e *env) error {
	cfg, err := config.Load(c.options(e, config.RoleTopics))
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(app.KafkaOptions(cfg)...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	changes, err := topics.Apply(ctx, kadm.NewClient(client), topics.Wanted(cfg, cfg.MaxBody), c.DryRun)
	type item = topics.Change
	shown := printList(e, api.Page[item]{Items: changes}, func(i item) string { return i.Topic },
		column[item]{name: "topic", value: func(i item) string { return i.Topic }},
		column[item]{name: "action", value: func(i item) string { return string(i.Action) }},
		column[item]{name: "partitions", value: func(i item) string { return fmt.Sprint(i.Partitions) }},
		column[item]{name: "detail", value: func(i item) string { return i.Detail }})
	if c.DryRun && shown == nil && err == nil {
		fmt.Fprintln(e.Stderr, "dry run: nothing was changed")
	}
	return errors.Join(err, shown, topics.Problems(changes))
}

type devCmd struct {
	File string `short:"c" name:"config" placeholder:"FILE" help:"Configuration; kafka and postgres may be left out. Default: sample sources."`
	Data string `default:".forebay" placeholder:"DIR" help:"Where the embedded broker and Postgres keep their data."`
}

func (c *devCmd) Run(e *env) error { return e.runDev(e.Dev, "dev", c.File, c.Data) }

type demoCmd struct{}

func (c *demoCmd) Run(e *env) error { return e.runDev(e.Demo, "demo", "", "") }

// runDev calls run, which is Options.Dev or Options.Demo.
func (e *env) runDev(run func(context.Context, DevOptions) error, name, file, data string) error {
	if run == nil {
		return fmt.Errorf("%s is not part of this build", name)
	}
	return run(e.ctx, DevOptions{Config: file, Data: data, Stdout: e.Stdout, Stderr: e.Stderr, Logger: e.log, Watch: e.watch, Hide: e.stderr.hide})
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
		watcher{every: devInterval, load: look, reload: reload, log: e.log}.run(ctx, first)
	}, err
}

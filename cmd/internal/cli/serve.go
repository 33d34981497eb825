package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
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

func (c *serveCmd) Run(e *env) error {
	roles, err := roleFlag{c.Roles}.roles()
	if err != nil {
		return err
	}
	if len(roles) == 0 {
		return usage("--roles is empty; it may be intake, stream or both")
	}
	load := func() (*config.Config, error) { return config.Load(c.options(roles...)) }
	cfg, err := load()
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
	watching.Go(func() { watch(ctx, e, cfg.Files(), load, a) })
	return a.Run(ctx)
}

// watchInterval is how often files are looked at besides SIGHUP. Secrets that are mounted as files change by rename,
// which notification misses and a look does not.
const watchInterval = 5 * time.Second

// watch reloads on SIGHUP and when a file of the configuration has changed, until ctx is done.
func watch(ctx context.Context, e *env, files []string, load func() (*config.Config, error), a *app.App) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	last := stamp(files)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		case <-tick.C:
			if stamp(files) == last {
				continue
			}
		}
		last = stamp(files)
		cfg, err := load()
		if err == nil {
			files, last = cfg.Files(), stamp(cfg.Files())
			err = a.Reload(cfg)
		}
		if err != nil {
			e.log.Error("configuration not reloaded; the running one stays", "error", err)
		}
	}
}

// stamp changes when a file does.
func stamp(files []string) string {
	var b strings.Builder
	for _, name := range files {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", name, info.ModTime().UnixNano(), info.Size())
		}
	}
	return b.String()
}

type migrateCmd struct{ fileFlags }

func (c *migrateCmd) Run(e *env) error {
	cfg, err := config.Load(c.options(config.RoleMigrate))
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
	return list(e, api.Page[item]{Items: items}, func(i item) string { return i.Migration },
		column[item]{"migration", false, func(i item) string { return i.Migration }})
}

type topicsApplyCmd struct {
	fileFlags
	DryRun bool `help:"Say what would be done and do nothing."`
}

func (c *topicsApplyCmd) Run(e *env) error {
	cfg, err := config.Load(c.options(config.RoleTopics))
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
	shown := list(e, api.Page[item]{Items: changes}, func(i item) string { return i.Topic },
		column[item]{"topic", false, func(i item) string { return i.Topic }},
		column[item]{"action", false, func(i item) string { return string(i.Action) }},
		column[item]{"partitions", false, func(i item) string { return fmt.Sprint(i.Partitions) }},
		column[item]{"detail", false, func(i item) string { return i.Detail }})
	if c.DryRun && shown == nil && err == nil {
		fmt.Fprintln(e.Stderr, "dry run: nothing was changed")
	}
	return errors.Join(err, shown, topics.Problems(changes))
}

type devCmd struct {
	File string `short:"c" name:"config" placeholder:"FILE" help:"Configuration; kafka and postgres may be left out. Default: sample sources."`
	Data string `default:".forebay" placeholder:"DIR" help:"Where the embedded broker and Postgres keep their data."`
}

func (c *devCmd) Run(e *env) error { return e.hook(e.Dev, "dev", c.File, c.Data) }

type demoCmd struct{}

func (c *demoCmd) Run(e *env) error { return e.hook(e.Demo, "demo", "", "") }

func (e *env) hook(run func(context.Context, DevOptions) error, name, file, data string) error {
	if run == nil {
		return fmt.Errorf("%s is not part of this build", name)
	}
	return run(e.ctx, DevOptions{Config: file, Data: data, Stdout: e.Stdout, Stderr: e.Stderr, Logger: e.log})
}

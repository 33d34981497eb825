package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/forebay-io/forebay/cmd/internal/alerts"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/callback"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/console"
	"github.com/forebay-io/forebay/cmd/internal/notify"
	"github.com/forebay-io/forebay/schemas"
)

// Config is what an App is made of.
type Config struct {
	// File is the configuration, loaded for Roles.
	File *config.Config
	// Path names the file in errors that say which command to run.
	Path string
	// Data is the data directory that `forebay dev` was told; empty: the file's own place. Commands that need dev's servers name it.
	Data string
	// Roles are what this process does; at least one of config.ServeRoles.
	Roles  []config.Role
	Logger *slog.Logger // nil logs nothing
	// Drain bounds how long stopping may take; default 25 s.
	Drain time.Duration
	// Service is told when the process runs, that it lives, and when it stops; nil: nobody is.
	Service *notify.Service
}

// App is one process.
type App struct {
	cfg      Config
	log      *slog.Logger
	registry *prometheus.Registry
	ready    *readiness
	pulse    *pulse
	waits    *attention
	alerts   *alerts.Notifier              // nil if nobody is told of alerts
	current  atomic.Pointer[config.Config] // the configuration, which a reload replaces

	intake    *intake  // nil without the role
	stream    *streams // nil without the role
	operator  *listener
	health    *listener // nil if none is configured
	agents    *listener // nil without the stream role, or if no agents listener is configured
	console   *console.Console
	refused   refusedFiles
	agentKeys *callback.Keys // of the tokens of agents and senders
	waiting   waitingKeys
	telemetry telemetry
	unfit     unfitTopics
	searches  *semaphore.Weighted // of the log, for operators
}

// searchesAtOnce is how many questions may read the log at once: each has a client of its own, beside the lanes of all teams.
const searchesAtOnce = 4

// search waits for a turn to read the log for an answer, and returns what ends it.
func (a *App) search(ctx context.Context) (end func(), err error) {
	if a.searches.Acquire(ctx, 1) != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "", "%d other searches of the log are under way: try again in a moment", searchesAtOnce)
	}
	return func() { a.searches.Release(1) }, nil
}

// New makes a process with the parts that its roles need: it compiles sources and destinations. Nothing listens, runs or connects yet.
func New(cfg Config) (*App, error) {
	if cfg.File == nil || len(cfg.Roles) == 0 {
		return nil, schemas.Errorf(schemas.Invalid, "make the process", "a configuration and a role are needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Drain = cmp.Or(cfg.Drain, 25*time.Second)
	a := &App{cfg: cfg, log: cfg.Logger, registry: prometheus.NewRegistry(), ready: newReadiness(), searches: semaphore.NewWeighted(searchesAtOnce)}
	a.pulse = &pulse{take: a.takeLocks, log: a.log, after: stillAfter}
	a.current.Store(cfg.File)
	a.agentKeys = callback.NewKeys(cfg.File.Agents.Secrets)
	a.ready.fileNote = a.note
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), a.ready.gauge)
	var err error
	if a.telemetry, err = newTelemetry(a); err != nil {
		return nil, err
	}
	for _, role := range cfg.Roles {
		switch role {
		case config.RoleIntake:
			a.intake, err = newIntake(a)
		case config.RoleStream:
			a.stream, err = newStreams(a)
		default:
			err = schemas.Errorf(schemas.Invalid, "make the process", "role %q is not one of intake, stream", role)
		}
		if err != nil {
			return nil, err
		}
	}
	a.ready.set("topics", errNotStarted)
	if a.waits, err = newAttention(a); err != nil {
		return nil, err
	}
	a.alerts, err = newAlerts(a)
	return a, err
}

// File returns the configuration that the process goes by: what was read last, but for what waits for its next start.
func (a *App) File() *config.Config { return a.file() }

// file returns the configuration as it is now.
func (a *App) file() *config.Config { return a.current.Load() }

func (a *App) has(role config.Role) bool { return slices.Contains(a.cfg.Roles, role) }

// Start binds the listeners; from then on Addr returns their ports. A caller that does not need these can leave it to Run.
func (a *App) Start() (err error) {
	handler, err := a.operatorHandler()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			a.closeListeners()
		}
	}()
	if a.operator, err = a.listen("operator", a.file().Listen.Operator, handler); err != nil {
		return err
	}
	a.operator.encrypt(a.file().OperatorTLS())
	a.door(a.operator, ofProcess(a.file().Operator.BehindProxy), !a.file().Operator.HasTokens())
	if at := a.file().Listen.Health; at != "" {
		if a.health, err = a.listen("health", at, api.NewHealth(a.pulse.lives, a.ready.checks, a.registry)); err != nil {
			return err
		}
		a.door(a.health, ofProcess(nil), false)
	}
	if a.intake != nil {
		if err = a.intake.bind(a); err != nil {
			return err
		}
	}
	return a.bindAgents()
}

// closeListeners closes what a failed start has bound.
func (a *App) closeListeners() {
	for _, l := range a.lasting() {
		l.Close()
	}
	if a.intake != nil && a.intake.listener != nil {
		a.intake.listener.Close()
		a.intake.filter.Close()
	}
}

// lasting returns the listeners that serve while the process stops: those that say how it is, so that they can say that it is not ready, and that for
// agents, since what reports a result is not told of it.
func (a *App) lasting() (list []*listener) {
	for _, l := range []*listener{a.agents, a.operator, a.health} {
		if l != nil {
			list = append(list, l)
		}
	}
	return list
}

// Addr returns the address of a listener of a started process: "intake", "operator", "health" or "agents"; nil if it does not have that one.
func (a *App) Addr(name string) net.Addr {
	switch {
	case name == "operator" && a.operator != nil:
		return a.operator.Addr()
	case name == "health" && a.health != nil:
		return a.health.Addr()
	case name == "intake" && a.intake != nil && a.intake.listener != nil:
		return a.intake.listener.Addr()
	case name == "agents" && a.agents != nil:
		return a.agents.Addr()
	}
	return nil
}

// operatorHandler makes the handler of the operator listener, with the questions that the roles of this process can answer.
func (a *App) operatorHandler() (http.Handler, error) {
	cfg := api.Config{
		Live: a.pulse.lives, Ready: a.ready.checks, Quarantine: &quarantineAPI{a: a}, Gatherer: a.registry, Logger: a.log,
		Attention: a.waits.list, Sources: a.sourceItems, Subscriptions: a.subscriptionItems, Alerts: &alertsAPI{a}, ConfigDiff: a.configDiff,
	}
	if in := a.intake; in != nil {
		cfg.Drift = func() *api.Drift { return driftOf(in.drift) }
		cfg.SourceTests = sourceTests{a}
	}
	if a.stream != nil {
		cfg.Inbox, cfg.Stops, cfg.Destinations = &inboxAPI{a.stream}, &stopsAPI{a}, destinationsAPI{a.stream}
		cfg.Steering = &steeringAPI{a}
		cfg.DeadLetters, cfg.Entities = &deadLettersAPI{inboxAPI{a.stream}}, &inboxAPI{a.stream}
		cfg.Approvals, cfg.Budgets = &approvalsAPI{a}, a.budgetItems
		cfg.Replays = &replaysAPI{&inboxAPI{a.stream}}
	}
	a.guard(&cfg)
	inProcess, err := api.InProcess(cfg)
	if err != nil {
		return nil, err
	}
	a.console, err = console.New(console.Config{API: inProcess, Ready: a.ready.checks, Stream: a.stream != nil, Gatherer: a.registry, Roles: a.cfg.Roles, Login: a.login(cfg.Access, cfg.Audit), Logger: a.log})
	if err != nil {
		return nil, err
	}
	cfg.Console = a.console
	return api.New(cfg)
}

// Run runs the process until ctx is done or a part fails, then stops everything. It returns nil after a clean stop.
func (a *App) Run(ctx context.Context) error {
	if a.operator == nil {
		if err := a.Start(); err != nil {
			return err
		}
	}
	a.log.Info("forebay runs", "roles", rolesText(a.cfg.Roles), "operator", a.operator.Addr().String())
	a.cfg.Service.Tell(notify.Ready)
	watched, over := context.WithCancel(context.WithoutCancel(ctx)) // it lives while it stops, too
	var watching sync.WaitGroup
	watching.Go(func() { a.cfg.Service.Watch(watched, a.pulse.beats) })
	defer watching.Wait()
	defer over()
	// These listeners are not in the group: they are stopped last, so that /readyz says meanwhile that the process is stopping.
	served := make(chan error, len(a.lasting())) // how each of them ended; drain receives it
	for _, l := range a.lasting() {
		go func() { served <- l.ended() }()
	}

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case err := <-served:
			served <- nil // for drain
			return cmp.Or(err, errors.New("a listener was closed"))
		case <-gctx.Done():
			return nil
		}
	})
	if a.intake != nil {
		g.Go(func() error { return a.intake.serve(gctx) })
		g.Go(func() error { a.intake.ids.run(gctx); return nil })
		g.Go(func() error { return a.intake.agents.Run(gctx) })
	}
	g.Go(func() error { return a.runRoles(gctx) })
	g.Go(func() error { a.waits.run(gctx); return nil })
	g.Go(func() error { a.ready.run(gctx); return nil })
	g.Go(func() error { a.pulse.run(gctx); return nil })
	if a.alerts != nil {
		g.Go(func() error { a.alerts.Run(gctx); return nil })
	}
	if a.console != nil { // a test may have bound a listener of its own
		g.Go(func() error { a.console.Run(gctx); return nil })
	}

	<-gctx.Done()
	a.cfg.Service.Tell(notify.Stopping)
	a.log.Info("stopping", "reason", context.Cause(gctx))
	a.ready.set("running", errors.New("stopping"))
	return a.stopWithin(ctx, g, served)
}

var errDrained = errors.New("the drain budget is used up")

// stopWithin stops everything within the drain budget, a little less of which the steps of drain get. If a step takes longer all the
// same, stopWithin returns an error at the end of the budget and leaves the step behind: the process ends anyway.
func (a *App) stopWithin(ctx context.Context, g *errgroup.Group, served <-chan error) error {
	drain, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), a.cfg.Drain-min(2*time.Second, a.cfg.Drain/10), errDrained)
	defer cancel()
	late := time.NewTimer(a.cfg.Drain)
	defer late.Stop()
	ended := make(chan error, 1)
	go func() { ended <- a.drain(drain, g, served) }()
	select {
	case err := <-ended:
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	case <-late.C:
		return schemas.Errorf(schemas.Unavailable, "stop", "%w: %s; what still waits is cut off, and goes on in the next process", errDrained, a.cfg.Drain)
	}
}

// drain stops the parts: first the intake, then the parts of g, then the server for agents and what all these use, last the listeners that say
// how the process is. Each of lasting sends one error to served. It returns the first error of a part of g.
func (a *App) drain(ctx context.Context, g *errgroup.Group, served <-chan error) error {
	var intakeStops sync.WaitGroup
	if a.intake != nil {
		intakeStops.Go(func() { a.intake.stop(ctx) })
	}
	err := g.Wait()
	intakeStops.Wait()
	if a.agents != nil {
		a.stopAgents(ctx)
	}
	if a.waits != nil {
		a.waits.close(ctx)
	}
	if a.stream != nil {
		a.stream.close(ctx)
	}
	a.telemetry.close(ctx)
	for _, l := range a.lasting() {
		l.shutdown(ctx)
		if err := <-served; err != nil {
			a.log.Warn("listener", "error", err)
		}
	}
	return err
}

// runRoles waits until the topics exist, then opens the intake and runs the subscriptions. Without the stream role it returns then; the
// intake goes on.
func (a *App) runRoles(ctx context.Context) error {
	client, err := kgo.NewClient(KafkaOptions(a.file(), a.kafkaRole())...)
	if err != nil {
		return err
	}
	err = a.checkTopics(ctx, client)
	client.Close()
	if err != nil {
		return err
	}
	if a.intake != nil {
		a.intake.open(a)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.recheckTopics(gctx) })
	if a.stream != nil {
		g.Go(func() error { return a.stream.run(gctx) })
	}
	return g.Wait()
}

func rolesText(roles []config.Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, ",")
}

// Take returns what the process would go on with of a configuration, and what of it waits for the next start; see [config.Config.Take].
func (a *App) Take(read *config.Config) (taken *config.Config, waits []config.Waiting) {
	return a.file().Take(read, config.Taking{Roles: a.cfg.Roles, Fits: a.fits})
}

// Reload takes a configuration: all of it but for the keys that need a restart, which keep their values and are listed as waiting. What a
// team shares no more is taken away whatever Reload returns. After an error the configuration of before is in force. It is not for concurrent use.
func (a *App) Reload(read *config.Config) error {
	a.Unshare(read.Shares())
	before := a.file()
	taken, waits := a.Take(read)
	stream, giveUp := func() {}, func() error { return nil }
	if a.stream != nil {
		var err error
		if stream, giveUp, err = a.stream.reload(before, taken); err != nil {
			return err
		}
	}
	if a.intake != nil {
		if err := a.intake.reload(taken); err != nil {
			return errors.Join(err, giveUp())
		}
	}
	a.current.Store(taken)
	if a.intake != nil && a.intake.spool != nil {
		a.intake.spool.Known()
	}
	a.agentKeys.Set(taken.Agents.Secrets)
	stream()
	a.waiting.put(waits, read)
	a.log.Info("configuration reloaded", "sources", len(sourceItems(taken)))
	if len(waits) > 0 {
		a.log.Warn("keys were changed that are taken with the next start; everything else is in force", "keys", pathsOf(waits), "run", "forebay config diff")
	}
	return nil
}

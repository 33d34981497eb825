package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/agents"
	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/callback"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/drift"
	"github.com/forebay-io/forebay/ingest/firstfilter"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// intake is the intake role: a listener, the handler, the producer. It knows nothing of Postgres.
type intake struct {
	a        *App
	sources  sources
	limits   bodyLimits
	largest  int64 // the largest body that the producer and the handler were made for
	handler  *ingest.Handler
	log      *producer.Producer
	spool    *intakeSpool // nil: without a directory
	listener *listener
	accepts  atomic.Bool      // false answers 503: not started yet, or stopping
	checked  map[string]bool  // topics of the sources at the start, which runRoles has checked
	filter   *firstfilter.Log // in front of log, and behind the spool: only what the brokers have is known
	drift    *drift.Recorder  // of bodies; it goes on over reloads
	ids      *schemaIDs
	agents   *agents.Keeper
	issuers  *verify.KeySets
	certs    *verify.Certificates   // of SNS
	troubles []string               // what logTroubles last wrote; used by checkReachable alone
	unusable atomic.Pointer[string] // what checkReachable last found wrong with topics, for /readyz
}

// newIntake compiles the sources and makes the producer and the handler. Nothing listens or connects yet.
func newIntake(a *App) (*intake, error) {
	in := &intake{a: a, largest: a.file().LargestBody(), checked: map[string]bool{}, drift: drift.NewRecorder(), ids: newSchemaIDs(a.log)}
	in.unusable.Store(new(string))
	in.issuers, in.certs = verify.NewKeySets(fetchKeys), verify.NewCertificates()
	compiled, problems := compileSources(a.file(), nil, in.around)
	if len(problems) > 0 {
		return nil, problems
	}
	if err := in.ids.want(a.file()); err != nil {
		return nil, err
	}
	for _, s := range compiled {
		in.checked[s.Topic] = true
	}
	var err error
	in.limits.add(a.file())
	in.log, err = producer.New(producer.Config{Brokers: a.file().Kafka.Brokers, MaxBody: in.largest,
		TopicMaxBody: in.limits.of, SchemaID: in.ids.of, Tracer: a.telemetry.tracer, Options: KafkaOptions(a.file(), config.RoleIntake)})
	if err != nil {
		return nil, err
	}
	in.filter = firstfilter.New(fitLog{in.log, a}, in.log.TopicIDs, a.registry)
	var log ingest.Log = in.filter
	if a.file().SpoolDir() != "" {
		if in.spool, err = newIntakeSpool(a, in.filter, fitLog{in.log, a}); err != nil {
			return nil, err
		}
		log = in.spool
	}
	in.handler, err = ingest.New(ingest.Config{
		Sources: in.sources.find, Log: log, MaxBody: in.largest, Limits: a.limits(intakeShare),
		ReadTimeout: a.file().Intake.BodyTimeout.Std(), StatusURL: statusURL(a.file(), a.agentKeys), Tracer: a.telemetry.tracer, Logger: a.log, Registerer: a.registry,
	})
	if err != nil {
		return nil, err
	}
	in.put(compiled)
	in.agents = agents.NewKeeper(KafkaOptions(a.file(), config.RoleIntake), a.log)
	in.agents.Want(a.file().AgentTeams())
	a.registry.MustRegister(newDriftGauge(in.drift))
	a.ready.set("intake", errNotStarted)
	return in, err
}

// put makes these the sources of the intake.
func (in *intake) put(compiled map[nameInTeam]*ingest.Source) {
	for at, s := range compiled {
		s.Fields = in.drift.Source(at.team, at.name)
		in.handler.Begin(at.team, at.name)
	}
	in.drift.Keep(func(team, name string) bool { return compiled[nameInTeam{team, name}] != nil })
	in.sources.current.Store(&compiled)
	in.issuers.Sweep()
}

func (in *intake) bind(a *App) (err error) {
	if in.spool != nil {
		if err := in.spool.Open(); err != nil {
			return err
		}
		in.limits.hold(in.spool.Largest())
		a.ready.probe("intake", func(context.Context) error { return in.spool.takes(errNotStarted) })
	}
	in.listener, err = a.listen("intake", a.file().Listen.Intake, http.HandlerFunc(in.serveHTTP))
	if err == nil {
		err = in.filter.Put(firstFilters(a.file(), a.log))
	}
	if err == nil {
		limits := a.limits(intakeShare)
		ingest.NewConnections(limits, "ingest", a.registry, a.log).Bind(in.listener.server)
		a.lessThanWanted(in.listener, limits)
		in.listener.server.MaxHeaderBytes = 16 << 10 // before they are there, nothing of them counts for intake.memory
		in.listener.server.ReadTimeout = in.listener.server.ReadHeaderTimeout + a.file().Intake.BodyTimeout.Std()
	}
	return err
}

// serveHTTP hands deliveries to the handler. It answers 503 until the topics have been checked, and while the process stops: providers
// try again. What is meant for the listener for agents gets an answer that says so.
func (in *intake) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if p := r.URL.Path; strings.HasPrefix(p, "/v1/actions/") || strings.HasPrefix(p, "/v1/events/") {
		callback.NoLedger(w, in.a.file().Agents.PublicURL)
		return
	}
	if !in.accepts.Load() && in.spool == nil { // a spool knows by itself when it takes what
		in.handler.NotAccepted(r)
		w.Header().Set("Retry-After", "5")
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte(`{"type":"about:blank","title":"Service Unavailable","status":503}` + "\n"))
		return
	}
	in.handler.ServeHTTP(w, r)
}

func (in *intake) serve(ctx context.Context) error {
	err := in.listener.serve()
	if ctx.Err() == nil && err == nil {
		err = errors.New("intake listener: closed")
	}
	return err
}

// open begins to accept deliveries. From now on the intake is ready if the brokers can be reached.
func (in *intake) open(a *App) {
	in.accepts.Store(true)
	reach := newReach(in.checkReachable)
	a.ready.probe("intake", func(ctx context.Context) error { return in.spool.takes(reach.check(ctx)) })
	a.ready.note("topics", func() string { return *in.unusable.Load() })
	in.spool.start()
	a.log.Info("intake accepts", "address", in.listener.Addr().String(), "sources", len(*in.sources.current.Load()))
}

// checkReachable returns an error if no broker answers, or if no source can be written to. It logs which topics, those of quarantine
// among them, cannot be written, and has /readyz say it; while other sources can, that is no error: all processes see the same, and none
// would be left to serve these. Not for concurrent use.
func (in *intake) checkReachable(ctx context.Context) error {
	sources := *in.sources.current.Load()
	names := make([]string, 0, 2*len(sources))
	for _, s := range sources {
		names = append(names, s.Topic, s.QuarantineTopic)
	}
	wrong, err := in.log.Check(ctx, names...)
	if err != nil {
		in.unusable.Store(new(string))
		return err
	}
	for _, topic := range names {
		if err := in.a.unfit.err(in.a.cfg.Path, topic); err != nil && wrong[topic].Err == nil {
			wrong[topic] = producer.Trouble{Err: err}
		}
	}
	in.logTroubles(wrong)
	return noneWritable(sources, wrong, in.checked)
}

// noneWritable returns nil if at least one source has a partition that takes its events. Otherwise it returns the error of a topic that
// was checked at the start; nil if there is no such topic, since topics of sources that a reload has added may not exist yet.
func noneWritable(sources map[nameInTeam]*ingest.Source, wrong map[string]producer.Trouble, checked map[string]bool) (err error) {
	for _, s := range sources {
		trouble := wrong[s.Topic]
		if trouble.Err == nil || trouble.Part {
			return nil
		}
		if checked[s.Topic] {
			err = schemas.Errorf(schemas.KindOf(trouble.Err), "", "no source has a topic that can be written: %w", trouble.Err)
		}
	}
	return err
}

// logTroubles keeps for /readyz which topics cannot be written, and logs them if that has changed since the last call.
func (in *intake) logTroubles(wrong map[string]producer.Trouble) {
	const most = 20 // a broker that is away takes partitions of all topics with it
	var troubles []string
	for _, topic := range sortedKeys(wrong) {
		troubles = append(troubles, brokers.Explain(wrong[topic].Err).Error())
	}
	said := ""
	if len(troubles) > 0 {
		said = fmt.Sprintf("%d cannot be written, or not to all of their partitions; deliveries for those are answered 503, or kept on disk: %s",
			len(troubles), strings.Join(troubles[:min(most, len(troubles))], "; "))
	}
	in.unusable.Store(&said)
	if slices.Equal(troubles, in.troubles) {
		return
	}
	in.troubles = troubles
	if len(troubles) == 0 {
		in.a.log.Info("all topics can be written again")
		return
	}
	in.a.log.Warn("topics cannot be written, or not to all of their partitions; deliveries for those are answered 503, or kept on this disk where on_broker_outage is spool",
		"topics", len(troubles), "errors", troubles[:min(most, len(troubles))])
}

// firstFilters returns how the sources of a file filter repeats, by their names in events.
func firstFilters(c *config.Config, log *slog.Logger) map[string]firstfilter.Use {
	uses := map[string]firstfilter.Use{}
	for source, r := range c.FirstFilters() {
		team, name, _ := strings.Cut(source[1:], "/")
		uses[source] = firstfilter.Use{Topic: c.Teams[team].Sources[name].Topic, Window: r.Window.Std(), Redis: firstfilter.Config{URL: r.URL, CAFile: r.CAFile, Logger: log}}
	}
	return uses
}

// stop closes the listener and waits for the requests in flight, each of which waits for its acks. It waits for at most half of the
// time until ctx ends, or defaultStopWait if ctx has no deadline. Then it closes the producer. Requests that outlast the wait are
// cut off, and one that reaches serveHTTP only then is answered 503.
func (in *intake) stop(ctx context.Context) {
	defer in.close(ctx)
	in.a.ready.set("intake", errors.New("stopping"))
	in.goOn(ctx)
	left := defaultStopWait
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline) / 2
	}
	waits, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	in.listener.shutdown(waits)
	in.accepts.Store(false) // nothing new reaches the producer, which is closed next
}

const defaultStopWait = 10 * time.Second

// goOn waits for intake.stop_delay, in which deliveries are taken as before: a load balancer learns only by and by that the process is not
// ready, and sends on meanwhile. It waits half of the time until ctx ends at most.
func (in *intake) goOn(ctx context.Context) {
	delay := in.a.file().Intake.StopDelay.Std()
	if deadline, ok := ctx.Deadline(); ok {
		delay = min(delay, time.Until(deadline)/2)
	}
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
}

// close flushes and closes the producer, after the spool.
func (in *intake) close(ctx context.Context) {
	in.spool.stop()
	in.filter.Close()
	in.issuers.Close()
	if err := in.log.Close(ctx); err != nil {
		in.a.log.Error("flush the producer", "error", err)
	}
}

// reload replaces the sources by those of c, unless one of them cannot be compiled.
func (in *intake) reload(c *config.Config) error {
	before := *in.sources.current.Load()
	compiled, problems := compileSources(c, before, in.around)
	if len(problems) > 0 {
		return problems
	}
	var added []string
	for full := range compiled {
		if _, ok := before[full]; !ok {
			added = append(added, full.team+"/"+full.name)
		}
	}
	if err := in.ids.want(c); err != nil { // before the sources: an event must not get the registry id of a schema's former text
		return err
	}
	if err := in.filter.Put(firstFilters(c, in.a.log)); err != nil {
		return err
	}
	in.limits.add(c)
	in.agents.Want(c.AgentTeams())
	in.put(compiled)
	if len(added) > 0 {
		slices.Sort(added)
		in.a.log.Info("new sources; their topics must exist", "sources", added, "run", "forebay topics apply -c "+in.a.cfg.Path)
	}
	return nil
}

package ledger

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/access"
	"github.com/forebay-io/forebay/stream/ledger/internal/alerts"
	"github.com/forebay-io/forebay/stream/ledger/internal/counters"
	"github.com/forebay-io/forebay/stream/ledger/internal/deciders"
	"github.com/forebay-io/forebay/stream/ledger/internal/migrate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pauses"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/forebay-io/forebay/stream/ledger/internal/retention"
)

// SweepConfig says how long things are kept beyond what dedupe needs.
type SweepConfig = retention.Config

// Swept is what a sweep did, by window id.
type Swept = retention.Swept

// DestinationState is what is kept of a destination.
type DestinationState = pauses.State

// SubscriptionState is what is kept of a subscription's pauses.
type SubscriptionState = pauses.SubscriptionState

// Pause keeps every process from attempting anything at a destination until it is resumed.
type Pause = pauses.Pause

// Span is the time from From to To, in which a destination was paused.
type Span = pauses.Span

// AllSubscriptions is the name under which PauseSubscription pauses all of them.
const AllSubscriptions = pauses.AllSubscriptions

// TeamSubscriptions is the name under which PauseSubscription pauses all of a team.
func TeamSubscriptions(team string) string { return pauses.TeamSubscriptions(team) }

// AgentDestinations is the name under which PauseDestination pauses all destinations of an agent.
func AgentDestinations(agent string) string { return pauses.AgentDestinations(agent) }

// PauseOfSubscription returns what keeps a subscription, "<team>.<subscription>", from going on, and the name of the widest pause that does.
func PauseOfSubscription(states map[string]SubscriptionState, name string) (SubscriptionState, string) {
	return pauses.OfSubscription(states, name)
}

// PauseOfDestination returns what is kept of a destination, with the pause of its agent.
func PauseOfDestination(states map[string]DestinationState, name, agent string) DestinationState {
	return pauses.OfDestination(states, name, agent)
}

// destinations has the methods of Ledger for pauses and failures of destinations, and for pauses of subscriptions.
type destinations = pauses.Store

// Token is what is kept of a token of the operator API.
type Token = access.Token

// Session is what is kept of a session of the console.
type Session = access.Session

// Change is a row of the audit.
type Change = access.Change

// ChangeQuery narrows a list of changes.
type ChangeQuery = access.ChangeQuery

// tokens has the methods of Ledger for the tokens and the sessions of the operator API, and for the audit of what is changed through it.
type tokens = access.Store

// FiringAlert is an alert that fires.
type FiringAlert = alerts.Firing

// Silence keeps an alert from being told.
type Silence = alerts.Silence

// MaxSilence is how long a silence may be.
const MaxSilence = alerts.MaxSilence

// CheckSilence returns an error of kind Invalid if a silence would be too long or too short.
func CheckSilence(alert string, length time.Duration) error { return alerts.Check(alert, length) }

// alerting has the methods of Ledger for alerts: which fire, which were told, which are silenced.
type alerting = alerts.Store

// deciding has the methods of Ledger for what processes decide by.
type deciding = deciders.Store

// Decider is a process that decides for subscriptions.
type Decider = deciders.Decider

// DecidesBy is what a process decides by for a subscription.
type DecidesBy = deciders.By

// CounterAsk asks for units of a counter.
type CounterAsk = counters.Ask

// CounterGrant is the answer to a CounterAsk.
type CounterGrant = counters.Grant

// CounterUsed is what is used of a counter.
type CounterUsed = counters.Used

// counting has the methods of Ledger for limits that all processes share.
type counting = counters.Store

// Pool is a pool of connections whose questions and transactions have deadlines of their own.
type Pool = pg.Pool

// Ledger is one ledger database, with its pools of connections. Safe for concurrent use.
type Ledger struct {
	cfg   Config
	db    *pg.Server
	hot   *Pool // batches, claims, results: generic plans over indexes
	read  *Pool // operators' lists: planned each time
	sweep *Pool // what sweeps read and delete, beside the windows that they change on hot
	look  *Pool // what operators look at by key, their commands, sessions, tokens, and the audit
	quick *Pool // reports of long work, pauses, exports, readiness: short, and never behind what operators look at
	// sinkConns runs what actions do in this database; no connection is made before the first of them.
	sinkConns *Pool

	claiming chan struct{} // a semaphore: claims that hold a connection of hot; never closed

	commandListeners *pg.Listeners
	presence         *presence
	sweeper          *retention.Sweeper
	*destinations
	*tokens
	*alerting
	*deciding
	*counting

	id [16]byte
}

// minServer is the oldest Postgres whose features are used (server_version_num).
const minServer = 140000

// Open connects and refuses a database whose migrations are behind this binary, naming `forebay migrate`, or ahead of it but for those that serve it,
// one whose session has a synchronous_commit that is not on or remote_apply, and one older than PostgreSQL 14.
func Open(ctx context.Context, cfg Config) (*Ledger, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := checkServer(ctx, cfg, "open the ledger", minServer); err != nil {
		return nil, err
	}
	db := pg.NewServer(cfg.URL, pg.Deadlines{Tx: cfg.TxTimeout})
	db.Only(cfg.May)
	db.Follow(cfg.Now)
	l := &Ledger{cfg: cfg, db: db, claiming: make(chan struct{}, max(1, cfg.MaxConns/2))}
	if err := l.pools(ctx); err != nil {
		l.Close()
		return nil, err
	}
	if err := l.check(ctx); err != nil {
		l.Close()
		return nil, err
	}
	channel := "forebay_commands_" + cfg.Schema
	l.presence = newPresence(l.quick, channel, cfg.Logger)
	l.commandListeners = pg.NewListeners(l.hot, channel, l.presence, cfg.Logger)
	l.presence.news.tell = l.commandListeners.Notify
	l.sweeper, l.tokens = retention.New(l.hot, l.sweep, cfg.Logger), access.New(l.look)
	l.destinations = pauses.New(l.quick, func(ctx context.Context, tx pgx.Tx, op, subscription string) error {
		return NotMoving(ctx, tx, op, AboutSubscription, subscription)
	})
	l.alerting, l.deciding, l.counting = alerts.New(l.quick), deciders.New(l.quick), counters.New(l.quick)
	return l, nil
}

// Sweep opens and drops dedupe windows of all subscriptions; see [retention.Sweeper.Sweep]. Run it every few minutes, in every
// process.
func (l *Ledger) Sweep(ctx context.Context, cfg SweepConfig) (Swept, error) {
	swept, err := l.sweeper.Sweep(ctx, cfg)
	return swept, errors.Join(err, l.ForgetCounters(ctx, maxForgotten))
}

// maxForgotten is how many counters a sweep deletes at once.
const maxForgotten = 10_000

// transact is [pg.Pool.Transact] on the hot path's pool.
func (l *Ledger) transact(ctx context.Context, f func(pgx.Tx) error) error {
	return l.hot.Transact(ctx, l.cfg.Logger, f)
}

// Close releases the pools. It waits for what is in flight, but not for a server that does not answer.
func (l *Ledger) Close() {
	if err := l.db.Close(); err != nil {
		l.cfg.Logger.Warn("connections to postgres are left open", "error", err)
	}
}

// Ping reports whether the database answers and may be written, for readiness.
func (l *Ledger) Ping(ctx context.Context) error {
	var standby, readOnly bool
	err := l.quick.QueryRow(ctx, askWritable).Scan(&standby, &readOnly)
	if err != nil {
		return pg.Unavailable("ping the ledger", err)
	}
	if lack := l.cfg.notWritten(standby, readOnly); lack != nil {
		l.quick.Reset() // the next look has a session of its own: this one stays as it began
		return schemas.Errorf(schemas.Unavailable, "ping the ledger", "%s: %s", lack.What, lack.Fix)
	}
	return nil
}

// askWritable asks whether a server is a standby, and whether a session may only read.
const askWritable = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::bool`

// forgets says, by synchronous_commit, when the server may forget what it has acknowledged. With on and remote_apply that is on the disk of
// this server and of its synchronous standbys.
var forgets = map[string]string{
	"off":          "a crash would forget what was acknowledged",
	"local":        "a failover would forget what was acknowledged, since no standby is waited for",
	"remote_write": "a standby that crashes as it takes over would forget what was acknowledged, since its disk is not waited for",
}

// check refuses a server whose settings could lose commits, and a schema that this binary does not work with.
func (l *Ledger) check(ctx context.Context) error {
	const op = "open the ledger"
	var commit, sync string
	// The role's and database's settings are in force here: they are what the hot path's sessions get.
	err := l.hot.QueryRow(ctx, `SELECT current_setting('synchronous_commit'), current_setting('fsync')`).Scan(&commit, &sync)
	if err != nil {
		return pg.Unavailable(op, err)
	}
	for _, l := range losesCommits(commit, sync) {
		return schemas.Errorf(schemas.Invalid, op, "%s; %s", l.What, l.Fix)
	}
	if err := l.checkMigrations(ctx); err != nil {
		return err
	}
	if err := l.quick.QueryRow(ctx, `SELECT id FROM identity`).Scan(&l.id); err != nil {
		return pg.Unavailable(op, err)
	}
	return nil
}

// ID tells this ledger from others. It stays what it is wherever the rows are moved to.
func (l *Ledger) ID() [16]byte { return l.id }

// tooOld is the error of a server whose server_version_num is less than oldest.
func (c Config) tooOld(op string, server, oldest int) error {
	at := "of "
	if hosts := c.hosts(); len(hosts) > 0 {
		at = strings.Join(hosts, " or ") + ", of "
	}
	return schemas.Errorf(schemas.Invalid, op, "the server %s%s, is PostgreSQL %d, and %d is the oldest that works: upgrade it, or name another one",
		at, c.Key, server/10000, oldest/10000)
}

// notWritten is what a server or its role or database lacks that cannot be written; nil if it can.
func (c Config) notWritten(standby, readOnly bool) *Lack {
	switch {
	case standby:
		return &Lack{"postgres is a standby and cannot be written", "write the primary's address into " + c.Key + ", or several hosts with target_session_attrs=read-write"}
	case readOnly:
		return &Lack{"postgres takes no writes: default_transaction_read_only is on", "find out who set it, and why (some managed ones do when their disk is full); then ALTER DATABASE or ALTER ROLE ... RESET default_transaction_read_only, or postgresql.conf"}
	}
	return nil
}

// hosts returns each HOST:PORT that URL names: one of them is connected to.
func (c Config) hosts() (list []string) {
	to, err := pgconn.ParseConfig(c.URL.Reveal())
	if err != nil {
		return nil
	}
	add := func(host string, port uint16) {
		if at := net.JoinHostPort(host, strconv.Itoa(int(port))); !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	add(to.Host, to.Port)
	for _, other := range to.Fallbacks { // the other hosts, and each host again without TLS
		add(other.Host, other.Port)
	}
	return list
}

// checkMigrations refuses a schema that this binary does not work with.
func (l *Ledger) checkMigrations(ctx context.Context) error {
	const op = "open the ledger"
	have, want, found, err := migrate.Check(ctx, l.quick, l.cfg.Schema, op)
	if err != nil {
		return err
	}
	return fits(l.cfg.Schema, op, have, want, found)
}

// fits returns why this binary cannot use a schema that is at migration have and needs want; found is false where it has no ledger.
func fits(schema, op string, have, want int64, found bool) error {
	switch {
	case !found:
		return schemas.Errorf(schemas.NotFound, op, "schema %q has no ledger: run `forebay migrate -c FILE`", schema)
	case have < want:
		return schemas.Errorf(schemas.Conflict, op,
			"schema %q is at migration %d and this binary needs %d: run `forebay migrate -c FILE`", schema, have, want)
	case have > want:
		return schemas.Errorf(schemas.Conflict, op,
			"schema %q is at migration %d, ahead of this binary's %d, and has taken away what this binary needs: run the newer forebay (`forebay migrate` of that version was here)",
			schema, have, want)
	}
	return nil
}

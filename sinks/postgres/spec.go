package postgressink

import (
	"strings"
	"time"

	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// Spec returns the type postgres.
func Spec() spec.Type {
	return spec.Type{Name: "postgres", New: func() spec.Config { return &Config{} }, Rows: []spec.Row{
		{
			Of: " without `database`", Does: "a statement in the ledger's own database", Declared: sink.Fenced,
			Harmless: "it runs in the ledger's transaction that records it",
		},
		{
			Of: " with `database`", Does: "a statement in another one", Declared: sink.Idempotent,
			Harmless: "the action's id goes into a table of keys in the statement's transaction",
		},
	}}
}

// Describe implements [spec.Config]. Each attempt has a connection of its own, and those to the ledger's database are its
// to give.
func (c *Config) Describe() spec.Description {
	d := spec.Description{Networks: true, Params: Params(), Concurrency: 8, Fields: []spec.Field{
		{Name: "database", To: &c.Database, Doc: "URL of the database, postgres://user:password@host:5432/database; PG* variables and files of the process are not read for it. Only allow_networks are connected to without TLS; a public address needs ?sslmode=require, or a stricter one.", Computed: "the ledger's own, where the statement is executed in the transaction that records that it is done"},
		{Name: "statement", To: &c.Statement, Required: true, Doc: "What is executed for each action; $1, $2, ... are params.values."},
		{Name: "key_table", To: &c.KeyTable, Doc: "Table of the keys of actions that are done, in database; made when it is missing.", Computed: DefaultKeyTable},
		{
			Name: "key_retention", To: &c.KeyRetention, Computed: "90d, or as long as that", Least: 24 * time.Hour, Most: 3650 * 24 * time.Hour,
			Doc: "How long keys are kept: an action that is attempted again later runs again. Longer than retry.within and the subscription's retention.dead or dedupe.window together.",
		},
	}}
	if c.Database == nil {
		d.InLedger, d.Concurrency = true, 4
	} else {
		d.Memory = &spec.Memory{Key: "key_retention", For: &c.KeyRetention, Default: DefaultKeyRetention}
	}
	return d
}

// Check implements [spec.Config].
func (c *Config) Check(r *spec.Report) {
	if r.Known("statement") && strings.Contains(c.Statement, "{{") {
		r.Problem("statement", "has a template: values of events are parameters, $1 and params.values")
	}
	if c.Database == nil {
		c.checkInLedger(r)
		return
	}
	if r.Known("database") {
		if err := CheckURL(c.Database.Reveal()); err != nil {
			r.Problem("database", "%v", err)
		} else if _, plain, err := Alone(c.Database.Reveal()); err == nil && plain && len(r.AllowNetworks) == 0 {
			r.Note("database", "may be connected to without TLS (sslmode is prefer unless it is written), and so only in allow_networks, "+
				"which lists nothing: every action would be dead. For a public address write ?sslmode=require, for any other allow_networks")
		}
	}
	if r.Known("key_table") {
		if err := CheckKeyTable(c.KeyTable); err != nil {
			r.Problem("key_table", "%v", err)
		}
	}
}

// checkInLedger checks a destination without database, whose statement is executed in the ledger's own. A process that runs
// destinations needs the grant for that. Keys that only another database needs are refused.
func (c *Config) checkInLedger(r *spec.Report) {
	if r.Runs && !r.Grants.Statements {
		r.Problem("", "database is missing. For a statement in the ledger's own database, write postgres: {statements: true} at the top of the file")
	}
	for _, key := range []string{"key_table", "key_retention", "allow_networks"} {
		if r.Written(key) {
			r.Problem(key, "means nothing without database: the statement then runs in the ledger's own database")
		}
	}
}

// Sink implements [spec.Config].
func (c *Config) Sink(d spec.Destination) (sink.Sink, error) {
	if c.Database == nil {
		return NewInLedger(c.Statement, d.Params, d.Hidden...)
	}
	cfg := *c
	cfg.Params, cfg.AllowNetworks, cfg.MaxConns, cfg.Hidden = d.Params, d.AllowNetworks, int32(d.Concurrency), d.Hidden
	return New(cfg)
}

package config

import (
	"net/url"
	"strings"
	"time"

	postgressink "github.com/forebay-io/forebay/sinks/postgres"
)

// postgresSink checks a destination that executes a statement.
func (ck *checker) postgresSink(path string, d *Destination) {
	if strings.TrimSpace(d.Statement) == "" && !ck.skip(path+".statement") {
		ck.problem(path+".statement", "is missing: what is executed for each action")
	}
	if strings.Contains(d.Statement, "{{") && !ck.skip(path+".statement") {
		ck.problem(path+".statement", "has a template: values of events are parameters, $1 and params.values")
	}
	if !ck.written(path + ".database") {
		ck.inLedger(path)
		return
	}
	ck.networks(path+".allow_networks", d.AllowNetworks)
	if !ck.skip(path + ".database") {
		u, err := url.Parse(d.Database.Reveal())
		if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
			ck.problem(path+".database", "is not a URL of the form postgres://user:password@host:5432/database")
		}
	}
	if ck.written(path+".key_table") && !ck.skip(path+".key_table") {
		if err := postgressink.CheckKeyTable(d.KeyTable); err != nil {
			ck.problem(path+".key_table", "%v", err)
		}
	}
	if ck.written(path + ".key_retention") {
		ck.between(path+".key_retention", d.KeyRetention, Duration(24*time.Hour), Duration(3650*24*time.Hour))
	}
}

// keysLast reports an action that can be attempted again after its key is forgotten, as the file says.
func (ck *checker) keysLast(path string, a Action, d *Destination, sub *Subscription) {
	if d.Type != "postgres" || d.Database.IsZero() || d.KeyRetention == 0 {
		return
	}
	if least := sub.keysNeeded(d); d.KeyRetention < least {
		ck.problem(path+".to", "key_retention %s of destination %s is less than %s, for which its retries and then a dead letter are kept (retry.within and retention.dead or dedupe.window): replayed after that, a statement could run twice", d.KeyRetention, a.To, least)
	}
}

// maxStatements is how many connections statements of a process may have in the ledger's database, which has the ledger to
// serve besides.
const maxStatements = 100

// statements checks what the destinations of all teams take of the ledger's database together.
func (ck *checker) statements() {
	if n := ck.c.Statements(); n > maxStatements && ck.options.uses("postgres.url") {
		ck.problem("postgres.statements", "destinations of type postgres without a database may have %d statements under way at once, each with a connection to the ledger's database; more than %d are too many: give them a lower concurrency", n, maxStatements)
	}
}

// inLedger checks a destination without a database: its statement is executed in the ledger's.
func (ck *checker) inLedger(path string) {
	if !ck.c.Postgres.Statements && !ck.skip("postgres.statements") && ck.options.uses(path) {
		ck.problem(path, "database is missing. For a statement in the ledger's own database, write postgres: {statements: true} at the top of the file")
	}
	for _, key := range []string{"key_table", "key_retention", "allow_networks"} {
		if ck.written(path + "." + key) {
			ck.problem(path+"."+key, "means nothing without database: the ledger keeps the keys")
		}
	}
}

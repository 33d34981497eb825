package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	execsink "github.com/forebay-io/forebay/sinks/exec"
	"github.com/forebay-io/forebay/sinks/github"
	httpsink "github.com/forebay-io/forebay/sinks/http"
	kafkasink "github.com/forebay-io/forebay/sinks/kafka"
	logsink "github.com/forebay-io/forebay/sinks/log"
	mcpsink "github.com/forebay-io/forebay/sinks/mcp"
	"github.com/forebay-io/forebay/sinks/pagerduty"
	postgressink "github.com/forebay-io/forebay/sinks/postgres"
	"github.com/forebay-io/forebay/sinks/slack"
	"github.com/forebay-io/forebay/sinks/spec"
)

// sinkTypes are the types that a destination may have, in the order of the documentation. All that there is to know of a
// type is in its own folder.
var sinkTypes = []spec.Type{
	httpsink.Spec(),
	slack.Spec(),
	github.Spec(),
	pagerduty.Spec(),
	kafkasink.Spec(),
	postgressink.Spec(),
	mcpsink.Spec(),
	execsink.Spec(),
	logsink.Spec(),
}

// sinkNames returns the names of the types, sorted.
func sinkNames() []string {
	var names []string
	for _, t := range sinkTypes {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names
}

// newKeys returns the keys of a type, nothing written; nil if there is no such type.
func newKeys(name string) spec.Config {
	for _, t := range sinkTypes {
		if t.Name == name {
			return t.New()
		}
	}
	return nil
}

// sinkKeys returns the keys that some types have of their own, by key and then by type.
func sinkKeys() map[string]map[string]spec.Field {
	all := map[string]map[string]spec.Field{}
	for _, t := range sinkTypes {
		for _, f := range t.New().Describe().Fields {
			if all[f.Name] == nil {
				all[f.Name] = map[string]spec.Field{}
			}
			all[f.Name][t.Name] = f
		}
	}
	return all
}

// about describes a destination; nothing where it has no type that is known.
func (d *Destination) about() spec.Description {
	if d.Keys == nil {
		return spec.Description{}
	}
	return d.Keys.Describe()
}

// sinkKeys checks the keys that belong to a destination's type.
func (ck *checker) sinkKeys(path string, d *Destination) {
	about := d.Keys.Describe()
	for key, has := range map[string]bool{"params": len(about.Params) > 0, "allow_networks": about.Networks, "long": about.Later} {
		if !has && ck.written(path+"."+key) {
			ck.problem(path+"."+key, "has no meaning for type %s", d.Type)
		}
	}
	for _, f := range about.Fields {
		at := path + "." + f.Name
		switch v := valueOf(f); {
		case ck.unresolved(at):
		case !ck.written(at) && f.Required:
			ck.problem(path, "%s is missing: %s", f.Name, f.Doc)
		case !ck.written(at):
		case f.Required && isEmpty(v):
			ck.problem(at, "is empty")
		case f.Most > 0:
			ck.between(at, Duration(v.Int()), Duration(f.Least), Duration(f.Most))
		}
	}
	d.Keys.Check(ck.report(path, d))
	if about.Later && d.Long != nil {
		ck.long(path+".long", d.Long)
	}
	ck.params(path+".params", about.Params, d.Params)
}

// report returns where a destination's own checks say what is wrong, and learn what they need of the rest of the file. What this
// process does not know of that counts as granted.
func (ck *checker) report(path string, d *Destination) *spec.Report {
	team, _, _ := strings.Cut(strings.TrimPrefix(path, "teams."), ".")
	at := func(key string) string { return strings.TrimSuffix(path+"."+key, ".") }
	return &spec.Report{
		Team: team, Runs: ck.options.uses(path), AllowNetworks: d.AllowNetworks,
		Grants: spec.Grants{
			Commands:   ck.c.Exec.Enabled || ck.unresolved("exec.enabled"),
			Statements: ck.c.Postgres.Statements || ck.unresolved("postgres.statements"),
			Publish:    append([]string{team + "."}, ck.c.Kafka.Publish[team]...),
		},
		Problem: func(key, format string, args ...any) { ck.problem(at(key), format, args...) },
		Written: func(key string) bool { return ck.written(at(key)) },
		Known:   func(key string) bool { return ck.written(at(key)) && !ck.unresolved(at(key)) },
	}
}

// long checks a destination that may finish later.
func (ck *checker) long(path string, l *Long) {
	if !ck.listensAgents() || ck.c.Agents.PublicURL == "" && !ck.unresolved("agents.public_url") {
		ck.problem(path, "needs listen.agents and agents.public_url: nobody could say what came of an action")
	}
	if !ck.written(path + ".deadline") { // said already
		return
	}
	ck.between(path+".deadline", l.Deadline, Duration(time.Second), Duration(30*24*time.Hour))
	if l.Heartbeat != 0 {
		ck.between(path+".heartbeat", l.Heartbeat, Duration(time.Second), l.Deadline)
	}
}

// remembers reports an action that can be attempted again after its destination has forgotten it, as the file says.
func (ck *checker) remembers(path string, a Action, d *Destination, sub *Subscription) {
	m := d.about().Memory
	if m == nil {
		return
	}
	if kept, least := Duration(*m.For), sub.attempted(d); kept != 0 && kept < least {
		ck.problem(path+".to", "%s %s of destination %s is less than %s, for which its retries and then a dead letter are kept (retry.within and retention.dead or dedupe.window): replayed after that, it could run twice", m.Key, kept, a.To, least)
	}
}

// publish checks what teams may write to beside their own topics.
func (ck *checker) publish() {
	for _, team := range slices.Sorted(maps.Keys(ck.c.Kafka.Publish)) {
		for i, prefix := range ck.c.Kafka.Publish[team] {
			if at := "kafka.publish." + team + "[" + itoa(i) + "]"; prefix == "" && !ck.unresolved(at) {
				ck.problem(at, "is empty: write what the names of the topics begin with")
			}
		}
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

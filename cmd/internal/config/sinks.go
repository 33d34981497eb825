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

// sinkKeys returns the keys that some of the types have of their own, by key and then by type.
func sinkKeys(of []string) map[string]map[string]spec.Field {
	all := map[string]map[string]spec.Field{}
	for _, t := range sinkTypes {
		if !slices.Contains(of, t.Name) {
			continue
		}
		for _, f := range t.New().Describe().Fields {
			if all[f.Name] == nil {
				all[f.Name] = map[string]spec.Field{}
			}
			all[f.Name][t.Name] = f
		}
	}
	return all
}

// about returns what the destination's type says of it; nothing if there is no such type.
func (d *Destination) about() spec.Description {
	if d.Keys == nil {
		return spec.Description{}
	}
	return d.Keys.Describe()
}

// sinkKeys checks the keys that a destination has, or must not have, by its type.
func (ck *checker) sinkKeys(d NamedDestination) {
	path, about := d.Path(), d.Keys.Describe()
	for key, has := range map[string]bool{"params": len(about.Params) > 0, "allow_networks": about.Networks, "long": about.Later} {
		if !has && ck.written(path+"."+key) {
			ck.problem(path+"."+key, "has no meaning for type %s", d.Type)
		}
	}
	for _, f := range about.Fields {
		at := path + "." + f.Name
		if ck.unresolved(at) {
			continue
		}
		written, v := ck.written(at), valueOf(f)
		switch {
		case f.Required && !written:
			ck.problem(path, "%s is missing: %s", f.Name, f.Doc)
		case f.Required && isEmpty(v):
			ck.problem(at, "is empty")
		case f.Most > 0 && written:
			ck.between(at, Duration(v.Int()), Duration(f.Least), Duration(f.Most))
		}
	}
	d.Keys.Check(ck.report(d))
	if about.Later && d.Long != nil {
		ck.long(path+".long", d.Long)
	}
	ck.params(path+".params", about, d.Params)
}

// report returns the report of a destination for the checks of its type: it takes their problems, and tells them what they need of the
// rest of the file. A grant whose value this process does not resolve counts as given. A shared destination stands in the file that
// grants topics to teams, and says itself which teams write where.
func (ck *checker) report(d NamedDestination) *spec.Report {
	at := func(key string) string { return strings.TrimSuffix(d.Path()+"."+key, ".") }
	publish := []string{""}
	if d.Team != "" {
		publish = append([]string{d.Team + "."}, ck.c.Kafka.Publish[d.Team]...)
	}
	return &spec.Report{
		Team: d.Team, Runs: ck.options.uses(d.Path()), AllowNetworks: d.AllowNetworks,
		Grants: spec.Grants{
			Commands:   ck.c.Exec.Enabled || ck.unresolved("exec.enabled"),
			Statements: ck.c.Postgres.Statements || ck.unresolved("postgres.statements"),
			Publish:    publish,
		},
		Problem: func(key, format string, args ...any) { ck.problem(at(key), format, args...) },
		Note:    func(key, format string, args ...any) { ck.note(at(key), format, args...) },
		Written: func(key string) bool { return ck.written(at(key)) },
		Known:   func(key string) bool { return ck.written(at(key)) && !ck.unresolved(at(key)) },
	}
}

// long checks a destination that may report the result of an action later.
func (ck *checker) long(path string, l *Long) {
	hasPublicURL := ck.c.Agents.PublicURL != "" || ck.unresolved("agents.public_url")
	if !ck.listensAgents() || !hasPublicURL {
		ck.problem(path, "needs listen.agents and agents.public_url: nobody could say what came of an action")
	}
	if !ck.written(path + ".deadline") { // already reported
		return
	}
	ck.between(path+".deadline", l.Deadline, Duration(time.Second), Duration(30*24*time.Hour))
	if l.Heartbeat != 0 {
		ck.between(path+".heartbeat", l.Heartbeat, Duration(time.Second), l.Deadline)
	}
}

// checkMemory adds a problem for an action that could be attempted again after its destination has forgotten that it is done. It has nothing
// to say of a destination without such a time, and of a time that could not be read (0), of which there is a problem already.
func (ck *checker) checkMemory(path string, a Action, d *Destination, sub *Subscription) {
	m := d.about().Memory
	if m == nil {
		return
	}
	if kept, attempted := Duration(*m.For), sub.attemptTime(d); kept != 0 && kept < attempted {
		ck.problem(path+".to", "%s %s of destination %s is too short: an action can be retried and replayed for %s (retry.within and retention.dead or dedupe.window), and could then run twice; make it longer", m.Key, kept, a.To, attempted)
	}
}

// kafkaPublish checks kafka.publish, the prefixes of topics that teams may write to beside their own.
func (ck *checker) kafkaPublish() {
	for _, team := range slices.Sorted(maps.Keys(ck.c.Kafka.Publish)) {
		for i, prefix := range ck.c.Kafka.Publish[team] {
			if at := "kafka.publish." + team + "[" + itoa(i) + "]"; prefix == "" && !ck.unresolved(at) {
				ck.problem(at, "is empty: write what the names of the topics begin with")
			}
		}
	}
}

// maxStatements is how many statements of destinations a process may run at once in the ledger's database, each on a connection of its
// own. The database has the ledger to serve besides.
const maxStatements = 100

// statements checks that the destinations of all teams together do not run more statements in the ledger's database than that.
func (ck *checker) statements() {
	if n := ck.c.Statements(); n > maxStatements && ck.options.uses("postgres.url") {
		ck.problem("postgres.statements", "destinations of type postgres without a database may have %d statements under way at once, each with a connection to the ledger's database; more than %d are too many: give them a lower concurrency", n, maxStatements)
	}
}

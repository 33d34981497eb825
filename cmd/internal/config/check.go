package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/sinks/template"
)

func itoa(i int) string { return strconv.Itoa(i) }

// checker checks the values of the configuration one by one and against each other. It does not check unresolved values: those that
// this process does not use, and those whose problem was reported when they were decoded.
type checker struct {
	c        *Config
	options  *Options
	problems Problems
	below    map[string]bool // what has an unresolved path below it; nil: not asked yet
	// questions are the params by which destinations tell of questions, by their full names; nil where they do not compile.
	questions map[string]*template.Set
}

func (ck *checker) problem(path, format string, args ...any) {
	at := ck.c.at(path)
	ck.problems = append(ck.problems, Problem{File: at.file, Line: at.line, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (ck *checker) note(path, format string, args ...any) {
	at := ck.c.at(path)
	ck.c.notes = append(ck.c.notes, Problem{File: at.file, Line: at.line, Path: path, Message: fmt.Sprintf(format, args...)})
}

// see says which files were read besides: what is wrong with one of them is looked at again once it has changed.
func (ck *checker) see(paths ...string) {
	for _, path := range paths {
		if path != "" && ck.options.See != nil {
			ck.options.See(path)
		}
	}
}

// unresolved reports whether path has no value to check: it refers to a secret that this process does not use, or its problem is
// already reported.
func (ck *checker) unresolved(path string) bool { return ck.c.unresolved[path] }

// written reports whether the file sets path; otherwise its value is a default.
func (ck *checker) written(path string) bool { _, ok := ck.c.places[path]; return ok }

// run makes all checks.
func (ck *checker) run() {
	ck.kafka()
	ck.postgres()
	ck.listen()
	ck.operator()
	ck.intake()
	ck.agents()
	ck.listeners()
	ck.alerts()
	ck.teamsDir()
	ck.topics("topics", ck.c.Topics)
	ck.shared()
	topics := map[string]string{} // the source's path by its topic
	for _, name := range slices.Sorted(maps.Keys(ck.c.Teams)) {
		ck.team("teams."+name, name, ck.c.Teams[name])
		ck.checkEventTopics("teams."+name, name, topics)
	}
	ck.sourceKeys()
	ck.quotas()
	ck.registry()
	ck.telemetry()
	ck.statements()
	ck.ledgers()
}

// kafka checks the section kafka.
func (ck *checker) kafka() {
	brokers := ck.c.Kafka.Brokers
	ck.supplied("kafka", "brokers", len(brokers) > 0, ck.c.Kafka.Embedded, "addresses (host:port) to find the cluster by")
	ck.between("kafka.batch_wait", ck.c.Kafka.BatchWait, 0, Duration(time.Second))
	ck.between("kafka.unread_after", ck.c.Kafka.UnreadAfter, Duration(time.Second), Duration(24*time.Hour))
	ck.between("kafka.session_timeout", ck.c.Kafka.SessionTimeout, Duration(6*time.Second), Duration(5*time.Minute))
	if id := ck.c.Kafka.InstanceID; id != "" && !ck.unresolved("kafka.instance_id") && !instanceID.MatchString(id) {
		ck.problem("kafka.instance_id", "%q is not a name of at most 200 letters, digits, dots, dashes and underscores", clip(id))
	}
	ck.kafkaPublish()
	ck.kafkaClients()
	ck.policy("policy", "", ck.c.Policy)
	for i, b := range brokers {
		path := "kafka.brokers[" + itoa(i) + "]"
		if !ck.unresolved(path) {
			ck.address(path, b)
		}
	}
}

// supplied checks that a section names its server by key, which is for what, or is embedded, where the caller supplies or only looks.
func (ck *checker) supplied(section, key string, named, embedded bool, what string) {
	path := section + "." + key
	if ck.unresolved(path) || !ck.options.uses(path) {
		return
	}
	switch {
	case named && embedded:
		ck.problem(section+".embedded", "cannot be set together with %s: leave one of them out", key)
	case named || ck.options.Embedded:
	case embedded && ck.options.Look:
		ck.note(section+".embedded", "is for `forebay dev` alone: `forebay serve` needs %s", path)
	case embedded:
		ck.problem(section+".embedded", "is for `forebay dev` alone: write %s instead, %s", path, what)
	default:
		ck.problem(path, "is missing: %s; in a file for `forebay dev` alone write %s: {embedded: true}", what, section)
	}
}

// instanceID matches the instance ids that Kafka takes. They are shorter than Kafka's limit of 249 characters, since Kafka makes member
// ids of them by adding to them.
var instanceID = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,200}$`)

// address checks that s is host:port, and reports the problem and returns false if it is not.
func (ck *checker) address(path, s string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		ck.problem(path, "%q is not host:port", clip(s))
		return "", false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		ck.problem(path, "%q has no port between 0 and 65535", clip(s))
		return "", false
	}
	return host, true
}

// postgres checks the connection to the ledger of the top of the file, which is not needed where no subscription has it.
func (ck *checker) postgres() {
	p := ck.c.Postgres
	if ck.c.usesMainLedger() || !p.URL.IsZero() || p.Embedded {
		ck.supplied("postgres", "url", !p.URL.IsZero(), p.Embedded, "the stream role keeps its ledger there")
	}
	ck.connection("postgres", p.URL, p.Schema, p.TransactionTimeout)
}

// isPostgres reports whether text is a URL of a Postgres.
func isPostgres(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
}

// schemaName matches the schemas that the ledger takes. Postgres allows 63 bytes; the ledger adds to the name, as for the channel
// forebay_commands_<schema>.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

// listen checks the addresses.
func (ck *checker) listen() {
	l := ck.c.Listen
	if !ck.unresolved("listen.intake") {
		ck.address("listen.intake", l.Intake)
	}
	if l.Health != "" && !ck.unresolved("listen.health") {
		ck.address("listen.health", l.Health)
	}
}

// listeners checks that no two addresses are one: the second could not be listened on. It comes behind the checks of each.
func (ck *checker) listeners() {
	l := ck.c.Listen
	var before []listening
	for _, at := range []listening{{"listen.intake", l.Intake}, {"listen.operator", l.Operator}, {"listen.health", l.Health}, {"listen.agents", l.Agents}} {
		if at.address == "" || ck.unresolved(at.path) || !ck.options.uses(at.path) {
			continue
		}
		for _, other := range before {
			if at.meets(other) {
				ck.problem(at.path, "%s cannot be listened on: %s is %s; write another port in one of the two", at.address, other.path, other.address)
			}
		}
		before = append(before, at)
	}
}

// listening is an address with its key in the file.
type listening struct{ path, address string }

// meets reports whether two addresses cannot both be listened on: one port of one host, or of all. 0 is any free port.
func (a listening) meets(b listening) bool {
	host, port, err := net.SplitHostPort(a.address)
	otherHost, otherPort, otherErr := net.SplitHostPort(b.address)
	if err != nil || otherErr != nil || port != otherPort || port == "0" {
		return false
	}
	host, otherHost = localhost(host), localhost(otherHost)
	return host == otherHost || isAll(host, otherHost) || isAll(otherHost, host)
}

// localhost returns the address of the host localhost, and any other host as it is: nobody is asked for the addresses of names here.
func localhost(host string) string {
	if strings.EqualFold(host, "localhost") {
		return "127.0.0.1"
	}
	return host
}

// isAll reports whether who listens on a host surely listens on another host's address, too: on all addresses, or on all of IPv4. A name's
// address may be of IPv6.
func isAll(host, other string) bool {
	ip, err := netip.ParseAddr(other)
	return host == "" || host == "::" || host == "0.0.0.0" && err == nil && ip.Is4()
}

// callable reports whether a provider can call s: a URL of a host, and nothing behind its path.
func callable(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil && !strings.ContainsAny(s, "?#")
}

// topics checks settings of topics: those at the top of the file, or a source's, which have been completed from those.
func (ck *checker) topics(path string, t Topics) {
	if t.Replication == 0 && !ck.unresolved(path+".replication") {
		if path == "topics" && !ck.unresolved("kafka.brokers") {
			ck.problem(path+".replication", "must be written out: the brokers are not all on this machine (3 is usual)")
		}
		return
	}
	if t.Replication >= 3 && t.MinInsync < 2 && !ck.unresolved(path+".min_insync") {
		ck.problem(path+".min_insync", "must be at least 2 with replication %d, or an acknowledged event can be lost", t.Replication)
	}
	if t.Replication == 2 && t.MinInsync == 1 && (path == "topics" || ck.written(path)) {
		ck.note(path+".replication", "with replication 2 and min_insync 1 an event is acknowledged when one broker has it while the other is down; if that broker's disk fails, the event is lost; "+
			"use replication 3, or min_insync 2 (then a delivery is refused while one of its two brokers is down)")
	}
	if t.MinInsync > t.Replication && t.Replication > 0 {
		ck.problem(path+".min_insync", "%d is more than replication %d: nothing could be written", t.MinInsync, t.Replication)
	}
	if ck.written(path+".retention") && !ck.unresolved(path+".retention") && t.Retention.Std() < time.Hour {
		ck.problem(path+".retention", "must be at least 1h: payloads of open actions are read back from the log")
	}
}

// team checks the sources, destinations and subscriptions of a team.
func (ck *checker) team(path, team string, t *Team) {
	ck.people(path, t.Owners, t.Contact)
	ck.budget(path, t.Budget, OfEntity)
	for _, name := range slices.Sorted(maps.Keys(t.Sources)) {
		source := sourceCheck{ck, path + ".sources." + name, t.Sources[name]}
		source.run()
		source.share(team)
	}
	for _, d := range t.own(team) {
		ck.destination(d)
		ck.own(d)
	}
	ck.policy(path+".policy", team, t.Policy)
	for _, name := range slices.Sorted(maps.Keys(t.Subscriptions)) {
		ck.subscription(path+".subscriptions."+name, team, t.Subscriptions[name])
	}
}

// destination checks the keys that all destinations have, and then those of its type.
func (ck *checker) destination(d NamedDestination) {
	path := d.Path()
	ck.between(path+".timeout", d.Timeout, Duration(100*time.Millisecond), Duration(10*time.Minute))
	one := attempt{timeout: d.Timeout}
	if d.Long != nil {
		one.deadline = d.Long.Deadline
	}
	ck.retry(path+".retry", d.Retry, one)
	ck.bounds(path, d.Destination)
	ck.budget(path, d.Budget, OfEntity)
	if d.Keys != nil { // else there is no such type, which is already reported
		ck.sinkKeys(d)
	}
}

// between reports a value that is less than low or more than high.
func (ck *checker) between(path string, d, low, high Duration) {
	if !ck.unresolved(path) && (d < low || d > high) {
		ck.problem(path, "%s is not between %s and %s", d, low, high)
	}
}

// hasControls reports whether s has ASCII control characters.
func hasControls(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func itoa(i int) string { return strconv.Itoa(i) }

// checker checks the values of the configuration one by one and against each other. It does not check unresolved values: those that
// this process does not use, and those whose problem was reported when they were decoded.
type checker struct {
	c        *Config
	options  *Options
	problems Problems
}

func (ck *checker) problem(path, format string, args ...any) {
	at := ck.c.at(path)
	ck.problems = append(ck.problems, Problem{File: at.file, Line: at.line, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (ck *checker) note(path, format string, args ...any) {
	at := ck.c.at(path)
	ck.c.notes = append(ck.c.notes, Problem{File: at.file, Line: at.line, Path: path, Message: fmt.Sprintf(format, args...)})
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
	ck.intake()
	ck.agents()
	ck.topics("topics", ck.c.Topics)
	topics := map[string]string{} // the source's path by its topic
	for _, name := range slices.Sorted(maps.Keys(ck.c.Teams)) {
		ck.team("teams."+name, ck.c.Teams[name])
		ck.checkEventTopics("teams."+name, name, topics)
	}
	ck.statements()
}

// kafka checks the section kafka.
func (ck *checker) kafka() {
	brokers := ck.c.Kafka.Brokers
	if len(brokers) == 0 && !ck.options.Embedded && !ck.unresolved("kafka.brokers") && ck.options.uses("kafka.brokers") {
		ck.problem("kafka.brokers", "is missing: addresses (host:port) to find the cluster by")
	}
	ck.between("kafka.batch_pace", ck.c.Kafka.BatchPace, 0, Duration(time.Second))
	ck.between("kafka.unread_after", ck.c.Kafka.UnreadAfter, Duration(time.Second), Duration(24*time.Hour))
	ck.between("kafka.session_timeout", ck.c.Kafka.SessionTimeout, Duration(6*time.Second), Duration(5*time.Minute))
	if id := ck.c.Kafka.InstanceID; id != "" && !ck.unresolved("kafka.instance_id") && !instanceID.MatchString(id) {
		ck.problem("kafka.instance_id", "%q is not a name of at most 200 letters, digits, dots, dashes and underscores", clip(id))
	}
	ck.publish()
	for i, b := range brokers {
		path := "kafka.brokers[" + itoa(i) + "]"
		if !ck.unresolved(path) {
			ck.address(path, b)
		}
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

// postgres checks the connection to the ledger.
func (ck *checker) postgres() {
	o := ck.options
	if !o.Embedded && ck.c.Postgres.URL.IsZero() && !ck.unresolved("postgres.url") && o.uses("postgres.url") {
		ck.problem("postgres.url", "is missing: the stream role keeps its ledger there")
	}
	if !ck.unresolved("postgres.url") && !ck.c.Postgres.URL.IsZero() {
		u, err := url.Parse(ck.c.Postgres.URL.Reveal())
		if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
			ck.problem("postgres.url", "is not a URL of the form postgres://user:password@host:5432/database")
		}
	}
	if s := ck.c.Postgres.Schema; !ck.unresolved("postgres.schema") && !schemaName.MatchString(s) {
		ck.problem("postgres.schema", "%q must match [a-z_][a-z0-9_]{0,39}", clip(s))
	}
	// With less than 2 s, a checkpoint or a slow synchronous standby would end batches. With more than a minute, the quarter of it that a
	// stopping process may wait for a transaction would be too much of the drain budget of 25 s.
	ck.between("postgres.transaction_timeout", ck.c.Postgres.TransactionTimeout, Duration(2*time.Second), Duration(time.Minute))
}

// schemaName matches the schemas that the ledger takes. Postgres allows 63 bytes; the ledger adds to the name, as for the channel
// forebay_commands_<schema>.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

// listen checks the addresses of intake and operator, and the public URL.
func (ck *checker) listen() {
	l := ck.c.Listen
	if !ck.unresolved("listen.intake") {
		ck.address("listen.intake", l.Intake)
	}
	if l.PublicURL != "" && !ck.unresolved("listen.public_url") {
		if !callable(l.PublicURL) || strings.HasSuffix(l.PublicURL, "/") {
			ck.problem("listen.public_url", "is not a URL such as https://hooks.example.com, without a slash at its end")
		}
	}
	if l.Health != "" && !ck.unresolved("listen.health") {
		ck.address("listen.health", l.Health)
	}
	if ck.unresolved("listen.operator") {
		return
	}
	if host, ok := ck.address("listen.operator", l.Operator); ok && !loopback(host) {
		ck.problem("listen.operator", "%s is not loopback; the operator listener has no authentication yet, so it stays on 127.0.0.1; probes and Prometheus ask listen.health", l.Operator)
	}
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
		ck.note(path+".replication", "2 with min_insync 1 acknowledges what one broker has while the other is away: events that nobody else has go with its disk; "+
			"use replication 3, or min_insync 2 (nothing is taken then while a broker is away)")
	}
	if t.MinInsync > t.Replication && t.Replication > 0 {
		ck.problem(path+".min_insync", "%d is more than replication %d: nothing could be written", t.MinInsync, t.Replication)
	}
	if ck.written(path+".retention") && !ck.unresolved(path+".retention") && t.Retention.Std() < time.Hour {
		ck.problem(path+".retention", "must be at least 1h: payloads of open actions are read back from the log")
	}
}

// team checks the sources, destinations and subscriptions of a team.
func (ck *checker) team(path string, t *Team) {
	for _, name := range slices.Sorted(maps.Keys(t.Sources)) {
		ck.source(path+".sources."+name, t.Sources[name])
	}
	for _, name := range slices.Sorted(maps.Keys(t.Destinations)) {
		ck.destination(path+".destinations."+name, t.Destinations[name])
	}
	for _, name := range slices.Sorted(maps.Keys(t.Subscriptions)) {
		ck.subscription(path+".subscriptions."+name, t, t.Subscriptions[name])
	}
}

// destination checks the keys that all destinations have, and then those of its type.
func (ck *checker) destination(path string, d *Destination) {
	ck.between(path+".timeout", d.Timeout, Duration(100*time.Millisecond), Duration(10*time.Minute))
	ck.retry(path+".retry", d.Retry)
	ck.bounds(path, d)
	if d.Keys != nil { // else there is no such type, which is already reported
		ck.sinkKeys(path, d)
	}
}

// between reports a value that is less than low or more than high.
func (ck *checker) between(path string, d, low, high Duration) {
	if !ck.unresolved(path) && (d < low || d > high) {
		ck.problem(path, "%s is not between %s and %s", d, low, high)
	}
}

const longestDelay = Duration(7 * 24 * time.Hour)

// retry checks the limits of repeated attempts or requests.
func (ck *checker) retry(path string, r Retry) {
	if !ck.unresolved(path+".attempts") && r.Attempts > 1000 {
		ck.problem(path+".attempts", "%d is more than 1000", r.Attempts)
	}
	ck.between(path+".within", r.Within, Duration(time.Second), Duration(30*24*time.Hour))
	ck.between(path+".min", r.Min, Duration(time.Millisecond), Duration(24*time.Hour))
	ck.between(path+".max", r.Max, Duration(time.Millisecond), longestDelay)
	if !ck.unresolved(path+".min") && !ck.unresolved(path+".max") && r.Min > r.Max {
		ck.problem(path+".min", "%s is more than max %s", r.Min, r.Max)
	}
}

// hasControls reports whether s has ASCII control characters.
func hasControls(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

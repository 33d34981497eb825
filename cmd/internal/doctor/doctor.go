// Package doctor looks at what an installation rests on, and says what is wrong with it and what to do. It asks what other commands ask,
// all at once: `config check`, `topics plan`, what a process asks of Postgres and of the brokers at its start, /readyz and `attention`. Beside
// those it looks at what nobody else does: who can read files with secrets, what is about to expire, which copies are in sync, what the users
// of the roles may do, and connections. It changes nothing. What it finds can be put into a bundle for those who help, without secrets
// and without payloads.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Severity says what a finding means.
type Severity string

const (
	OK      Severity = "ok"
	Unknown Severity = "unknown" // the check could not be made
	Warning Severity = "warning" // it works, and something may go wrong, or what is promised is less than it could be
	Problem Severity = "problem" // it does not work, or what was acknowledged can be lost
)

// Finding is what a check has found about one thing.
type Finding struct {
	Check    string   `json:"check"`
	Subject  string   `json:"subject"` // a topic, a key of the file, a role, an address; empty: all of what the check looks at
	Severity Severity `json:"severity"`
	Evidence string   `json:"evidence"`      // what was seen
	Fix      string   `json:"fix,omitempty"` // the command to run, or the line to write
}

// Config says what is looked at.
type Config struct {
	// Path is the configuration file, as commands are told of it.
	Path string
	// Load reads the file for roles, or for all without any.
	Load func(roles ...config.Role) (*config.Config, error)
	// Roles are those of the processes that are looked at: intake, stream. None: both, and topics (the admin of kafka.roles).
	Roles []config.Role
	// Client asks a running process, at URL. Nil: nothing is started yet.
	Client *api.Client
	URL    string
	Asking string // what goes behind a command for it to ask that process: " --url URL"
	// Within is how long a check may take; default 20 s.
	Within time.Duration
}

// Report is all that was found.
type Report struct {
	Findings []Finding
	// File is the configuration; nil where it cannot be read.
	File *config.Config
}

// Problems counts the findings that are problems.
func (r *Report) Problems() (n int) {
	for _, f := range r.Findings {
		if f.Severity == Problem {
			n++
		}
	}
	return n
}

// check is one look at something.
type check struct {
	name  string
	holds string              // what is so where it finds nothing
	next  string              // what to do about a finding that says nothing else
	needs func() (why string) // why it cannot be made; empty: it can
	make  func(ctx context.Context) []Finding
}

// checks are all checks of what a file names, in the order in which they are shown.
func (d *doctor) checks() []check {
	file := " -c " + d.Path
	return []check{
		{"secrets", "nobody else can read the files with secrets", "", nil, d.secrets},
		{"expiry", "no certificate, and no token of the file, ends within " + config.Duration(soon).String(), "", nil, d.expiry},
		{"networks", "no allow_networks leads to a cloud's credentials, or to an operator listener that asks for no token", "list the networks that are meant, and no more", nil, d.networks},
		{"destinations", "they can be reached, as far as their types can tell; no action was run", "", d.noStream, d.destinations},
		{"brokers", "", "kafka.brokers: write addresses (host:port) that this machine reaches; kafka.tls and kafka.sasl as their listener wants them", d.noBrokers, d.brokers},
		{"topics", "they are there, with the settings of the file, and the partitions that the ledger knows", "forebay topics apply" + file, d.noAnswer, d.topics},
		{"copies", "all replicas that there are are in sync", "start the brokers that are down; kafka-topics.sh --bootstrap-server BROKER --describe --under-replicated-partitions", d.noAnswer, d.copies},
		{"rights", "", "forebay acls export" + file, d.noAnswer, d.rights},
		{"postgres", "", "", d.noLedger, d.servers},
		{"connections", "", "", d.noLedger, d.connections},
	}
}

// doctor is one run of all checks.
type doctor struct {
	Config
	file    *config.Config    // nil if it cannot be read
	logins  func() []login    // asks the brokers once
	examine func() []examined // asks the servers of the ledgers once

	mu      sync.Mutex
	clients []*kgo.Client
}

// Run makes all checks, side by side, and returns what they found, in their order. Of a file that cannot be read it says why, and asks no more
// than the running process.
func Run(ctx context.Context, cfg Config) *Report {
	cfg.Within = cmp.Or(cfg.Within, 20*time.Second)
	d := &doctor{Config: cfg}
	defer d.close()
	file, unread := cfg.Load(cfg.Roles...)
	d.file = file
	d.logins = sync.OnceValue(func() []login { return d.loginAll(ctx) })
	d.examine = sync.OnceValue(func() []examined { return d.examineAll(ctx) })
	checks := []check{{"config", "a process would start with the file", "forebay config check -c " + d.Path, nil, func(context.Context) []Finding { return d.config(unread) }}}
	if unread == nil {
		checks = append(checks, d.checks()...)
	}
	if d.Client != nil {
		checks = append(checks, check{"process", "", "", nil, d.process})
	}
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() { found[i] = d.run(ctx, c) })
	}
	all.Wait()
	return &Report{File: d.file, Findings: slices.Concat(found...)}
}

// run makes a check in its time.
func (d *doctor) run(ctx context.Context, c check) []Finding {
	found := bounded(ctx, d.Within, []Finding{unknown("", fmt.Sprintf("no answer within %s", d.Within))}, func(ctx context.Context) []Finding {
		if c.needs != nil {
			if why := c.needs(); why != "" {
				return []Finding{unknown("", why)}
			}
		}
		return c.make(ctx)
	})
	if len(found) == 0 {
		found = []Finding{ok("", "%s", c.holds)}
	}
	for i := range found {
		found[i].Check = c.name
		if s := found[i].Severity; s == Warning || s == Problem {
			found[i].Fix = cmp.Or(found[i].Fix, c.next)
		}
	}
	return found
}

// bounded returns what f does, or late where that does not come in time. What does not heed its context, as a Kafka client that connects to a
// broker that hangs, is left behind: the clients that it waits for are closed in the end.
func bounded[T any](ctx context.Context, limit time.Duration, late T, f func(context.Context) T) T {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	made := make(chan T, 1)
	go func() { made <- f(ctx) }()
	end := time.NewTimer(limit + limit/10)
	defer end.Stop()
	select {
	case v := <-made:
		return v
	case <-end.C:
		return late
	}
}

func ok(subject, format string, args ...any) Finding {
	return Finding{Subject: subject, Severity: OK, Evidence: fmt.Sprintf(format, args...)}
}

func unknown(subject, why string) Finding {
	return Finding{Subject: subject, Severity: Unknown, Evidence: "not made: " + why}
}

func warning(subject, evidence, fix string) Finding {
	return Finding{Subject: subject, Severity: Warning, Evidence: evidence, Fix: fix}
}

func problem(subject, evidence, fix string) Finding {
	return Finding{Subject: subject, Severity: Problem, Evidence: evidence, Fix: fix}
}

// roles are the roles that are looked at.
func (d *doctor) roles() []config.Role {
	if len(d.Roles) == 0 {
		return []config.Role{config.RoleTopics, config.RoleIntake, config.RoleStream}
	}
	return d.Roles
}

// noStream says why what only a stream uses cannot be looked at.
func (d *doctor) noStream() string {
	if !slices.Contains(d.roles(), config.RoleStream) {
		return "this is of the role stream"
	}
	return ""
}

// close closes the clients.
func (d *doctor) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, cl := range d.clients {
		cl.Close()
	}
}

// examined is what is known of one ledger's server.
type examined struct {
	config.Ledger
	cfg   ledger.Config
	found *ledger.Examined // nil where err says why not
	err   error
}

// Package doctor looks at what an installation rests on, and says what is wrong with it and what to do: the configuration and its secrets,
// the brokers and the topics, what each role may do there, Postgres, clocks, what is about to expire, and a running process. It changes
// nothing. What it finds can be put into a bundle for those who help, without secrets and without payloads.
//
// A check is a function that returns findings. Checks run side by side, each within a time limit; one that cannot be made says why.
package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rights"
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
	// Principal returns as whom the brokers know a role, for the commands that grant rights.
	Principal func(c *config.Config, role rights.Role) string
	// Client asks a running process, at URL. Nil: nothing is started yet, and the addresses of listen are tried instead.
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

// check is one look at something. Its findings have their Check set by whoever runs it, unless it sets one.
type check struct {
	name string
	make func(ctx context.Context) []Finding
}

// doctor is one run of all checks.
type doctor struct {
	Config
	// parsed is the configuration as it was read for Roles. kafka and postgres are the same; where it cannot be read, they are what the
	// brokers and the ledgers need of it. Nil: that cannot be read either.
	parsed, kafka, postgres *config.Config
	unread                  error // why not all of the file can be read

	brokersAnswer func() (config.Role, error) // asks the brokers once: as which role topics can be looked at
	examine       func() []examined

	mu      sync.Mutex
	clients map[config.Role]*kgo.Client
}

// Run makes all checks and returns what they found, in the order of the checks.
func Run(ctx context.Context, cfg Config) *Report {
	if cfg.Within == 0 {
		cfg.Within = 20 * time.Second
	}
	d := &doctor{Config: cfg, clients: map[config.Role]*kgo.Client{}}
	defer d.close()
	d.load()
	d.brokersAnswer = sync.OnceValues(func() (config.Role, error) { return d.ping(ctx) })
	d.examine = sync.OnceValue(func() []examined { return d.examineAll(ctx) })
	checks := d.checks()
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() { found[i] = c.within(ctx, cfg.Within) })
	}
	all.Wait()
	r := &Report{File: d.parsed}
	for _, f := range found {
		r.Findings = append(r.Findings, f...)
	}
	return r
}

// checks are all checks, in the order in which they are shown.
func (d *doctor) checks() []check {
	list := []check{
		{"config", d.config}, {"secrets", d.secrets}, {"expiry", d.expiry}, {"guard", d.guard}, {"destinations", d.destinations},
		{"brokers", d.brokers}, {"topics", d.topics}, {"copies", d.copies}, {"retention", d.retention}, {"rights", d.rights},
		{"postgres", d.servers}, {"connections", d.connections}, {"clock", d.clock},
	}
	if d.Client == nil {
		return append(list, check{"listen", d.listen})
	}
	return append(list, check{"process", d.process})
}

// within makes a check in its time. A check that does not heed its context is left behind: the clients that it waits for are closed in the
// end.
func (c check) within(ctx context.Context, limit time.Duration) []Finding {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	made := make(chan []Finding, 1)
	go func() { made <- c.make(ctx) }()
	late := time.NewTimer(limit + limit/10)
	defer late.Stop()
	var found []Finding
	select {
	case found = <-made:
	case <-late.C:
		found = []Finding{unknown("", fmt.Sprintf("not made: no answer within %s", limit), "")}
	}
	for i := range found {
		if found[i].Check == "" {
			found[i].Check = c.name
		}
	}
	return found
}

func ok(subject, format string, args ...any) Finding {
	return Finding{Subject: subject, Severity: OK, Evidence: fmt.Sprintf(format, args...)}
}

func unknown(subject, evidence, fix string) Finding {
	return Finding{Subject: subject, Severity: Unknown, Evidence: evidence, Fix: fix}
}

func warning(subject, evidence, fix string) Finding {
	return Finding{Subject: subject, Severity: Warning, Evidence: evidence, Fix: fix}
}

func problem(subject, evidence, fix string) Finding {
	return Finding{Subject: subject, Severity: Problem, Evidence: evidence, Fix: fix}
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

// client returns the client of a role.
func (d *doctor) client(role config.Role) (*kgo.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	cl := d.clients[role]
	if cl == nil {
		var err error
		if cl, err = kgo.NewClient(app.KafkaOptions(d.kafka, role)...); err != nil {
			return nil, err
		}
		d.clients[role] = cl
	}
	return cl, nil
}

// admin returns the client of a role for questions about the cluster.
func (d *doctor) admin(role config.Role) (*kadm.Client, error) {
	cl, err := d.client(role)
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(cl), nil
}

// Package spec is how a type of destination describes itself: the keys that it has in the file, its parameters, what is
// wrong with what was written, and the sink that it all makes. Whoever reads a file knows types by their [Type] alone, and
// a type is all in its own folder.
package spec

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// Type is a type of destination.
type Type struct {
	Name string // as it is written: type: slack
	Rows []Row  // of the table in deploy/docs/REFERENCE.md
	// Answers are what the destination says of itself beyond the failure table's statuses, or against them: rows of another table there.
	Answers []Answer
	// New makes the configuration of one destination, with nothing written in it.
	New func() Config
}

// Row is a row of the documentation: one for a type, or one for each thing that its destinations can be told to do.
type Row struct {
	Of       string // right behind the type's name, where it has several rows: ", `do: labels`"
	Does     string
	Declared sink.Idempotency
	Harmless string // how "a repeated attempt is harmless because" goes on
}

// Answer is an answer that a sink reads by its meaning, as the documentation tells it.
type Answer struct {
	What  string
	Class sink.Class
	Then  string // what the destination does; empty: as after any answer of the class
}

// Config is the configuration of one destination, and knows what its type knows.
type Config interface {
	// Describe is asked again whenever it matters: what it says may follow from what was written.
	Describe() Description
	// Check reports what is wrong with the keys together. What is wrong with one of them as its [Field] says it has been
	// reported before.
	Check(r *Report)
	// Sink makes the sink without connecting. The configuration stays as it is.
	Sink(d Destination) (sink.Sink, error)
}

// Description is what a destination has. The zero value has no keys of its own.
type Description struct {
	Fields []Field
	Params []template.Param // of the key params; none: it has no such key
	// Untrusted says that those of its parameters that may be taken for instructions may hold texts of events.
	Untrusted bool
	// Networks says that it has the key allow_networks: it calls addresses that are written in the file.
	Networks bool
	// Later says that it has the key long: it may answer 202 and report the result of an action later.
	Later bool
	// Settle is how long after an attempt that may have acted, as it timed out or ended with a 5xx, the next one is made at the earliest:
	// until then the API may carry the call out, or not yet list what it did. For sinks that look before a retry.
	Settle time.Duration
	// Concurrency is how many attempts it takes at once if nothing is written; 0: [DefaultConcurrency].
	Concurrency int
	// InLedger says that its attempts are statements in the ledger's own database, each with a connection there.
	InLedger bool
	// Memory is there where it knows for a time only which actions are done.
	Memory *Memory
}

// DefaultConcurrency is that of most types.
const DefaultConcurrency = 64

// Memory is for how long a destination knows which actions are done. One that is attempted again later runs again.
type Memory struct {
	Key string         // of the file
	For *time.Duration // zero if nothing is written: it is then set, to Default or as long as it has to be
	// Default is the least of what For is set to.
	Default time.Duration
}

// Field is a key of the file.
type Field struct {
	Name string
	// To is where its value goes: a pointer to a string, bool, int, [time.Duration], [schemas.Secret], []string, [Headers] or
	// [Env], or to a pointer to one of them, which stays nil if nothing is written.
	To any
	// Doc is a sentence for the documentation.
	Doc      string
	Default  string // as it would be written; empty: none, or computed
	Computed string // the default in words, if nothing that could be written says it
	Values   []string
	Required bool
	Least    time.Duration // bounds of a duration that is written, where Most is not 0
	Most     time.Duration
}

// Headers are request headers by name. All of their values are treated as secrets.
type Headers map[string]schemas.Secret

// Env are variables of a command's environment by name. All of their values are treated as secrets.
type Env map[string]schemas.Secret

// Report collects the problems with the keys of a destination.
type Report struct {
	Team string
	// Runs says that this process runs destinations. Other processes are not asked for what only running them needs.
	Runs          bool
	Grants        Grants
	AllowNetworks []netip.Prefix
	// Problem reports what is wrong with the value of a key; "" is the destination as a whole.
	Problem func(key, format string, args ...any)
	// Note remarks on a value that is allowed, and of no use as it stands.
	Note func(key, format string, args ...any)
	// Written reports whether there is a value.
	Written func(key string) bool
	// Known reports whether there is a value and this process knows it: references are only followed where they are used.
	Known func(key string) bool
}

// Grants are what the main file lets the files of teams do to the machine, the log and the ledger.
type Grants struct {
	Commands   bool     // exec.enabled
	Publish    []string // kafka.publish: what the names of topics begin with that the team may write to, its own among them
	Statements bool     // postgres.statements
}

// Common is what most sinks are made with beside their own keys: the Config of one that calls an API embeds it.
type Common struct {
	Params        *template.Set  // nil if the type has none
	AllowNetworks []netip.Prefix // private networks that may be reached, and reached by plain http
	Timeout       time.Duration  // bounds one call whatever the lane's context says
	Version       string         // of this binary, for User-Agent; empty if it has none
	// Hidden is what the references of its keys and parameters led to: like its secrets it is in no error and in no outcome.
	Hidden []schemas.Secret
}

// Destination is what a sink is made with beside its own keys.
type Destination struct {
	Common

	Concurrency int
	Dir         string // of the file that it stands in, from here: relative paths in its keys are relative to it
	Log         *slog.Logger
	// Cluster are the options, []kgo.Opt, of a client of the log's cluster. They are any here, so that only the sink that
	// wants them links the client.
	Cluster any
	// MaxRecord is the largest record in bytes that an event of any source becomes.
	MaxRecord int
}

// AllowNetworks is the doc of the key allow_networks, wherever there is one.
const AllowNetworks = "Private networks (CIDR) that may be called; plain http is only allowed to those."

// BaseURL returns the key of an API's address. Its default is the provider's own, which the sink knows. Where each customer has
// an address of its own, write a required [Field] instead.
func BaseURL(to *string) Field {
	return Field{Name: "base_url", To: to, Doc: "Where the API is, in front of its paths.", Computed: "the provider's own"}
}

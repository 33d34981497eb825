// Package deptest keeps the shape of the repository: which package may import what and why, that each says what it is
// for, and that no folder appears at the top unasked. DESIGN.md tells the same in prose; this is what fails.
package deptest

import (
	"slices"
	"strings"
)

const module = "github.com/forebay-io/forebay"

// rule forbids imports to the packages of a scope. Paths without a dot in the first part are ours, below the module.
type rule struct {
	scope  []string // packages and everything below them
	except []string // of the scope
	forbid []string // packages and everything below them
	allow  []string // of the forbidden
	deep   bool     // also through other packages
	tests  bool     // also from test files
	reason string
}

// rules is the table of design section 8. Every entry carries the reason that its failure prints.
var rules = []rule{
	{
		scope: []string{"schemas"}, forbid: []string{"ingest", "stream", "sinks", "cmd"}, deep: true, tests: true,
		reason: "schemas is the vocabulary: everybody imports it, so it imports nothing of ours",
	},
	{
		scope: []string{"ingest"}, forbid: []string{"stream", "sinks", "cmd"}, deep: true, tests: true,
		reason: "ingest and stream meet in the log only; either runs without the other",
	},
	{
		scope: []string{"stream"}, forbid: []string{"ingest", "sinks", "cmd"}, deep: true, tests: true,
		reason: "presets put what the gate needs on the record, and sinks come in through the Sink contract",
	},
	{
		scope: []string{"sinks"}, forbid: []string{"ingest", "cmd"}, deep: true, tests: true,
		reason: "a sink knows the contract and the vocabulary, not where events come from",
	},
	{
		scope: []string{"sinks"}, forbid: []string{"stream"}, allow: []string{"stream/sink"},
		reason: "a sink makes one attempt: gate, ledger and lanes are behind the contract in stream/sink",
	},
	{
		scope: []string{"stream/sink"}, forbid: []string{"stream", "github.com/twmb/franz-go", "github.com/jackc/pgx"}, allow: []string{"stream/sink"}, deep: true,
		reason: "the contract of sinks is a leaf: who implements a sink links neither Kafka nor Postgres for it",
	},
	{
		scope: []string{"sinks"}, except: []string{"sinks/kafka", "sinks/postgres"}, forbid: []string{"github.com/twmb/franz-go", "github.com/jackc/pgx"}, deep: true,
		reason: "the clients of Kafka and Postgres belong to the two sinks that speak to those",
	},
	{
		scope: []string{"ingest"}, forbid: []string{"github.com/jackc/pgx", "database/sql", "github.com/pressly/goose"}, deep: true,
		reason: "ingest needs Kafka only: it takes deliveries in while Postgres is away",
	},
	{
		scope: []string{"stream"}, except: []string{"stream/inbox", "stream/replay"}, forbid: []string{"stream/inbox", "stream/replay"}, deep: true,
		reason: "the inbox is what operators ask: nothing on the way of an event rests on it, and the ledger least of all",
	},
	{
		scope: []string{"stream/ledger/internal/pg"}, forbid: []string{"stream"}, allow: []string{"stream/internal/retry"}, deep: true,
		reason: "how one speaks to Postgres is a leaf: what is said, of fences and events, is the ledger's",
	},
	{
		scope: []string{"stream/ledger/internal/window"}, forbid: []string{"stream"}, deep: true,
		reason: "what the tables that rotate are called is a leaf",
	},
	{
		scope: []string{"stream/ledger/internal/marks"}, forbid: []string{"stream"}, deep: true,
		reason: "how the actions of a claim stand is bits in memory: a leaf",
	},
	{
		scope: []string{"stream/ledger/internal/pauses"}, forbid: []string{"stream"}, allow: []string{"stream/ledger/internal/pg"},
		reason: "the pauses of destinations are two tables of their own",
	},
	{
		scope: []string{"stream/ledger/internal/access"}, forbid: []string{"stream"}, allow: []string{"stream/ledger/internal/pg"},
		reason: "the tokens of operators are a table of their own",
	},
	{
		scope: []string{"stream/ledger/internal/alerts"}, forbid: []string{"stream"}, allow: []string{"stream/ledger/internal/pg"},
		reason: "which alerts were told, and which are silenced, are two tables of their own",
	},
	{
		scope: []string{"stream/ledger/internal/counters"}, forbid: []string{"stream"}, allow: []string{"stream/ledger/internal/pg"},
		reason: "what is used of shared limits is a table of its own",
	},
	{
		scope: []string{"stream/counter"}, forbid: []string{"stream"}, allow: []string{"stream/ledger"},
		reason: "a counter knows names and numbers: what has a limit is above it",
	},
	{
		scope: []string{"stream/ledger/internal/retention"}, forbid: []string{"stream"}, allow: []string{"stream/ledger/internal/pg", "stream/ledger/internal/window"},
		reason: "what opens and drops windows needs the pools and the tables, and no claim",
	},
	{
		scope: []string{"stream/reader"}, forbid: []string{"stream"}, allow: []string{"stream/gate", "stream/ledger", "stream/sink", "stream/internal/retry"},
		reason: "the reader knows the log: who owns a partition, and what becomes of its records, is above it",
	},
	{
		scope: []string{"stream/batch"}, forbid: []string{"stream"}, allow: []string{"stream/reader", "stream/gate", "stream/ledger", "stream/lane", "stream/internal/retry"},
		reason: "the loop is told what to run: who owns a partition is above it",
	},
	{
		scope: []string{"stream/owner"}, forbid: []string{"stream"}, allow: []string{"stream/batch", "stream/reader", "stream/ledger", "stream/internal/retry"},
		reason: "the owner runs claims on the loop; who wires the two is above it, and lanes come in through its contract",
	},
	{
		scope: []string{"stream/lane"}, forbid: []string{"stream"}, allow: []string{"stream/destination", "stream/gate", "stream/ledger", "stream/policy", "stream/sink"},
		reason: "lanes are handed actions: where those come from is above them",
	},
	{
		scope: []string{"stream/destination"}, forbid: []string{"stream"}, allow: []string{"stream/counter", "stream/ledger", "stream/sink"},
		reason: "a destination knows no lane: it hands out turns",
	},
	{
		scope: []string{"stream/backfill"}, forbid: []string{"stream"}, allow: []string{"stream/sink", "stream/internal/retry"},
		reason: "a backfill asks a provider, and is told of failures and delays by the contract of sinks alone",
	},
	{
		scope: []string{"stream/deadletter"}, forbid: []string{"stream"}, allow: []string{"stream/reader", "stream/ledger", "stream/sink", "stream/internal/retry"},
		reason: "the export of dead letters is told whose: it knows neither loop nor owner",
	},
	{
		scope: []string{"stream/subscriber"}, forbid: []string{"stream"}, allow: []string{"stream/gate"}, deep: true,
		reason: "a team's program links the gate's rules, and neither ledger nor lanes",
	},
	{
		scope:  []string{"stream/gate"},
		forbid: []string{"context", "database/sql", "log", "net", "os", "math/rand", "github.com/twmb", "github.com/jackc"},
		reason: "the gate is pure: no I/O, no chance, no clock of its own",
	},
	{
		scope: []string{""}, except: []string{"cmd", "schemas/record", "ingest/producer", "ingest/spool", "stream!", "stream/reader", "stream/batch", "stream/owner", "stream/deadletter",
			"stream/subscriber", "stream/internal/streamtest", "sinks/kafka"},
		forbid: []string{"github.com/twmb/franz-go"},
		reason: "the Kafka client belongs to the record binding, the intake's log and its spool, what reads, owns and exports for a subscription, a team's own subscriber, and cmd",
	},
	{
		scope:  []string{""},
		except: []string{"stream/ledger", "stream/inbox", "stream/subscriber", "sinks/postgres", "cmd/internal/embedded", "cmd/internal/bench", "cmd/internal/rig", "cmd/forebay-bench"},
		forbid: []string{"github.com/jackc/pgx", "database/sql", "github.com/pressly/goose"},
		reason: "the ledger and its inbox are what speaks SQL to Postgres, and a team's own subscriber to its own; the others named run or measure servers",
	},
	{
		scope: []string{""}, except: []string{"ingest/firstfilter"}, forbid: []string{"github.com/redis/rueidis"}, tests: true,
		reason: "Redis saves the intake load, and nothing else may come to rest on it",
	},
	{
		scope:  []string{"cmd/internal/console"},
		forbid: []string{"ingest", "sinks", "stream", "cmd/internal/app", "github.com/twmb/franz-go", "github.com/jackc/pgx"}, allow: []string{"stream/gate", "stream/inbox"},
		reason: "pages show what the API answers: they read no ledger and no broker",
	},
	{
		scope: []string{""}, except: []string{"schemas"}, forbid: []string{"github.com/cloudevents"}, tests: true,
		reason: "the CloudEvents SDK is the oracle of the binding's tests",
	},
	{
		scope: []string{""}, except: []string{"schemas/record/cesdk"}, forbid: []string{"github.com/cloudevents"},
		reason: "the binding is written by hand: the SDK's JSON path is unmaintained and slow",
	},
	{
		scope: []string{"cmd"}, forbid: []string{"github.com/cloudevents", "schemas/record/cesdk"}, deep: true,
		reason: "what is offered to programs that use the SDK is linked by those alone",
	},
	{
		scope: []string{""}, except: []string{"schemas/jsonschema"}, forbid: []string{"github.com/santhosh-tekuri"},
		reason: "a schema is parsed where its cost is bounded and nothing is fetched for it",
	},
	{
		scope: []string{""}, except: []string{"cmd/internal/embedded", "stream/internal/streamtest", "cmd/internal/openid/openidtest"},
		forbid: []string{"github.com/twmb/franz-go/pkg/kfake"},
		reason: "an embedded server has a lock, a directory and a banner, which only that package gives it",
	},
	{
		scope: []string{""}, except: []string{"stream/sink/sinktest", "stream/ledger/ledgertest", "stream/ledger/pgtest", "stream/internal/streamtest", "cmd/internal/openid/openidtest"},
		forbid: []string{
			"testing", "net/http/httptest", "pgregory.net/rapid", "github.com/google/go-cmp", "go.uber.org/goleak",
			"github.com/rogpeppe/go-internal",
		},
		reason: "test code stays out of production; what only tests link is named here",
	},
	{
		scope:  []string{"cmd/forebay", "cmd/forebay-bench"},
		forbid: []string{"stream/sink/sinktest", "stream/ledger/ledgertest", "stream/ledger/pgtest", "stream/internal/streamtest", "cmd/internal/openid/openidtest"}, deep: true,
		reason: "no binary carries what is for tests",
	},
	{
		scope: []string{"cmd/forebay"}, forbid: []string{"schemas/short"}, deep: true,
		reason: "what -short leaves out is a matter of tests and of the rig, which the bench links",
	},
	{
		scope: []string{"cmd/forebay"}, forbid: []string{"cmd/internal/rig"}, deep: true,
		reason: "the rig's servers are for tests and the bench; forebay's own are embedded's",
	},
	{
		scope: []string{"schemas", "ingest", "stream", "sinks"}, except: []string{"sinks/exec", "schemas/short"}, forbid: []string{"os/exec", "os/signal", "flag", "github.com/alecthomas/kong"},
		reason: "processes, signals and flags are cmd's, commands sinks/exec's; a library is told what it needs",
	},
	{
		scope: []string{""}, forbid: []string{"log!", "gopkg.in/yaml.v3", "io/ioutil", "math/rand!"},
		reason: "slog is passed in; yaml.v3 moved to go.yaml.in; the other two have successors",
	},
}

// topLevel are the folders that the repository has, dot folders aside, and bin, which make build leaves.
var topLevel = []string{"bin", "cmd", "deploy", "ingest", "schemas", "sinks", "stream"}

// under reports whether path is one of the places or below it. A place that ends in "!" is that package alone; ""
// is all of ours.
func under(path string, places []string) bool {
	for _, place := range places {
		exact := strings.HasSuffix(place, "!")
		place = absolute(strings.TrimSuffix(place, "!"))
		if path == place || !exact && strings.HasPrefix(path, place+"/") {
			return true
		}
	}
	return false
}

// absolute puts the module in front of our own paths.
func absolute(place string) string {
	first, _, _ := strings.Cut(place, "/")
	switch first {
	case "":
		return module
	case "schemas", "ingest", "stream", "sinks", "cmd":
		return module + "/" + place
	}
	return place
}

// broken lists the imports of a package that the rule forbids.
func (r rule) broken(p listed) []string {
	if !under(p.ImportPath, r.scope) || under(p.ImportPath, r.except) {
		return nil
	}
	imports := p.Imports
	if r.deep {
		imports = p.Deps
	}
	if r.tests {
		imports = slices.Concat(imports, p.TestImports, p.XTestImports)
	}
	var found []string
	for _, path := range imports {
		if under(path, r.forbid) && !under(path, r.allow) {
			found = append(found, path)
		}
	}
	return found
}

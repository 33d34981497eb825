package deptest

import (
	"go/ast"
	"strconv"
	"strings"
)

// outbound are the names of the standard library that open connections or look names up, by package. What ends in "*"
// stands for all names that begin so.
var outbound = map[string][]string{
	"net/http":   {"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm"},
	"net":        {"Dial*", "Resolver", "DefaultResolver", "Lookup*", "Resolve*"},
	"crypto/tls": {"Dial*"},
	"net/smtp":   {"*"},
	"net/rpc":    {"*"},
}

// unguarded are the packages that may use them, with the reason. Everything else that leaves the process goes through
// sinks/guard, which judges every address at its socket.
var unguarded = map[string]string{
	"sinks/guard":               "it is the guarded client",
	"ingest/verify":             "SNS's certificates and confirmations, over TLS from hosts that are named sns.REGION.amazonaws.com, and no others",
	"sinks/mcp":                 "the SDK wants an http.Client: it gets one whose only transport is the guarded client's",
	"cmd/internal/api":          "the client of the operator listener, whose address an operator gives to a command",
	"cmd/internal/brokers":      "Kafka brokers, whose addresses the operator configures",
	"cmd/internal/delivery":     "forebay send posts to the intake that an operator names, and the console to its own process's",
	"cmd/internal/dev":          "forebay dev and demo call their own listeners on loopback",
	"cmd/internal/registry":     "the schema registry, whose address the operator configures in the main file",
	"cmd/internal/openid":       "the OpenID provider, whose address the operator configures in the main file",
	"cmd/internal/embedded":     "the library that downloads PostgreSQL for forebay dev has a client of its own",
	"stream/ledger/internal/pg": "the ledger's Postgres, whose address the operator configures",
	"cmd/internal/bench":        "load and probes of what the bench itself has started",
	"cmd/internal/notify":       "the service manager's socket on this machine",
	"cmd/internal/rig":          "proxies in front of servers that it has started itself",
}

// guarded are the folders whose packages call addresses that teams write, so that each of them must rest on sinks/guard.
var guarded = []string{"sinks", "cmd/internal/app"}

// addressless are the packages of those folders that call no address of a team, with the reason.
var addressless = map[string]string{
	"sinks/guard":       "it is the guarded client",
	"sinks/exec":        "it runs programs of this machine",
	"sinks/exec/keeper": "the same",
	"sinks/kafka":       "it writes to the cluster of the log, whose addresses the operator configures",
	"sinks/log":         "it writes to the process's log",
	"sinks/redact":      "it works on texts",
	"sinks/spec":        "it describes",
	"sinks/template":    "it works on texts",
}

// opens lists the names of outbound that a file uses.
func opens(f *ast.File) (found []string) {
	as := map[string]string{} // the package that a name of this file stands for
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil || outbound[path] == nil {
			continue
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		if name == "." {
			found = append(found, path+" by a dot")
			continue
		}
		as[name] = path
	}
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if ok && oneOf(s.Sel.Name, outbound[as[x.Name]]) {
			found = append(found, as[x.Name]+"."+s.Sel.Name)
		}
		return true
	})
	return found
}

func oneOf(name string, list []string) bool {
	for _, want := range list {
		if prefix, ok := strings.CutSuffix(want, "*"); name == want || ok && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

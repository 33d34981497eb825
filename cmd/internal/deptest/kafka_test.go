package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ownBrokers are the packages that say themselves where a client finds brokers, with the reason. Everywhere else a Kafka client gets
// what app.KafkaOptions returns: it would have neither TLS nor a user otherwise.
var ownBrokers = map[string]string{
	"cmd/internal/app":      "it is where KafkaOptions is",
	"cmd/internal/embedded": "the broker of forebay dev, in this process",
	"cmd/internal/bench":    "brokers that the bench has started itself",
	"cmd/internal/rig":      "brokers that it has started itself",
	"ingest/producer":       "the intake's log is given brokers and options apart, of which the options win",
}

// TestKafkaClientsAreMadeInOneWay reads every file that is no test's: a client is made of options that its package was given.
func TestKafkaClientsAreMadeInOneWay(t *testing.T) {
	t.Parallel()
	clients := 0
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		if slices.Contains(testPackages, path) {
			continue
		}
		for name, f := range p.Files {
			made, seeds, bare, packs := kafkaClients(f)
			clients += made
			if packs > 0 && path != "schemas/record" {
				t.Errorf("%s/%s says how a client packs\n\tbut kgo's own blocks cost each reader 8 MiB: take record.Compressor", path, name)
			}
			if seeds > 0 && (ownBrokers[path] == "" || path == "cmd/internal/app" && name != "kafka.go") {
				t.Errorf("%s/%s says where brokers are\n\tbut a client made so has neither TLS nor a user: take app.KafkaOptions, or what the package is given", path, name)
			}
			if bare > 0 && ownBrokers[path] == "" && path+"/"+name != "stream/reader/unpack.go" { // which only unpacks, and never connects
				t.Errorf("%s/%s makes a Kafka client of options that stand there alone: take app.KafkaOptions, or what the package is given", path, name)
			}
		}
	}
	if clients < 10 {
		t.Errorf("only %d clients were found: this test would check nothing", clients)
	}
}

// kafkaClients counts the Kafka clients that a file makes, those of them whose options all stand in the call, and where it says where
// brokers are and how batches are packed.
func kafkaClients(f *ast.File) (made, seeds, bare, packs int) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch of(call) {
		case "kgo.NewClient":
			made++
			if !call.Ellipsis.IsValid() {
				bare++
			}
		case "kgo.SeedBrokers":
			seeds++
		case "kgo.ProducerBatchCompression", "kgo.WithCompressor":
			packs++
		}
		return true
	})
	return made, seeds, bare, packs
}

// of names the function of another package that a call calls.
func of(call *ast.CallExpr) string {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + s.Sel.Name
}

// TestKafkaClientsBite shows that each way to make a client is seen.
func TestKafkaClientsBite(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][4]int{
		`package p; func f() { kgo.NewClient(opts...) }`:                                 {1, 0, 0, 0},
		`package p; func f() { kgo.NewClient(append(opts, kgo.RequiredAcks(x))...) }`:    {1, 0, 0, 0},
		`package p; func f() { kgo.NewClient() }`:                                        {1, 0, 1, 0},
		`package p; func f() { kgo.NewClient(kgo.SeedBrokers(a...)) }`:                   {1, 1, 1, 0},
		`package p; func f() { kgo.NewClient(append(opts, kgo.SeedBrokers("a"))...) }`:   {1, 1, 0, 0},
		`package p; var o = []kgo.Opt{kgo.SeedBrokers(a...)}; func f() { x.NewClient()}`: {0, 1, 0, 0},
		`package p; var o = kgo.ProducerBatchCompression(kgo.Lz4Compression())`:          {0, 0, 0, 1},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
		if err != nil {
			t.Fatal(err)
		}
		made, seeds, bare, packs := kafkaClients(f)
		if diff := cmp.Diff(want, [4]int{made, seeds, bare, packs}); diff != "" {
			t.Errorf("%s (-want +got)\n%s", source, diff)
		}
	}
}

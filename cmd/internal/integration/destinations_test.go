package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// projection is a topic of the deployment's team, which Forebay does not make.
func (r *deployment) projection() string {
	r.t.Helper()
	topic := r.team + ".projection"
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.broker.Bootstrap(), ",")...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	resp, err := kadm.NewClient(client).CreateTopic(r.t.Context(), 3, 1, nil, topic)
	if err != nil || resp.Err != nil {
		r.t.Fatalf("create %s: %v %v", topic, err, resp.Err)
	}
	return topic
}

// published reads a topic until it has n actions by forebay-action-id, and gives its records in the order of offsets.
func (r *deployment) published(topic string, n int) []*kgo.Record {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.broker.Bootstrap(), ",")...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), 90*time.Second)
	defer cancel()
	var records []*kgo.Record
	for actions := map[string]bool{}; len(actions) < n; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			r.t.Fatalf("%s has %d actions, want %d", topic, len(actions), n)
		}
		for _, rec := range fetches.Records() {
			records = append(records, rec)
			actions[headerOf(rec, "forebay-action-id")] = true
		}
	}
	return records
}

func headerOf(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// toolbox is an MCP server with one tool that keeps what it was called with.
type toolbox struct {
	*httptest.Server
	mu    sync.Mutex
	calls []*mcp.CallToolParamsRaw
}

func newToolbox(t *testing.T) *toolbox {
	b := &toolbox{}
	server := mcp.NewServer(&mcp.Implementation{Name: "toolbox", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "file", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, r.Params)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "filed"}}}, nil
	})
	b.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(func() { b.CloseClientConnections(); b.Close() })
	return b
}

// TestDestinations runs one event through destinations of several types, each as the file has it, one after the other in
// its lane.
func TestDestinations(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{})
	topic, tools, other, dir := r.projection(), newToolbox(t), rig.Database(t), t.TempDir()
	r.edit("version: 1\n", "version: 1\nexec: {enabled: true}\n")
	r.edit("postgres: {", "postgres: {statements: true, ")
	r.edit("    destinations:\n", `    destinations:
      topic: {type: kafka, topic: "`+topic+`", params: {key: "order-{{body.order.id}}"}}
      ledger: {type: postgres, statement: "INSERT INTO revisions VALUES ($1, $2)", params: {values: ["{{body.order.id}}", "{{body.order.rev}}"]}}
      shopdb:
        type: postgres
        database: "`+other+`"
        allow_networks: [127.0.0.0/8, "::1/128"]
        statement: INSERT INTO revisions VALUES ($1, $2)
        params: {values: ["{{body.order.id}}", "{{body.order.rev}}"]}
      command: {type: exec, command: [/bin/sh, -c, "cat > $DIR/$FOREBAY_ACTION_ID"], env: {DIR: "`+dir+`"}}
      tools: {type: mcp, untrusted: ok, url: "`+tools.URL+`/mcp", allow_networks: [127.0.0.0/8], params: {tool: file}}
`)
	r.edit("actions: [{name: run, to: shop}]", `actions:
          - {name: publish, to: topic}
          - {name: record, to: ledger}
          - {name: copy, to: shopdb}
          - {name: hand-over, to: command}
          - {name: file, to: tools, params: {arguments: {order: "{{body.order.id}}", rev: "{{body.order.rev}}"}}}`)
	own, elsewhere := connect(t, r.dbURL), connect(t, other)
	for _, db := range []*pgx.Conn{own, elsewhere} {
		execute(t, db, `CREATE TABLE public.revisions (id text, rev int)`)
	}
	p := r.serve("intake,stream")
	r.deliver(order("o-1", 1))
	waitItems(t, r, p, 1, "--subscription", "fulfil", "--status", "done")

	var item struct {
		Actions []struct{ ID, Name, Status string }
	}
	out, err := r.try(p.operator, "inbox", "get", r.team+"/fulfil/orders/o-1-1", "-o", "json")
	if err == nil {
		err = json.Unmarshal(out, &item)
	}
	if err != nil || len(item.Actions) != 5 {
		t.Fatalf("%s %v", out, err)
	}
	ids := map[string]string{}
	for _, a := range item.Actions {
		ids[a.Name] = a.ID
	}
	body := string(order("o-1", 1).body)
	if got := r.published(topic, 1); len(got) != 1 || string(got[0].Key) != "order-o-1" || string(got[0].Value) != body || headerOf(got[0], "forebay-action-id") != ids["publish"] {
		t.Errorf("published %+v", got)
	}
	for name, db := range map[string]*pgx.Conn{"the ledger's": own, "the other": elsewhere} {
		if n := count(t, db, `SELECT count(*) FROM public.revisions WHERE id = 'o-1' AND rev = 1`); n != 1 {
			t.Errorf("%s database has it %d times", name, n)
		}
	}
	if n := count(t, elsewhere, `SELECT count(*) FROM forebay_actions WHERE action_id = $1`, ids["copy"]); n != 1 {
		t.Errorf("%d keys", n)
	}
	if got, err := os.ReadFile(filepath.Join(dir, ids["hand-over"])); err != nil || string(got) != body {
		t.Errorf("the command got %s, %v", got, err)
	}
	if len(tools.calls) != 1 || tools.calls[0].Meta["forebay/action_id"] != ids["file"] || string(tools.calls[0].Arguments) != `{"order":"o-1","rev":1}` {
		t.Errorf("the tool was called with %+v", tools.calls)
	}
}

// TestPublishingIsInOrderAcrossAKill republishes a load while the process is killed: nothing is missing, every copy of an
// action has its key, and what a consumer sees first of each action is in the order of its entity.
func TestPublishingIsInOrderAcrossAKill(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{})
	topic := r.projection()
	r.edit("    destinations:\n", "    destinations:\n      topic: {type: kafka, topic: \""+topic+"\", timeout: 2s, retry: {min: 50ms, max: 500ms}}\n")
	r.edit("actions: [{name: run, to: shop}]", "actions: [{name: publish, to: topic}]")
	p := r.serve("intake,stream")
	const entities, revs = 12, 20
	for n := 1; n <= revs; n++ {
		for e := range entities {
			r.deliver(order(orderName(e), n))
		}
		if n == revs/2 {
			p.kill()
			p = r.serve("intake,stream")
		}
	}
	seen, next := map[string]string{}, map[string]int{}
	for _, rec := range r.published(topic, entities*revs) {
		id, key := headerOf(rec, "ce_id"), headerOf(rec, "forebay-action-id")
		if first, again := seen[id]; again {
			if first != key {
				t.Errorf("%s has the keys %s and %s", id, first, key)
			}
			continue
		}
		seen[id] = key
		next[string(rec.Key)]++
		if want := fmt.Sprintf("%s-%d", rec.Key, next[string(rec.Key)]); id != want {
			t.Fatalf("%s came where %s was due", id, want)
		}
	}
	if len(seen) != entities*revs {
		t.Errorf("%d events", len(seen))
	}
}

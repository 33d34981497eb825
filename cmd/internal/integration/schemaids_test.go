package integration

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestSchemaIDsInAHeader: what `schemas push` registers has its id in the header of the records that fit, from the reload after it on; an intake
// takes deliveries all the same before that, while the registry is away, and when it begins without it.
func TestSchemaIDsInAHeader(t *testing.T) {
	t.Parallel()
	reg := srfake.New(srfake.WithAuth("Basic " + base64.StdEncoding.EncodeToString([]byte("forebay:of-the-registry"))))
	t.Cleanup(reg.Close)
	var away, strict atomic.Bool
	reg.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case away.Load():
			panic(http.ErrAbortHandler) // as one that dies in the middle
		case strict.Load() && strings.HasPrefix(r.URL.Path, "/compatibility/"):
			io.WriteString(w, `{"is_compatible": false, "messages": ["REQUIRED_ATTRIBUTE_ADDED at #/total"]}`)
			return true
		}
		return false
	})
	r := deploy(t, rig.Fake(t), options{})
	r.variables = append(r.variables, "REGISTRY_PASSWORD=of-the-registry")
	r.edit("topics: {part", `registry: {url: "`+reg.URL()+`", user: forebay, password: "${env:REGISTRY_PASSWORD}"}`+"\ntopics: {part")
	r.edit("          payload: snapshot\n", "          payload: snapshot\n        json_schema: {check: warn, own: \"${file:"+r.orderSchema("orders", `"id", "rev"`)+"}\"}\n")
	p := r.serve("intake")
	sent := 0
	deliver := func(entity string) string { // and its schema's id as its record has it
		t.Helper()
		sent++
		d := order(entity, 1)
		if entity == "misfit" {
			d.body = []byte(`{"type":"com.shop.order.changed","order":{"id":"misfit","rev":1,"total":"none"}}`)
		}
		r.deliver(d)
		all := r.records("events."+r.team+".orders", sent)
		for _, rec := range all {
			if headerOf(rec, "ce_id") == d.id {
				if string(rec.Value) != string(d.body) {
					t.Errorf("the value of %s is %q", entity, rec.Value)
				}
				return headerOf(rec, "__value_schema_id")
			}
		}
		t.Fatalf("%s is not in its topic", entity)
		return ""
	}
	if id := deliver("before"); id != "" {
		t.Errorf("an id that nobody has given: %x", id)
	}
	until(t, "the log says what the registry lacks", func() bool { return strings.Contains(p.output(), "lacks 1 of 1 schemas: `forebay schemas push`") })

	pushed := r.push(t, "--dry-run")
	if len(pushed) != 1 || pushed[0].Action != "new" || pushed[0].ID != 0 || reg.SubjectExists(pushed[0].Subject) {
		t.Errorf("%+v", pushed)
	}
	if pushed = r.push(t); len(pushed) != 1 || pushed[0].Action != "new" || pushed[0].ID == 0 || len(pushed[0].GUID) != 36 {
		t.Fatalf("%+v", pushed)
	}
	r.edit("topics: {part", "# reload\ntopics: {part")
	until(t, "the intake knows the id", func() bool { return strings.Contains(p.output(), "their events have __value_schema_id") })
	id := deliver("after")
	if len(id) != 17 || id[0] != 1 {
		t.Fatalf("the header is %x", id)
	}
	client, err := sr.NewClient(sr.URLs(reg.URL()), sr.BasicAuth("forebay", "of-the-registry"))
	if err != nil {
		t.Fatal(err)
	}
	if has, err := client.SchemaByGUID(t.Context(), pushed[0].GUID); err != nil || strings.ReplaceAll(pushed[0].GUID, "-", "") != hex.EncodeToString([]byte(id[1:])) || !strings.Contains(has.Schema.Schema, "https://example.com/order/1") {
		t.Errorf("%s is not what the registry has under %s: %v %v", hex.EncodeToString([]byte(id[1:])), pushed[0].GUID, has, err)
	}
	if id := deliver("misfit"); id != "" {
		t.Errorf("what does not fit has an id: %x", id)
	}

	strict.Store(true)
	text, err := os.ReadFile(r.config)
	if err != nil {
		t.Fatal(err)
	}
	stricter := filepath.Join(r.dir, "stricter.yaml") // which the intake does not read
	if err := os.WriteFile(stricter, []byte(strings.Replace(string(text), "orders.schema.json", filepath.Base(r.orderSchema("stricter", `"id", "rev", "total"`)), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := r.try("127.0.0.1:0", "schemas", "push", "-c", stricter); err == nil || !containsAll(string(out)+err.Error(), "exit status 5", "REQUIRED_ATTRIBUTE_ADDED", "total became required", "0 registered") {
		t.Errorf("%s %v", out, err)
	}
	away.Store(true)
	if out, err := r.try("127.0.0.1:0", "schemas", "push", "-c", r.config); err == nil || !containsAll(err.Error(), "does not answer", "nothing was registered") || strings.Contains(err.Error(), "of-the-registry") {
		t.Errorf("%s %v", out, err)
	}
	if again := deliver("away"); again != id {
		t.Errorf("away, the header is %x, and was %x", again, id)
	}
	p.stop()
	p = r.serve("intake")
	if id := deliver("begun-away"); id != "" {
		t.Errorf("the header is %x", id)
	}
	until(t, "the log says that the registry is away", func() bool { return containsAll(p.output(), "records go without __value_schema_id", "does not answer") })
}

// orderSchema writes a schema of orders that has these required, and returns where it is.
func (r *deployment) orderSchema(name, required string) string {
	r.t.Helper()
	file := filepath.Join(r.dir, name+".schema.json")
	text := `{"$id": "https://example.com/order/1", "type": "object", "required": ["order"], "properties": {"order": {"type": "object", "required": [` + required + `],
  "properties": {"id": {"type": "string"}, "rev": {"type": "integer"}, "total": {"type": "integer"}}}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return file
}

// records reads a topic until it has n records.
func (r *deployment) records(topic string, n int) (all []*kgo.Record) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.broker.Bootstrap(), ",")...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), 90*time.Second)
	defer cancel()
	for len(all) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			r.t.Fatalf("%s has %d records, want %d", topic, len(all), n)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

// pushedSchema is an item of `schemas push -o json`.
type pushedSchema struct {
	Subject, Action, GUID string
	ID                    int
}

func (r *deployment) push(t *testing.T, args ...string) []pushedSchema {
	t.Helper()
	var page struct{ Items []pushedSchema }
	if err := json.Unmarshal(r.command(append([]string{"schemas", "push", "-c", r.config, "-o", "json"}, args...)...), &page); err != nil {
		t.Fatal(err)
	}
	return page.Items
}

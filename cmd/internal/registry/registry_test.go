package registry

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

// strict is a registry in memory that asks for a password and, unlike the library's, refuses what is not compatible with the latest version,
// when it is asked and when it is given it.
func strict(t *testing.T) (*srfake.Registry, config.Registry) {
	t.Helper()
	reg := srfake.New(srfake.WithAuth("Basic " + base64.StdEncoding.EncodeToString([]byte("forebay:s3cret"))))
	t.Cleanup(reg.Close)
	reg.Intercept(func(w http.ResponseWriter, r *http.Request) bool { return refuses(reg, w, r) })
	return reg, config.Registry{URL: reg.URL(), User: "forebay", Password: schemas.NewSecret("s3cret")}
}

func refuses(reg *srfake.Registry, w http.ResponseWriter, r *http.Request) bool {
	path, _ := strings.CutPrefix(r.URL.Path, "/compatibility")
	parts := strings.Split(path, "/") // /subjects/S/versions[/latest]
	if r.Method != http.MethodPost || len(parts) < 4 || parts[1] != "subjects" || parts[3] != "versions" {
		return false
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var asked sr.Schema
	after, err := jsonschema.Schema{}, json.Unmarshal(body, &asked)
	if s, e := jsonschema.Parse([]byte(asked.Schema)); e == nil {
		after = *s
	} else {
		err = e
	}
	var latest sr.SubjectSchema
	for v := 1; ; v++ {
		s, ok := reg.GetSchema(parts[2], v)
		if !ok {
			break
		}
		latest, latest.Version = s, v
	}
	if err != nil || latest.Version == 0 {
		return false
	}
	before, err := jsonschema.Parse([]byte(latest.Schema.Schema))
	if err != nil {
		return false
	}
	for _, change := range jsonschema.Compare(before, &after) {
		if change.Effect == jsonschema.Widens {
			continue
		}
		w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
		if path == r.URL.Path {
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(sr.ResponseError{ErrorCode: 409, Message: "Schema being registered is incompatible with an earlier schema"})
		} else {
			_ = json.NewEncoder(w).Encode(sr.CheckCompatibilityResult{Messages: []string{change.Words}})
		}
		return true
	}
	return false
}

// wanted is a schema of the subject orders-value with more keys.
func wanted(t *testing.T, more string) Wanted {
	t.Helper()
	s, err := jsonschema.Parse([]byte(`{"$id": "https://example.com/order/1", "type": "object"` + more + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return Wanted{Source: "/acme/orders", Subject: "orders-value", Schema: s}
}

func client(t *testing.T, c config.Registry) *Client {
	t.Helper()
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// What is new is registered, what is there stays, what the registry does not take is refused with everything beside it; a plan says the same
// and registers nothing.
func TestPush(t *testing.T) {
	t.Parallel()
	reg, at := strict(t)
	c := client(t, at)
	other := Wanted{Source: "/acme/github", Subject: jsonschema.All()[0].Name(), Schema: jsonschema.All()[0]}
	again := other
	again.Source = "/acme/hub"
	first := wanted(t, `, "required": ["id"]`)
	check := func(what string, items []Item, err error, want ...string) {
		t.Helper()
		var got []string
		for _, i := range items {
			got = append(got, strings.TrimSpace(strings.Join([]string{i.Subject, i.Action, i.Why}, " ")))
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("%s: %v %s", what, err, d)
		}
	}
	items, err := c.Plan(t.Context(), []Wanted{first, other, again})
	check("plan", items, err, "orders-value new", other.Subject+" new")
	if d := cmp.Diff([]string{"acme/github", "acme/hub"}, items[1].Sources); d != "" {
		t.Error(d)
	}
	if reg.SubjectExists("orders-value") {
		t.Error("a plan has registered something")
	}
	items, err = c.Push(t.Context(), []Wanted{first, other, again})
	check("push", items, err, "orders-value new", other.Subject+" new")
	if items[0].ID == 0 || items[0].Version != 1 || len(items[0].GUID) != 36 || items[0].ID == items[1].ID {
		t.Errorf("%+v", items)
	}
	items, err = c.Push(t.Context(), []Wanted{first, other})
	check("again", items, err, "orders-value unchanged", other.Subject+" unchanged")

	items, err = c.Push(t.Context(), []Wanted{wanted(t, ``), other})
	check("wider", items, err, "orders-value changed", other.Subject+" unchanged")
	if items[0].Version != 2 || len(items[0].Changes) != 1 || !strings.Contains(items[0].Changes[0], "id") {
		t.Errorf("%+v", items[0])
	}
	narrower, anonymous := wanted(t, `, "required": ["total"]`), wanted(t, ``)
	if narrower.Schema, err = jsonschema.Parse([]byte(strings.Replace(string(narrower.Schema.Text()), "order/1", "order/2", 1))); err != nil {
		t.Fatal(err)
	}
	if anonymous.Schema, err = jsonschema.Parse([]byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	third := jsonschema.All()[1]
	items, err = c.Push(t.Context(), []Wanted{{Source: "/acme/github", Subject: third.Name(), Schema: third}, narrower, anonymous})
	if err != nil || len(items) != 3 || items[1].Action != Refused || !strings.Contains(items[1].Why, "not compatible with version 2") || !strings.Contains(items[1].Why, "total") || items[2].Action != Refused || !strings.Contains(items[2].Why, "$id") {
		t.Errorf("%+v %v", items, err)
	}
	if reg.SubjectExists(third.Name()) {
		t.Error("something was registered beside what is refused")
	}
}

// A schema that the registry refuses only when it is given it, since its subject changed after the question, is refused and no more.
func TestPushLosesARace(t *testing.T) {
	t.Parallel()
	reg, at := strict(t)
	var raced atomic.Bool
	reg.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/versions") && raced.CompareAndSwap(false, true) {
			if _, _, err := reg.RegisterSchema("orders-value", sr.Schema{Schema: `{"type": "object"}`, Type: sr.TypeJSON}); err != nil {
				t.Error(err)
			}
		}
		return raced.Load() && refuses(reg, w, r)
	})
	items, err := client(t, at).Push(t.Context(), []Wanted{wanted(t, `, "required": ["id"]`)})
	if err != nil || !raced.Load() || items[0].Action != Refused || items[0].ID != 0 || !strings.Contains(items[0].Why, "incompatible") {
		t.Errorf("%+v %v", items, err)
	}
}

// The errors say who does not answer or refuses, and what to do; none has the password.
func TestRefusals(t *testing.T) {
	t.Parallel()
	_, at := strict(t)
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(broken.Close)
	for name, tt := range map[string]struct {
		change func(*config.Registry)
		kind   schemas.Kind
		says   string
	}{
		"away":            {func(c *config.Registry) { c.URL = "http://127.0.0.1:1" }, schemas.Unavailable, "does not answer"},
		"out of order":    {func(c *config.Registry) { c.URL = broken.URL }, schemas.Unavailable, "answers 502"},
		"no registry":     {func(c *config.Registry) { c.URL = page.URL }, schemas.Permanent, "no schema registry"},
		"another user":    {func(c *config.Registry) { c.User = "jo" }, schemas.Unauthenticated, "registry.password"},
		"nobody":          {func(c *config.Registry) { c.User = "" }, schemas.Unauthenticated, "refuses this user"},
		"encrypted there": {func(c *config.Registry) { c.URL = strings.Replace(c.URL, "http:", "https:", 1) }, schemas.Unavailable, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := at
			tt.change(&at)
			items, err := client(t, at).Push(t.Context(), []Wanted{wanted(t, "")})
			if items != nil || schemas.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), at.URL) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v %v", items, err)
			}
		})
	}
}

// A certificate that the named authority has signed is trusted, and no other.
func TestRegistryByTLS(t *testing.T) {
	t.Parallel()
	reg, at := strict(t)
	behind, err := url.Parse(reg.URL())
	if err != nil {
		t.Fatal(err)
	}
	secure := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(behind))
	t.Cleanup(secure.Close)
	at.URL = secure.URL
	if _, err := client(t, at).Plan(t.Context(), []Wanted{wanted(t, "")}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority is trusted: %v", err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	at.TLS = &config.KafkaTLS{Enabled: true, CAFile: file}
	if items, err := client(t, at).Plan(t.Context(), []Wanted{wanted(t, "")}); err != nil || items[0].Action != Added {
		t.Errorf("%v %v", items, err)
	}
	at.TLS = &config.KafkaTLS{Enabled: true, CAFile: file + "x"}
	if _, err := New(at); err == nil || !strings.Contains(err.Error(), "registry.tls.ca_file") {
		t.Error(err)
	}
}

// The header is as Confluent's deserializers read it: a byte that says which form, and the GUID's 16 bytes or the number's four.
func TestHeader(t *testing.T) {
	t.Parallel()
	for want, id := range map[string]ID{
		"01" + "3f2504e04f8911d39a0c0305e82c3301": {Number: 7, GUID: "3f2504e0-4f89-11d3-9a0c-0305e82c3301"},
		"0000000007": {Number: 7}, "00ffffffff": {Number: 1<<32 - 1, GUID: "no guid"},
	} {
		if got := hex.EncodeToString(id.Header()); got != want {
			t.Errorf("%+v is %s, want %s", id, got, want)
		}
	}
}

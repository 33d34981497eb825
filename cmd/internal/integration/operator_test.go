package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/cmd/internal/samples"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// moreSources are a source for each preset, named like it, beside those of the deployment.
func moreSources() (sources, names string) {
	var list []string
	for _, info := range provider.Presets() {
		if info.Name == "github" || info.Name == "generic" || info.Name == "sns" { // a file has no key of Amazon's to sign with
			continue
		}
		source := fmt.Sprintf("      %[1]s: {preset: %[1]s, secrets: [%q]", info.Name, verify.ExampleSecret(info.Scheme).Reveal())
		if (provider.Config{Preset: info.Name}).SignsURL() {
			source += fmt.Sprintf(", public_url: \"https://hooks.example.com/%s\"", info.Name)
		}
		list, names = append(list, source+"}"), names+", "+info.Name
	}
	return strings.Join(list, "\n"), names
}

// whole reports whether a delivery of a preset is one event whose body is the delivery's: a list has an event for each element, a form
// is unpacked, and a time of signing in the body is written anew.
func whole(t *testing.T, s samples.Sample) bool {
	t.Helper()
	info, _ := provider.Lookup(s.Provider)
	source, err := provider.Compile(provider.Config{Team: "t", Name: "s", Preset: s.Provider, Secrets: []schemas.Secret{verify.ExampleSecret(info.Scheme)}})
	if err != nil {
		t.Fatal(err)
	}
	r := &verify.Request{Method: "POST", URL: "https://hooks.example.com/x", Header: http.Header{}, Body: s.Body}
	own := source.Accepted(r) // which does not say the event's id
	if err := source.Sign(r, time.Now()); err != nil {
		t.Fatal(err)
	}
	return s.Provider != "sns" && own == nil && bytes.Equal(r.Body, s.Body) && !source.Several() && s.Headers["Content-Type"] == "application/json"
}

// TestSendAndLook is an operator's way with the command line: every preset takes a delivery that send has signed, and
// the inbox has it, byte for byte.
func TestSendAndLook(t *testing.T) {
	t.Parallel()
	sources, names := moreSources()
	r := deploy(t, rig.Fake(t), options{sources: sources, all: names})
	p := r.serve("intake,stream")
	file := filepath.Join(r.dir, "standard.json")
	plain := []byte("{\"type\": \"invoice.paid\",\n \"data\": {\"n\": 1e3, \"s\": \"\\u00e9\"}}\n")
	if err := os.WriteFile(file, plain, 0o600); err != nil {
		t.Fatal(err)
	}
	sent := map[string][]byte{} // by "source/id"
	send := func(source string, body []byte, args ...string) {
		t.Helper()
		var page struct {
			Items []struct {
				Status int
				ID     string
			}
		}
		out, err := r.try(p.operator, append([]string{"send", r.team + "/" + source, "-c", r.config, "--url", p.intake, "-o", "json"}, args...)...)
		if err == nil {
			err = json.Unmarshal(out, &page)
		}
		if err != nil || len(page.Items) != 1 || page.Items[0].Status != 202 || page.Items[0].ID == "" {
			t.Fatalf("send %s %v: %s %v", source, args, out, err)
		}
		sent[source+"/"+page.Items[0].ID] = body
	}
	providers := map[string]bool{}
	for _, name := range samples.Names() {
		s, err := samples.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if !providers[s.Provider] && whole(t, s) {
			providers[s.Provider] = true
			send(s.Provider, s.Body, "--sample", name)
		}
	}
	send("standard-webhooks", plain, "--file", file)
	if want := len(providers) + 1; len(sent) != want {
		t.Fatalf("%d deliveries have an id of their own, want %d", len(sent), want)
	}
	r.agent.waitActed(t, len(sent), time.Minute)
	waitItems(t, r, p, len(sent), "--status", "done")
	for id, body := range sent {
		name := r.team + "/triage/" + id
		raw, err := r.try(p.operator, "inbox", "raw", name)
		if err != nil || !bytes.Equal(raw, body) {
			t.Errorf("inbox raw %s: %d bytes, want the %d that were sent (%v)", name, len(raw), len(body), err)
		}
	}
	if _, err := r.try(p.operator, "inbox", "get", r.team+"/triage/github/nobody"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("inbox get of an event that is not there: %v", err)
	}
	out, err := r.try(p.operator, "inbox", "list", "-o", "id", "--source", "stripe", "--team", r.team)
	if err != nil || strings.Count(string(out), r.team+"/triage/stripe/evt_") != 1 {
		t.Errorf("inbox list -o id: %s %v", out, err)
	}
}

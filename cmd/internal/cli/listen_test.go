package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/schemas"
	httpsink "github.com/forebay-io/forebay/sinks/http"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// TestListenHearsADestination: the sink of a destination calls it, with its secret, again, with another secret and without one.
func TestListenHearsADestination(t *testing.T) {
	t.Parallel()
	secretOf := func(fill string) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32)))
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secretOf("a")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	talk, errs := io.Pipe()
	code := make(chan int, 1)
	go func() {
		defer errs.Close()
		code <- Main(t.Context(), []string{"listen", "--address", "127.0.0.1:0", "--status", "202", "--secret-file", file, "--count", "4", "-o", "jsonl"}, Options{Stdout: &out, Stderr: errs})
	}()
	said := bufio.NewReader(talk)
	line, err := said.ReadString('\n')
	address, _, listens := strings.Cut(strings.TrimPrefix(line, "listening on http://"), ",")
	if err != nil || !listens || !strings.HasSuffix(line, "with allow_networks: [127.0.0.1/32] makes it a destination\n") {
		t.Fatalf("%q, %v", line, err)
	}
	go io.Copy(io.Discard, said)
	for n, secret := range []string{secretOf("a"), secretOf("a"), secretOf("b"), ""} {
		s, err := httpsink.New(httpsink.Config{URL: "http://" + address + "/run", Secret: schemas.NewSecret(secret), Common: spec.Common{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: time.Minute},
			Headers: map[string]schemas.Secret{"Authorization": schemas.NewSecret("Bearer s3cr3t")}})
		if err != nil {
			t.Fatal(err)
		}
		e := &schemas.Event{ID: "e-1", Source: "/acme/orders", Type: "com.x", Entity: "o/7", Time: time.Now(), Data: []byte("{}\x1b"), DataContentType: "application/json",
			Version: schemas.Version{Kind: schemas.Sequence, Value: 3}, Payload: schemas.Delta}
		_, err = s.Do(t.Context(), sink.Action{ID: schemas.NewActionID("acme.triage", 0, e.Source, e.ID, "run"), Name: "run", Subscription: "acme.triage", Destination: "acme/agent", Attempt: 1, Event: e})
		if taken := err == nil; taken != (n < 2) {
			t.Errorf("call %d: %v", n, err)
		}
		_ = s.Close(t.Context())
	}
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	var got []string
	for dec := json.NewDecoder(&out); dec.More(); {
		var h heard
		if err := dec.Decode(&h); err != nil {
			t.Fatal(err)
		}
		signature, _, _ := strings.Cut(h.Signature, ":")
		got = append(got, fmt.Sprintf("%d %s %t %s %s %s %s %s %q", h.Answered, signature, h.Again, h.ActionID[:4], h.EventID, h.Type, h.Entity, h.Header().Get("Authorization"), h.Content()))
	}
	const rest = ` act_ e-1 com.x o/7 <redacted> "{}\x1b"`
	want := []string{"202 ok false" + rest, "202 ok true" + rest, "401 mismatch true" + rest, "401 none true" + rest}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("heard\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestListenIsOfThisMachine: it answers to nobody else, and with a status that there is.
func TestListenIsOfThisMachine(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--address", "0.0.0.0:0"}, {"--address", "192.0.2.1:8000"}, {"--address", ":8000"}, {"--address", "127.0.0.1:0", "--status", "99"}, {"--address", "127.0.0.1:0", "--status", "600"}, {"--address", ":8000", "--anyone"}, {"--address", "127.0.0.1:0", "acme/github"}, {"--address", "127.0.0.1:0", "--since", "1h"}} {
		var out, errs bytes.Buffer
		if code := Main(t.Context(), append([]string{"listen"}, args...), Options{Stdout: &out, Stderr: &errs}); code != exitUsage {
			t.Errorf("%v: exit code %d %s", args, code, errs.String())
		}
	}
	if h := withoutSecrets(http.Header{"Forebay-Action-Token": {"t"}, "X-Key": {"k"}, "Ce-Id": {"e"}}); h.Get("Forebay-Action-Token")+h.Get("X-Key")+h.Get("Ce-Id") != redactedValue+redactedValue+"e" {
		t.Errorf("%v", h)
	}
}

// TestListenAsDeployed: with the words of compose's agent and of DEPLOY.md's it serves; the port alone is another one here.
func TestListenAsDeployed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../deploy/compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct{ Command []string }
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../deploy/docs/DEPLOY.md")
	if err != nil {
		t.Fatal(err)
	}
	run := regexp.MustCompile(`kubectl .* run agent .* -- (listen .*)`).FindSubmatch(page)
	if run == nil {
		t.Fatal("DEPLOY.md runs no agent")
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("whsec_"+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("a"), 32))), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, words := range map[string][]string{"compose.yaml": compose.Services["agent"].Command, "DEPLOY.md": strings.Fields(string(run[1]))} {
		words = strings.Fields(strings.NewReplacer(":8000", ":0", "/run/secrets/agent", file).Replace(strings.Join(words, " ")))
		ctx, interrupt := context.WithCancel(t.Context())
		talk, errs := io.Pipe()
		code := make(chan int, 1)
		go func() {
			defer errs.Close()
			code <- Main(ctx, words, Options{Stdout: io.Discard, Stderr: errs})
		}()
		said := bufio.NewReader(talk)
		line, _ := said.ReadString('\n')
		go io.Copy(io.Discard, said)
		interrupt()
		if c := <-code; c != exitInterrupt || !(strings.HasPrefix(line, "listening on http://[::]:") || strings.HasPrefix(line, "listening on http://0.0.0.0:")) {
			t.Errorf("%s: %q ends with %d: %s", name, words, c, line)
		}
	}
}

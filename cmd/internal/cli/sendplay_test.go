package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// TestSendPlaysABadProvider: what the flags ask for is what a source that verifies gets.
func TestSendPlaysABadProvider(t *testing.T) {
	t.Parallel()
	const secret = "a secret of 32 characters, or so"
	for _, c := range []struct {
		args  string
		want  []string // the entities that were accepted, sorted
		code  int
		stats string // status codes
	}{
		{"--repeat 3", []string{"1", "1", "1"}, 0, "202"},
		{"--repeat 3 --edit /order/id={n}", []string{"1", "2", "3"}, 0, "202"},
		{"--repeat 2 --edit /order/id={n} --duplicate --shuffle --rate 1000", []string{"1", "1", "2", "2"}, 0, "202"},
		{"--edit /order/id=a/b --edit /new/deep=[1]", []string{"a%2Fb"}, 0, "202"},
		{"--forge --repeat 2", nil, 0, "401"},
		{"--stale 10m --repeat 2", nil, 0, "401"},
		{"--stale 1m", []string{"1"}, 0, "202"},
		{"--edit order=7", nil, exitUsage, ""},
		{"--edit /order/id/deeper=7", nil, exitUsage, ""},
	} {
		source, err := provider.Compile(provider.Config{Team: "acme", Name: "orders", Preset: "generic", Secrets: []schemas.Secret{schemas.NewSecret(secret)},
			Verify: &verify.Params{SignatureHeader: "X-Signature", TimestampHeader: "X-Time", Signed: "{timestamp}.{body}"},
			Event:  &provider.EventConfig{ID: "sha256:body", Type: "/type", Entity: []string{"/order/id"}}})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var got []string
		statuses := map[int]bool{}
		intake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			request := &verify.Request{Method: r.Method, Header: r.Header, Body: body}
			status := http.StatusAccepted
			mu.Lock()
			defer mu.Unlock()
			if source.Verifier.Verify(request, time.Now()) != nil {
				status = http.StatusUnauthorized
			} else if e, err := source.Event(request, time.Now()); err != nil {
				t.Errorf("%s: %v", c.args, err)
			} else {
				got = append(got, string(e.Entity))
			}
			statuses[status] = true
			w.WriteHeader(status)
		}))
		dir := t.TempDir()
		file, body := filepath.Join(dir, "forebay.yaml"), filepath.Join(dir, "body.json")
		config := fmt.Sprintf("version: 1\nkafka: {brokers: [\"127.0.0.1:1\"]}\npostgres: {url: \"postgres://127.0.0.1:1/x\"}\nlisten: {intake: %q}\nteams:\n  acme:\n    sources:\n      orders:\n        preset: generic\n"+
			"        secrets: [%q]\n        verify: {signature_header: X-Signature, timestamp_header: X-Time, signed: \"{timestamp}.{body}\"}\n        event: {id: \"sha256:body\", type: /type, entity: [/order/id]}\n", intake.Listener.Addr(), secret)
		for path, text := range map[string]string{file: config, body: `{"type":"order.paid","order":{"id":1},"big":12345678901234567890}`} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs bytes.Buffer
		code := Main(t.Context(), append([]string{"send", "acme/orders", "--file", body, "-c", file}, strings.Fields(c.args)...), Options{Stdout: &out, Stderr: &errs})
		intake.Close()
		slices.Sort(got)
		status := strings.Trim(fmt.Sprint(statuses), "map[]:true")
		if code != c.code || !slices.Equal(got, c.want) || status != c.stats {
			t.Errorf("%s: exit %d, want %d; %q, want %q; status %s, want %s\n%s", c.args, code, c.code, got, c.want, status, c.stats, errs.String())
		}
	}
}

// TestSendSignsJustBefore: each delivery is signed as of when it is sent, however long those before it took, and what is sent again is signed anew,
// unless the time is in its body: that stays the same to the byte.
func TestSendSignsJustBefore(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"each another": "0s 0s 10m0s 10m0s 20m0s 20m0s", "a retry": "0s 0s 10m0s 10m0s 20m0s 20m0s", "in the body": "0s 0s 0s 0s 0s 0s"} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			flags := playFlags{Repeat: 3, Duplicate: true, Edit: []string{"/id=7"}, Stale: time.Minute}
			if name == "each another" {
				flags.Edit[0] = "/id={n}"
			}
			all, err := flags.play(&verify.Request{Header: http.Header{}, Body: []byte(`{}`)}, func(r *verify.Request, at time.Time) error {
				text := at.Add(time.Minute).Sub(began).String()
				if r.Header.Set("X-Time", text); name == "in the body" {
					r.Body = []byte(text)
				}
				return nil
			})
			var times []string
			for i, d := range all {
				if err == nil {
					err = d.sign()
				}
				times = append(times, d.Header.Get("X-Time"))
				if i%2 == 1 {
					time.Sleep(10 * time.Minute)
				}
			}
			if got := strings.Join(times, " "); err != nil || got != want {
				t.Errorf("%s: they are signed at %s, want %s; %v", name, got, want, err)
			}
		})
	}
	posts := 0
	intake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		posts++
		w.WriteHeader(http.StatusAccepted)
	}))
	defer intake.Close()
	var all []numbered
	for n := range 3 {
		all = append(all, numbered{n + 1, &verify.Request{Method: http.MethodPost, URL: intake.URL, Header: http.Header{}}, func() error {
			if posts != n {
				t.Errorf("the delivery behind %d is signed after %d posts", n, posts)
			}
			return nil
		}})
	}
	if err := new(sendCmd).post(&env{ctx: t.Context(), Options: Options{Stdout: io.Discard, Stderr: io.Discard}}, all, "", nil, nil); err != nil || posts != 3 {
		t.Errorf("%d posts, %v", posts, err)
	}
}

// TestSendThatIsCutOff: an interrupt asks nothing, and what was sent is shown.
func TestSendThatIsCutOff(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	posts := 0
	intake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if posts++; posts == 2 {
			cancel()
			<-r.Context().Done()
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer intake.Close()
	r := &verify.Request{Method: http.MethodPost, URL: intake.URL, Header: http.Header{}}
	one := numbered{1, r, func() error { return nil }}
	var out bytes.Buffer
	err := new(sendCmd).post(&env{ctx: ctx, Options: Options{Stdout: &out, Stderr: io.Discard}}, []numbered{one, one, one}, "", nil, nil)
	if x, ok := errors.AsType[*exitError](err); !ok || x.code != exitInterrupt || x.err != nil || strings.Contains(err.Error(), "?") || !strings.Contains(out.String(), "202") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestSendTooOld: of what is refused because its time is too far back, as that of a retry whose body has it, the secret is not blamed.
func TestSendTooOld(t *testing.T) {
	t.Parallel()
	intake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer intake.Close()
	source, err := provider.Compile(provider.Config{Team: "acme", Name: "linear", Preset: "linear", Secrets: []schemas.Secret{schemas.NewSecret("a secret of 32 characters, or so")}})
	if err != nil {
		t.Fatal(err)
	}
	r := &verify.Request{Method: http.MethodPost, URL: intake.URL, Header: http.Header{}, Body: []byte(`{"webhookTimestamp":1}`)}
	var asked []string
	one := numbered{1, r, func() error { return source.Sign(r, time.Now()) }}
	err = new(sendCmd).post(&env{ctx: t.Context(), Options: Options{Stdout: io.Discard, Stderr: io.Discard}}, []numbered{one}, "", nil, func(r *verify.Request, at time.Time) string {
		asked = append(asked, tooOld(source.Verifier, r, at), tooOld(source.Verifier, r, at.Add(30*24*time.Hour)))
		return "why"
	})
	if err == nil || len(asked) != 2 || asked[0] != "" || !strings.Contains(asked[1], "signed too long ago") {
		t.Errorf("%v, %q", err, asked)
	}
}

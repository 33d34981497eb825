package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	sinkapi "github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/stream/sink"
)

const (
	reconcileSecret = "a secret of 32 characters, or so"
	reconcileToken  = "github_pat_which_nobody_may_see"
)

// reconciledIntake is an intake that verifies: events by id and body hash, in the order in which they came.
type reconciledIntake struct {
	*httptest.Server
	source *provider.Source
	mu     sync.Mutex
	events []string
	status int // that everything is answered with; 0: 202 and 401

	at      string                                      // listen.intake of the file
	brokers string                                      // of the file
	log     func(*schemas.Event)                        // takes what was accepted; nil: nobody does
	answers func(w http.ResponseWriter, id string) bool // in its place, where it returns true; nil: never
}

func newReconciledIntake(t *testing.T, preset string) *reconciledIntake {
	t.Helper()
	source, err := provider.Compile(provider.Config{Team: "acme", Name: "hooks", Preset: preset, Secrets: []schemas.Secret{schemas.NewSecret(reconcileSecret)}})
	if err != nil {
		t.Fatal(err)
	}
	i := &reconciledIntake{source: source, brokers: "127.0.0.1:1"}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request := &verify.Request{Method: r.Method, Header: r.Header, Body: body}
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.status != 0 {
			w.WriteHeader(i.status)
			return
		}
		if source.Verifier.Verify(request, time.Now()) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		e, err := source.Event(request, time.Now())
		if err != nil {
			t.Error(err)
			return
		}
		if i.answers != nil && i.answers(w, e.ID) {
			return
		}
		i.events = append(i.events, e.ID+" "+fmt.Sprintf("%x", e.Hash))
		if i.log != nil {
			i.log(e)
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"id":%q}`, e.ID)
	}))
	i.at = i.Listener.Addr().String()
	t.Cleanup(i.Close)
	return i
}

// run runs the command on an API, and holds it to that nobody sees the token.
func (i *reconciledIntake) run(t *testing.T, preset, api, args string) (code int, items []missed, errs string) {
	t.Helper()
	dir := t.TempDir()
	yaml := fmt.Sprintf("version: 1\nkafka: {brokers: [%q]}\npostgres: {url: \"postgres://127.0.0.1:1/x\"}\nlisten: {intake: %q}\nteams: {acme: {sources: {hooks: {preset: %s, secrets: [%q]}}}}\n",
		i.brokers, i.at, preset, reconcileSecret)
	file, token := filepath.Join(dir, "forebay.yaml"), filepath.Join(dir, "token")
	for path, text := range map[string]string{file: yaml, token: reconcileToken + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, talk bytes.Buffer
	code = Main(t.Context(), append([]string{"sources", "reconcile", "acme/hooks", "-c", file, "--token-file", token, "--api-url", api, "-o", "jsonl"}, strings.Fields(args)...), Options{Stdout: &out, Stderr: &talk})
	if strings.Contains(out.String()+talk.String(), reconcileToken) {
		t.Errorf("the token is shown:\n%s%s", out.String(), talk.String())
	}
	for line := range strings.Lines(out.String()) {
		var m missed
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		items = append(items, m)
	}
	return code, items, talk.String()
}

func results(items []missed) (list []string) {
	for _, m := range items {
		list = append(list, m.ID+" "+m.Result)
	}
	return list
}

// fakeGitHub has a log of attempts, pages of two that overlap by one, and delivers again what it is asked for.
type fakeGitHub struct {
	*httptest.Server
	t       *testing.T
	intake  *reconciledIntake
	prefix  string
	mu      sync.Mutex
	log     []githubAttempt // as it is listed
	limited int             // requests that are answered with a limit first
	asked   []string        // attempts that were asked for
	token   string
	reads   bool // the token may read and no more, which GitHub answers 404
}

func newFakeGitHub(t *testing.T, intake *reconciledIntake, prefix string, log ...githubAttempt) *fakeGitHub {
	f := &fakeGitHub{t: t, intake: intake, prefix: prefix, log: log, token: reconcileToken}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeGitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := r.Header.Get("Authorization"); got != "Bearer "+f.token {
		f.t.Errorf("%s: authorization %q", r.URL, got)
	}
	if f.limited > 0 {
		if f.limited--; f.limited%2 == 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Unix(), 10))
		w.WriteHeader(http.StatusForbidden)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, f.prefix+"/deliveries")
	switch {
	case !ok, f.reads && r.Method == http.MethodPost:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"message":"Not Found for %s"}`, r.Header.Get("Authorization")) // which it should not say
	case r.Method == http.MethodGet && path == "":
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		page := f.log[from:min(from+2, len(f.log))]
		if from+2 < len(f.log) { // the token has no business at that host
			w.Header().Set("Link", fmt.Sprintf(`<https://other.example%s?per_page=2&cursor=%d>; rel="next", <https://other.example/>; rel="first"`, r.URL.Path, from+1))
		}
		_ = json.NewEncoder(w).Encode(page)
	case r.Method == http.MethodPost:
		f.again(w, strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/attempts"))
	}
}

// again makes another attempt, which the log shows.
func (f *fakeGitHub) again(w http.ResponseWriter, id string) {
	f.asked = append(f.asked, id)
	at := slices.IndexFunc(f.log, func(a githubAttempt) bool { return strconv.FormatInt(a.ID, 10) == id })
	if at < 0 || f.log[at].GUID == "too-old" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"message":"it is too old"}`)
		return
	}
	a := f.log[at]
	a.ID, a.DeliveredAt = int64(1000+len(f.asked)), time.Now()
	r := &verify.Request{Method: http.MethodPost, URL: f.intake.URL, Header: http.Header{"X-Github-Event": {a.Event}, "X-Github-Delivery": {a.GUID}, "Content-Type": {"application/json"}},
		Body: fmt.Appendf(nil, `{"action":"opened","issue":{"number":1,"title":%q,"updated_at":"2026-01-01T00:00:00Z"},"repository":{"id":7}}`, a.GUID)}
	if err := f.intake.source.Sign(r, time.Now()); err != nil {
		f.t.Error(err)
	}
	answer, err := delivery.Post(f.t.Context(), r, true)
	if err != nil {
		f.t.Error(err)
	}
	a.StatusCode = answer.Status
	f.log = append([]githubAttempt{a}, f.log...)
	w.WriteHeader(http.StatusAccepted)
}

// TestReconcileGitHub: what has failed at GitHub is asked for once, the oldest first, whatever its log is like; what has come meanwhile and
// what is too old is not.
func TestReconcileGitHub(t *testing.T) {
	t.Parallel()
	ago := func(id int64, guid string, status int, d time.Duration) githubAttempt {
		return githubAttempt{ID: id, GUID: guid, StatusCode: status, Status: "said", DeliveredAt: time.Now().Add(-d).UTC(), Event: "issues", Action: "opened"}
	}
	intake := newReconciledIntake(t, "github")
	f := newFakeGitHub(t, intake, "/repos/acme/shop/hooks/12",
		ago(90, "came-later", 200, 1*time.Minute), ago(70, "twice", 503, 30*time.Minute), ago(80, "newest", 502, 10*time.Minute), // in no order
		ago(40, "came-later", 500, 3*time.Hour), ago(60, "twice", 502, time.Hour), ago(61, "fine", 202, time.Hour), ago(30, "oldest", 0, 5*time.Hour), ago(10, "before", 500, 48*time.Hour), ago(9, "before", 500, 49*time.Hour))
	f.limited = 2
	code, items, errs := intake.run(t, "github", f.URL, "--hook acme/shop/12 --dry-run")
	if diff := cmp.Diff([]string{"oldest planned", "twice planned", "newest planned"}, results(items)); diff != "" || code != exitOK || len(f.asked) > 0 {
		t.Fatalf("dry run: exit %d, asked for %q, %s\n%s", code, f.asked, diff, errs)
	}
	if strings.Count(errs, "waiting 1s") != 2 {
		t.Errorf("two limits were not obeyed, or not told:\n%s", errs)
	}
	if items[1].Attempts != 2 || items[1].Failed != "503 said" || items[1].Type != "issues.opened" {
		t.Errorf("%+v", items[1])
	}
	if code, items, errs = intake.run(t, "github", f.URL, "--hook acme/shop/12"); code != exitOK || !slices.Equal(results(items), []string{"oldest asked", "twice asked", "newest asked"}) || len(intake.events) != 3 {
		t.Fatalf("exit %d, %q, %d events\n%s", code, results(items), len(intake.events), errs)
	}
	if diff := cmp.Diff([]string{"30", "70", "80"}, f.asked); diff != "" {
		t.Error(diff)
	}
	// The log shows one late, and one that is too old to be sent again; what was brought is not brought twice.
	f.log = append(f.log, ago(20, "late", 500, 6*time.Hour), ago(21, "too-old", 500, 7*time.Hour))
	f.log = slices.DeleteFunc(f.log, func(a githubAttempt) bool { return a.GUID == "before" })
	code, items, errs = intake.run(t, "github", f.URL, "--hook acme/shop/12")
	if diff := cmp.Diff([]string{"too-old refused", "late asked"}, results(items)); diff != "" || code != exitFailed || !strings.Contains(items[0].Answer, "it is too old") {
		t.Errorf("exit %d, %+v, %s\n%s", code, items, diff, errs)
	}
	if code, items, errs = intake.run(t, "github", f.URL, "--hook acme/shop/12 --since 6h30m"); code != exitOK || len(items) > 0 || len(intake.events) != 4 {
		t.Errorf("exit %d, %+v, %d events\n%s", code, items, len(intake.events), errs)
	}
	for hook, want := range map[string]int{"acme/other/12": exitNotFound, "acme/shop": exitUsage, "acme/shop/x": exitUsage, "": exitUsage} {
		if code, _, errs := intake.run(t, "github", f.URL, "--hook="+hook); code != want {
			t.Errorf("%q: exit %d, want %d\n%s", hook, code, want, errs)
		}
	}
	for _, url := range []string{"http://ghe.example/api/v3", "http://192.0.2.1", "ftp://127.0.0.1", "ghe.example"} {
		if code, _, errs := intake.run(t, "github", url, "--hook app"); code != exitUsage || !strings.Contains(errs, "must be https") {
			t.Errorf("%s: exit %d\n%s", url, code, errs)
		}
	}
	if code, _, errs := intake.run(t, "linear", f.URL, ""); code != exitUsage || !strings.Contains(errs, "preset linear") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	for hook, prefix := range map[string]string{"app": "/api/v3/app/hook", "orgs/acme/5": "/api/v3/orgs/acme/hooks/5"} { // at GitHub Enterprise
		f := newFakeGitHub(t, intake, prefix, ago(1, "of "+hook, 500, time.Minute))
		if code, _, errs := intake.run(t, "github", f.URL+"/api/v3", "--hook "+hook); code != exitOK || !slices.Equal(f.asked, []string{"1"}) {
			t.Errorf("%s: exit %d, asked for %q\n%s", hook, code, f.asked, errs)
		}
	}
}

// TestReconcileIsBounded: a long log is read by hand as far as --since goes. The process that asks again and again reads so far and no further, and tells
// what reads the rest.
func TestReconcileIsBounded(t *testing.T) {
	t.Parallel()
	const each = 4 * time.Minute
	pages := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if r.URL.Query().Get("per_page") != "100" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		pages++
		w.Header().Set("Link", fmt.Sprintf(`<https://api.github.com/?cursor=v1_%d>; rel="next"`, pages))
		_ = json.NewEncoder(w).Encode([]githubAttempt{{ID: int64(pages), GUID: "one", StatusCode: 500, DeliveredAt: time.Now().Add(-time.Duration(pages) * each)}})
	}))
	t.Cleanup(api.Close)
	intake := newReconciledIntake(t, "github")
	code, items, errs := intake.run(t, "github", api.URL, "--hook app")
	if want := int(24*time.Hour/each) + 1; code != exitOK || pages < want-1 || pages > want || !slices.Equal(results(items), []string{"one asked"}) {
		t.Errorf("exit %d, %d pages of %d, %q\n%s", code, pages, want, results(items), errs)
	}
	cfg, err := config.Load(config.Options{Path: "forebay.yaml", Roles: []config.Role{config.RoleIntake}, Run: true, Data: fmt.Appendf(nil,
		"version: 1\nkafka: {brokers: [%q]}\nteams: {acme: {sources: {hooks: {preset: github, secrets: [%q], reconcile: {every: 10m, since: 7d, token: %q, hook: app, api_url: %q}}}}}\n",
		intake.brokers, reconcileSecret, reconcileToken, api.URL)})
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	pages = 0
	newReconciler(t.Context(), &env{log: slog.New(slog.NewTextHandler(&lines, nil))}, "forebay.yaml", nil).
		ask(cfg, names.Name{Team: "acme", Name: "hooks"}, cfg.Teams["acme"].Sources["hooks"].Reconcile)
	if run := fmt.Sprintf(`run="forebay sources reconcile acme/hooks -c forebay.yaml --since 168h0m0s --token-file FILE --hook app --api-url %s"`, api.URL); pages != maxLogPages || !strings.Contains(lines.String(), "more=true") || !strings.Contains(lines.String(), run) {
		t.Errorf("%d pages, want %s\n%s", pages, run, lines.String())
	}
}

// TestReconcileWaitsForTheIntake: what an intake takes later is posted again when it says so, and what it never takes does not keep back the others.
func TestReconcileWaitsForTheIntake(t *testing.T) {
	t.Parallel()
	const events = 50
	intake := newReconciledIntake(t, "stripe")
	intake.brokers, _, _, _ = newOrderTopic(t)
	var list []string
	for n := range events {
		list = append(list, fmt.Sprintf(`{"id":"evt_%d","object":"event","created":%d,"data":{"object":{"id":"in_1","object":"invoice"}},"pending_webhooks":1,"type":"invoice.paid"}`, n, time.Now().Unix()-int64(n)))
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"object":"list","data":[%s],"has_more":false,"enabled_events":["*"]}`, strings.Join(list, ","))
	}))
	t.Cleanup(api.Close)
	posts, status, wait := 0, http.StatusTooManyRequests, "1"
	intake.answers = func(w http.ResponseWriter, id string) bool {
		posts++
		switch {
		case id == "evt_30":
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return true
		case posts == 21:
			w.Header().Set("Retry-After", wait)
			w.WriteHeader(status)
			return true
		}
		return false
	}
	for _, status = range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		posts, intake.events = 0, nil
		code, items, errs := intake.run(t, "stripe", api.URL, "")
		if code != exitFailed || len(items) != events || len(intake.events) != events-1 || posts != events+1 || strings.Count(errs, "waiting 1s") != 1 || !strings.Contains(errs, "1 of 50 cannot be had again") {
			t.Errorf("%d: exit %d, %d of %d came of %d posts\n%s", status, code, len(intake.events), len(items), posts, errs)
		}
		for _, m := range items {
			if m.ID == "evt_30" && (m.Result != delivery.Refused || !strings.HasPrefix(m.Answer, "413, ")) || m.ID != "evt_30" && m.Result != delivery.Event {
				t.Errorf("%+v", m)
			}
		}
	}
	cfg, err := config.Load(config.Options{Path: "forebay.yaml", Roles: []config.Role{config.RoleIntake}, Run: true, Data: fmt.Appendf(nil,
		"version: 1\nkafka: {brokers: [%q]}\nlisten: {intake: %q}\nteams: {acme: {sources: {hooks: {preset: stripe, secrets: [%q], reconcile: {every: 10m, token: %q, hook: we_1, api_url: %q}}}}}\n",
		intake.brokers, intake.Listener.Addr(), reconcileSecret, reconcileToken, api.URL)})
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	posts, intake.events = 21, nil // none is kept waiting
	newReconciler(t.Context(), &env{log: slog.New(slog.NewTextHandler(&lines, nil))}, "forebay.yaml", nil).
		ask(cfg, names.Name{Team: "acme", Name: "hooks"}, cfg.Teams["acme"].Sources["hooks"].Reconcile)
	if len(intake.events) != events-1 || !strings.Contains(lines.String(), "missed=50 refused=1 left=0") ||
		!strings.Contains(lines.String(), `run="forebay sources reconcile acme/hooks -c forebay.yaml --since 24h0m0s --token-file FILE --hook we_1 --api-url `) {
		t.Errorf("%d events\n%s", len(intake.events), lines.String())
	}
	posts, wait = 0, "7201"
	if code, items, errs := intake.run(t, "stripe", api.URL, ""); code != exitFailed || len(items) != events || items[18].Result != delivery.Event || items[20].Result != delivery.Refused || items[21].Result != missedLeft {
		t.Errorf("a wait of two hours: exit %d, %q\n%s", code, results(items), errs)
	}
	if code, _, errs := intake.run(t, "stripe", api.URL, "--since 169h"); code != exitUsage || !strings.Contains(errs, "--since is 7d at most") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

// TestReconcileStripe: events that Stripe could not deliver come to the intake signed, the oldest first, with the bytes that Stripe sends; those that
// wait in quarantine do not.
func TestReconcileStripe(t *testing.T) {
	t.Parallel()
	intake := newReconciledIntake(t, "stripe")
	now := time.Now()
	brokers, _, aside, _ := newOrderTopic(t)
	intake.brokers = brokers
	event := func(id, typ string, ago time.Duration, pending int) string {
		return fmt.Sprintf("{\n  \"id\": %q,\n  \"object\": \"event\",\n  \"created\": %d,\n  \"data\": {\n    \"object\": {\n      \"id\": \"in_1\",\n      \"object\": \"invoice\",\n      \"lines\": [],\n      \"metadata\": {}\n    }\n  },\n  \"pending_webhooks\": %d,\n  \"type\": %q\n}",
			id, now.Add(-ago).Unix(), pending, typ)
	}
	list := []string{event("evt_4", "invoice.paid", time.Minute, 1), event("evt_5", "charge.failed", time.Minute, 1), event("evt_3", "invoice.paid", time.Minute, 1),
		event("evt_1", "invoice.created", 2*time.Hour, 1), event("evt_2", "invoice.updated", time.Hour, 1), event("evt_0", "invoice.paid", 48*time.Hour, 1)}
	kept := []string{event("evt_a", "invoice.paid", time.Minute, 1), event("evt_b", "invoice.paid", time.Minute, 1), event("evt_c", "invoice.paid", time.Minute, 1)}
	for _, body := range kept { // the first page has them alone
		aside(&ingest.Delivery{Team: "acme", Source: "hooks", Kind: ingest.KindUnusable, Reason: "schema", Received: now, Body: []byte(body)})
	}
	aside(&ingest.Delivery{Team: "acme", Source: "hooks", Kind: ingest.KindRefused, Reason: "signature", Received: now, Body: []byte(list[0])})
	list = append(kept, list...)
	stuck := false
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/webhook_endpoints/we_1" {
			fmt.Fprint(w, `{"id":"we_1","enabled_events":["invoice.paid","invoice.created","invoice.updated"]}`)
			return
		}
		q := r.URL.Query()
		if r.URL.Path != "/v1/events" || r.Method != http.MethodGet || q.Get("delivery_success") != "false" || q.Get("created[gte]") == "" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		from := 0
		if after := q.Get("starting_after"); after != "" && !stuck {
			from = 1 + slices.IndexFunc(list, func(e string) bool { return strings.Contains(e, `"`+after+`"`) })
		}
		from = max(from-1, 0) // the last one of the page before once more
		page := list[from:min(from+3, len(list))]
		fmt.Fprintf(w, `{"object":"list","data":[%s],"url":"/v1/events","has_more":%t}`, strings.ReplaceAll(strings.Join(page, ","), "\n", "\n    "), from+3 < len(list))
	}))
	t.Cleanup(api.Close)
	intake.status = http.StatusServiceUnavailable
	code, items, errs := intake.run(t, "stripe", api.URL, "--hook we_1")
	if diff := cmp.Diff([]string{"evt_1 refused", "evt_2 left", "evt_3 left", "evt_4 left"}, results(items)); diff != "" || code != exitFailed || !strings.Contains(errs, "503") {
		t.Errorf("exit %d, %s\n%s", code, diff, errs)
	}
	intake.status = 0
	if code, items, errs = intake.run(t, "stripe", api.URL, "--hook we_1"); code != exitOK || len(items) != 4 || items[0].Result != delivery.Event {
		t.Errorf("exit %d, %+v\n%s", code, items, errs)
	}
	var want []string
	for _, e := range []string{event("evt_1", "invoice.created", 2*time.Hour, 0), event("evt_2", "invoice.updated", time.Hour, 0), event("evt_3", "invoice.paid", time.Minute, 0), event("evt_4", "invoice.paid", time.Minute, 0)} {
		read, err := intake.source.Event(&verify.Request{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(e)}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, read.ID+" "+fmt.Sprintf("%x", read.Hash))
	}
	if diff := cmp.Diff(want, intake.events); diff != "" {
		t.Errorf("what has come already would be no duplicate: %s", diff)
	}
	if code, items, errs = intake.run(t, "stripe", api.URL, "--dry-run"); code != exitOK || len(items) != 5 || !strings.Contains(errs, "all endpoints") {
		t.Errorf("exit %d, %q\n%s", code, results(items), errs)
	}
	intake.brokers = "127.0.0.1:1"
	if code, items, errs = intake.run(t, "stripe", api.URL, "--dry-run"); code != exitOK || len(items) != 8 || !strings.Contains(errs, "quarantine cannot be read") {
		t.Errorf("exit %d, %q\n%s", code, results(items), errs)
	}
	cfg, err := config.Load(config.Options{Path: "forebay.yaml", Roles: []config.Role{config.RoleIntake}, Run: true, Data: fmt.Appendf(nil,
		"version: 1\nkafka: {brokers: [%q]}\nlisten: {intake: %q}\nteams: {acme: {sources: {hooks: {preset: stripe, secrets: [%q], reconcile: {every: 10m, token: %q, api_url: %q}}}}}\n",
		brokers, intake.Listener.Addr(), reconcileSecret, reconcileToken, api.URL)})
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	every := newReconciler(t.Context(), &env{log: slog.New(slog.NewTextHandler(&lines, nil))}, "forebay.yaml", nil)
	for range 2 { // Stripe goes on listing what it has not delivered itself
		every.ask(cfg, names.Name{Team: "acme", Name: "hooks"}, cfg.Teams["acme"].Sources["hooks"].Reconcile)
	}
	if len(intake.events) != 9 || strings.Count(lines.String(), "had again\" source=acme/hooks missed=5") != 1 || strings.Count(lines.String(), "msg=") != 1 {
		t.Errorf("%d events\n%s", len(intake.events), lines.String())
	}
	intake.brokers, stuck = brokers, true
	if code, _, errs = intake.run(t, "stripe", api.URL, ""); code != exitFailed || !strings.Contains(errs, "same page again") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

// TestReconcileWaits: for how long an answer has the caller wait.
func TestReconcileWaits(t *testing.T) {
	t.Parallel()
	now := time.Now()
	date := now.Add(-time.Hour) // of a clock that is behind
	reset := http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {strconv.FormatInt(date.Unix()+90, 10)}, "Date": {date.UTC().Format(http.TimeFormat)}}
	for name, c := range map[string]struct {
		answer sinkapi.Answer
		want   time.Duration
	}{
		"ok":            {sinkapi.Answer{Code: 200, Header: reset}, 0},
		"told":          {sinkapi.Answer{Code: 429, Outcome: sink.Outcome{RetryAfter: 7 * time.Second}}, 7 * time.Second},
		"not told":      {sinkapi.Answer{Code: 429}, time.Minute},
		"reset":         {sinkapi.Answer{Code: 403, Header: reset}, 91 * time.Second},
		"in words":      {sinkapi.Answer{Code: 403, Body: []byte("You have exceeded a secondary rate limit.")}, time.Minute},
		"not permitted": {sinkapi.Answer{Code: 403, Body: []byte("Resource not accessible")}, 0},
		"with a dot":    {sinkapi.Answer{Code: 429, Header: http.Header{"Retry-After": {"2.0"}}}, 2 * time.Second},
		"server":        {sinkapi.Answer{Code: 502}, 4 * time.Second},
	} {
		if got := waitFor(c.answer, 2, now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestReconcileThroughNoProxy: the intake that listens at all addresses is not asked for through the proxy of this process's environment.
func TestReconcileThroughNoProxy(t *testing.T) {
	t.Parallel()
	const inner = "FOREBAY_TEST_PROXIED"
	if os.Getenv(inner) == "" { // Go reads the environment once
		run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		run.Env = append(os.Environ(), inner+"=yes", "HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=")
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	intake := newReconciledIntake(t, "stripe")
	everywhere, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	second := &http.Server{Handler: intake.Config.Handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = second.Serve(everywhere) }()
	t.Cleanup(func() { _ = second.Close() })
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":[{"id":"evt_1","object":"event","created":%d,"data":{"object":{"id":"in_1","object":"invoice"}},"type":"invoice.paid"}],"has_more":false}`, time.Now().Unix())
	}))
	t.Cleanup(api.Close)
	intake.at = strings.Replace(everywhere.Addr().String(), "[::]", "0.0.0.0", 1)
	if code, _, errs := intake.run(t, "stripe", api.URL, ""); code != exitOK || len(intake.events) != 1 {
		t.Errorf("exit %d, %d events\n%s", code, len(intake.events), errs)
	}
	if code, _, errs := intake.run(t, "stripe", api.URL, "--url http://"+intake.at); code != exitFailed || !strings.Contains(errs, "proxyconnect") && !strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("an intake elsewhere is reached without the proxy that the environment names: exit %d\n%s", code, errs)
	}
}

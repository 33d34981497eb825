package console

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/guard"
)

const progressURL = "/console/dlq/progress?verb=replay&group=g1&asked=2&until=2026-11-23T09:00:00Z"

const deliveryURL = "/console/quarantine/acme/orders/1/7"

const subscriptionURL = "/console/subscriptions/acme/fulfil"

const destinationURL = "/console/destinations/acme/agent"

const sourceURL, replayURL, approvalURL = "/console/sources/acme/orders", "/console/replays/1", "/console/approvals/7"

const eventURL, entityURL, deadURL = "/console/event?id=acme/fulfil/orders/e-2", "/console/entity?of=acme/fulfil/orders&entity=o-1", "/console/dlq/replay?action=act_1"

// screens are all pages, by a URL that shows much of each.
var screens = []string{"/console/", "/console/inbox?entity=o-1&cursor=x", eventURL, entityURL, "/console/attention", "/console/dlq?group=g1&cursor=x", deadURL, "/console/dlq/replay?group=g1",
	"/console/dlq/discard?action=act_1", "/console/dlq/resolve?group=g1", progressURL,
	"/console/event/redrive?id=acme/fulfil/orders/e-5", "/console/gaps?cursor=x", "/console/quarantine", deliveryURL,
	"/console/subscriptions?team=", subscriptionURL + "/seek?to=end", subscriptionURL + "/accept?stop=7",
	"/console/destinations", destinationURL, "/console/destinations/pagers",
	"/console/sources", sourceURL, sourceURL + "/test", "/console/replays", replayURL, "/console/approvals?state=&cursor=x", approvalURL, "/console/schemas?type=com.github.issues", "/console/schemas/com.github.issues", "/console/audit?cursor=x", "/console/health", "/console/nothing"}

func TestOverview(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.checks = []api.Check{{Name: "topic events.acme.orders", Error: "is not there"}, {Name: "ledger", OK: true}}
	h := f.handler(t, nil)
	s := get(t, h, "/console/")
	s.says("h1", "Overview")
	s.says("li", "3 dead_letter")
	s.says("p", "Not known here: unread_partition, quarantined_delivery: the brokers are away")
	s.says("tr", "acme.fulfil", "ready", "2 running, 0 stopped, 1 unread, 1 being claimed", "30 records, 90s; not known of 1 partitions; waiting 1", "3")
	s.says("tr", "acme/orders", "/v1/in/acme/orders", "41", "2")
	s.says("tr", "acme/agent", "http", "open", "1/64", "9", "nothing gets through since")
	s.says("li", "topic events.acme.orders: is not there")
	if strings.Contains(text(s.root), "ledger:") {
		t.Error("a check that holds is listed as one that does not")
	}
	get(t, h, "/console/")
	if f.lags != 1 {
		t.Errorf("two looks have asked for the lag %d times", f.lags)
	}
	if s := get(t, h, "/"); s.status != http.StatusSeeOther || s.header.Get("Location") != "/console/" {
		t.Errorf("/ answers %d %q", s.status, s.header.Get("Location"))
	}
}

// TestOverviewWithoutALedger: what cannot be had is said in its place, and the rest is shown.
func TestOverviewWithoutALedger(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.err, f.lagErr = schemas.Errorf(schemas.Unavailable, "ask Postgres", "connection refused"), schemas.Errorf(schemas.Unavailable, "ask the brokers", "no answer")
	s := get(t, f.handler(t, nil), "/console/")
	if s.status != http.StatusOK {
		t.Errorf("the page fails as a whole: %d", s.status)
	}
	s.says("section", "Waits for an operator", "This part cannot be had: ask Postgres: connection refused")
	s.says("section", "Destinations", "This part cannot be had: ask Postgres: connection refused")
	s.says("tr", "acme.fulfil", "cannot be had: ask the brokers: no answer")
	s.says("tr", "acme/orders", "41")
	for _, path := range []string{"/console/inbox", eventURL, entityURL, "/console/attention", "/console/dlq", deadURL, "/console/gaps", subscriptionURL, subscriptionURL + "/seek?to=end", "/console/destinations", destinationURL, "/console/replays", replayURL, "/console/approvals", approvalURL} {
		s := get(t, f.handler(t, nil), path)
		if s.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, s.status)
		}
		s.says("p", "ask Postgres: connection refused")
	}
}

func TestProcessWithoutTheStreamRole(t *testing.T) {
	t.Parallel()
	h := newFake().handler(t, func(c *api.Config) {
		c.Inbox, c.Entities, c.DeadLetters, c.Destinations, c.Steering, c.Stops, c.Replays, c.Approvals = nil, nil, nil, nil, nil, nil, nil, nil
	})
	for _, path := range []string{"/console/inbox", eventURL, entityURL, "/console/dlq", deadURL, "/console/gaps", subscriptionURL, subscriptionURL + "/seek?to=end", "/console/destinations", destinationURL, "/console/replays", replayURL, "/console/approvals", approvalURL} {
		s := get(t, h, path)
		if s.status != http.StatusConflict {
			t.Errorf("%s: %d", path, s.status)
		}
		s.says("p", "this process has no stream role")
	}
	s := get(t, h, "/console/")
	if s.status != http.StatusOK || slices.ContainsFunc(s.all("h2"), func(n *html.Node) bool { return text(n) == "Destinations" }) {
		t.Errorf("%d: an intake shows destinations, which it does not know", s.status)
	}
	s.says("tr", "acme/orders", "41")
}

func TestInbox(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, "/console/inbox?team=acme&subscription=fulfil&source=orders&entity=o-1&type=order.*&status=done&decision=applied&delivery=d-1&since=2026-11-23T08:00:00Z&limit=3&cursor=abc")
	want := api.InboxFilter{Team: "acme", Subscription: "fulfil", Source: "orders", Entity: "o-1", Type: "order.*", Status: "done", Decision: "applied", Delivery: "d-1",
		Since: at.Add(-3600e9), Limit: 3, Cursor: "abc"}
	if diff := cmp.Diff(want, f.filter); diff != "" {
		t.Error(diff)
	}
	s.says("tr", "acme.fulfil", "orders", "o-1", "order.changed", "5", "buffered", "gap", "e-5")
	s.says("tr", "applied +2 again", "first", "done")
	older, err := url.Parse(s.link("Next page"))
	if err != nil || older.Query().Get("cursor") != "cursor==" || older.Query().Get("entity") != "o-1" || older.Query().Get("limit") != "3" {
		t.Errorf("the next page is %v, %v", older, err)
	}
	if newest := s.link("Newest"); strings.Contains(newest, "cursor") || !strings.Contains(newest, "entity=o-1") {
		t.Errorf("the first page is %s", newest)
	}
	if !slices.ContainsFunc(s.all("input"), func(n *html.Node) bool { return attr(n, "name") == "entity" && attr(n, "value") == "o-1" }) {
		t.Error("the form has lost the filter")
	}
	if got := s.link("e-5"); got != "/console/event?id=acme%2Ffulfil%2Forders%2Fe-5" {
		t.Errorf("the event's link is %s", got)
	}
	get(t, h, s.link("o-1")).says("h1", "Entity")
	for _, wrong := range []string{"since=yesterday", "limit=0", "limit=501", "desicion=stale"} {
		if s := get(t, h, "/console/inbox?"+wrong); s.status != http.StatusBadRequest {
			t.Errorf("%s: %d", wrong, s.status)
		}
	}
	f.err = schemas.Errorf(schemas.Invalid, "", `status "don" is not one of done`)
	s = get(t, h, "/console/inbox?status=don&team=acme")
	s.says("p", "is not one of done")
	if forms := s.all("form"); s.status != http.StatusBadRequest || len(forms) != 1 {
		t.Errorf("%d with %d forms: the filter cannot be mended where it is refused", s.status, len(forms))
	}
}

func TestEvent(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, eventURL)
	s.says("li", "received, verified with secret 1")
	s.says("p", "Next: an operator decides: `forebay dlq get act_1`")
	s.says("h3", "run to acme/agent: dead_letter")
	s.says("tr", "1", "invalid", "422", "12.5 ms", "422 Unprocessable Entity", "no such item")
	s.says("tr", "busy 503 –") // of which it is not kept when it began
	s.says("pre", `{"order": 1}`)
	s.says("tr", "ce_type", "order.changed")
	s.says("pre", "curl http://127.0.0.1:8000/ \\ -H 'ce-type: order.changed'", `--data-raw '{"order": 1}'`)
	s.says("pre", `"source": "acme/orders"`, `"Content-Type": "application/json"`, `"body": "{\"order\": 1}"`)
	s.says("code", "forebay send acme/orders -c forebay.yaml --delivery delivery.json")
	get(t, h, s.link("Look at this dead letter")).says("p", "act_1")
	if raw := s.link("Download, byte for byte"); raw != "/console/event/raw?id=acme%2Ffulfil%2Forders%2Fe-2" {
		t.Errorf("the body is downloaded from %s", raw)
	} else if d := get(t, h, raw); d.source != `{"order": 1}` || d.header.Get("Content-Disposition") != "attachment" || d.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%d %q %v", d.status, d.source, d.header)
	}
	for id, status := range map[string]int{"acme/fulfil/orders/none": http.StatusNotFound, "acme": http.StatusBadRequest, "": http.StatusBadRequest} {
		if s := get(t, h, "/console/event?id="+id); s.status != status {
			t.Errorf("id %q: %d, want %d", id, s.status, status)
		}
	}
	f.raw.Data = append(bytes.Repeat([]byte("ä"), shownText), "the end"...)
	s = get(t, h, eventURL)
	s.says("p", "131079 bytes", "the first 65536 are shown")
	if strings.Contains(s.source, "the end") {
		t.Error("all of a large body is shown")
	}
	f.raw.Data = bytes.Repeat([]byte("x"), 100<<20) // the largest that may be configured: as base64 it is more than is read of an answer
	get(t, h, eventURL).says("p", "104857600 bytes", "the first 65536 are shown")
	f.raw.Data = append([]byte{0xff, 0xfe, 0}, bytes.Repeat([]byte("x"), 10_000)...)
	s = get(t, h, eventURL)
	s.says("p", "no text: in hexadecimal; the first 4096 are shown")
	s.says("pre", "00000000 ff fe 00 78")
}

func TestEntity(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, entityURL)
	s.says("li", "at 2 (sequence), missing 3..4; events.acme.orders/1")
	s.says("tr", "5", "buffered", "skip", "e-5")
	s.says("tr", "1", "applied", "first", "done", "2", "e-1")
	s.says("tr", "run", "acme/agent", "dead_letter", "2", "e-2", "Replay or discard…")
	if link := s.link("Replay or discard…"); link != deadURL {
		t.Errorf("the dead letter is at %s", link)
	}
	if plan := get(t, h, s.link("Redrive…")); plan.status != http.StatusOK || len(f.redrives) != 0 {
		t.Errorf("what a redrive would do: %d, done %v", plan.status, f.redrives)
	} else {
		plan.says("p", "everything that waits on its version line runs")
	}
	var lanes []string
	for _, n := range s.all("text") {
		lanes = append(lanes, text(n))
	}
	for _, want := range []string{"5", "3..4 missing", "2", "1"} {
		i := slices.Index(lanes, want)
		if i < 0 {
			t.Fatalf("the drawing has %q, and not %q in its place", lanes, want)
		}
		lanes = lanes[i+1:] // the newest is on top, and the gap in its place
	}
	s.says("title", "3 events on 3 versions, 1 gaps")
	if n := s.says("title", "5: buffered (gap), buffered"); n != nil && attr(n.Parent, "class") != "mark d-buffered" {
		t.Errorf("its mark is %s", attr(n.Parent, "class"))
	}
	get(t, h, s.link("e-2")).says("h1", "Event")
	if s := get(t, h, "/console/entity?of=acme"); s.status != http.StatusBadRequest {
		t.Errorf("no entity: %d", s.status)
	}
}

func TestAttention(t *testing.T) {
	t.Parallel()
	h := newFake().handler(t, nil)
	s := get(t, h, "/console/attention?kind=dead_letter")
	s.says("h2", "dead_letter: 3")
	s.says("tr", "acme.fulfil orders o-1", "invalid", "forebay dlq replay act_1 --reason TEXT")
	s.says("p", "Not known here: unread_partition, quarantined_delivery: the brokers are away")
	get(t, h, s.link("acme.fulfil orders o-1")).says("p", "act_1")
	for _, tt := range []struct {
		item api.AttentionItem
		link string
	}{
		{api.AttentionItem{Kind: api.KindQuarantinedDelivery, ID: "quarantine.acme.orders/1@7", Team: "acme", Source: "orders"}, deliveryURL},
		{api.AttentionItem{Kind: api.KindPaused, ID: "acme/agent", Team: "acme"}, destinationURL},
		{api.AttentionItem{Kind: api.KindDown, ID: "acme/agent", Team: "acme"}, destinationURL},
		{api.AttentionItem{Kind: api.KindBudget, ID: "teams.acme.budget.runs /acme/orders o-1", Team: "acme", Source: "/acme/orders", Entity: "o-1"}, ""},
		{api.AttentionItem{Kind: api.KindPaused, ID: "pagers"}, "/console/destinations/pagers"},
		{api.AttentionItem{Kind: api.KindKeys, ID: "acme/orders", Team: "acme", Source: "orders"}, sourceURL},
		{api.AttentionItem{Kind: api.KindStopped, ID: "acme.fulfil", Team: "acme", Subscription: "fulfil", Topic: "events.acme.orders", Partition: new(int32(1))}, subscriptionURL},
	} {
		got := where(tt.item)
		if got.Link != tt.link {
			t.Errorf("%s leads to %s, want %s", tt.item.Kind, got.Link, tt.link)
		}
		if tt.item.Kind == api.KindBudget && got.Text != tt.item.ID {
			t.Errorf("a budget is called %s", got.Text)
		}
	}
	if s := get(t, h, "/console/attention?kind=dead"); s.status != http.StatusBadRequest {
		t.Errorf("a kind that there is not: %d", s.status)
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, "/console/dlq?group=g1")
	s.says("tr", "g1", "3", "invalid", "acme/agent", "order.changed")
	s.says("tr", "o-2", "flagged", "act_2")
	s.says("p", "This is not all: at most 1,000 groups")
	s = get(t, h, s.link("Replay group g1…"))
	s.says("p", "1 dead letter is replayed, 2 left out. 3 events or more wait behind, and go on in order.", "Nothing was done yet.")
	s.says("tr", "e-2", "planned", "it runs again")
	s.says("tr", "e-8", "left out", "it died three times or more")
	s.says("tr", "e-9", "left out", "its outcome is unknown")
	s.says("button", "Replay 1 dead letter")
	if len(f.replayed) > 0 {
		t.Fatalf("a look has replayed %v", f.replayed)
	}
	form := values(s)
	if s := post(t, h, "/console/dlq/replay", form); s.status != http.StatusBadRequest || len(f.replayed) > 0 {
		t.Errorf("without a reason: %d, replayed %v", s.status, f.replayed)
	}
	form.Set("reason", "the agent is mended")
	s = post(t, h, "/console/dlq/replay", form)
	s.says("p", "1 asked to run again, 0 left out")
	s.says("tr", "e-2", "done", "replayed")
	want := []api.DeadLetterRequest{{Reason: "the agent is mended", By: "console"}}
	if diff := cmp.Diff(want, f.asked); diff != "" || !slices.Equal(f.replayed, []string{"act_1"}) {
		t.Errorf("replayed %v: %s", f.replayed, diff)
	}

	f.replayed, f.asked, f.dead[0].DiedAt = nil, nil, at.Add(1) // it died again
	s = post(t, h, "/console/dlq/replay", form)
	s.says("tr", "e-2", "left out", "it died after this was planned")
	if len(f.replayed) > 0 {
		t.Errorf("the same form, sent again, has replayed %v once more", f.replayed)
	}
}

func TestReplayOfOne(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, "/console/dlq/replay?action=act_2")
	s.says("div", "Status", "flagged given up 3 times")
	form := values(s)
	form.Del("force") // as a browser does while it is not checked
	form.Set("reason", "looked at it")
	form.Set("by", "ada")
	post(t, h, "/console/dlq/replay", form).says("tr", "e-8", "done")
	if diff := cmp.Diff([]api.DeadLetterRequest{{Reason: "looked at it", By: "ada", Watch: true}}, f.asked); diff != "" {
		t.Error(diff)
	}
	f.overtaken = true
	form = values(get(t, h, "/console/dlq/replay?action=act_1"))
	form.Del("force")
	form.Set("reason", "the newest may wait")
	s = post(t, h, "/console/dlq/replay", form)
	s.says("p", "1 asked to run again, 1 of them overtaken, and not run")
	s.says("tr", "e-2", "stale", "it did not run")
	f.replayed = nil
	form.Set("force", "yes")
	post(t, h, "/console/dlq/replay", form).says("tr", "e-2", "done")

	s = get(t, h, "/console/dlq/replay?action=act_3") // its outcome is unknown: an operator looks at the destination first
	s.says("tr", "e-9", "left out", "its outcome is unknown")
	if len(s.all("form")) != 0 {
		t.Error("what is refused can be asked for")
	}
	for _, wrong := range []string{"", "?action=act_1&group=g1", "?actoin=act_1"} {
		if s := get(t, h, "/console/dlq/replay"+wrong); s.status != http.StatusBadRequest {
			t.Errorf("%q: %d", wrong, s.status)
		}
	}
}

// values are what the form of a page sends when nothing is typed.
func values(s *screen) url.Values {
	v := url.Values{}
	for _, n := range s.all("input") {
		v.Set(attr(n, "name"), attr(n, "value"))
	}
	return v
}

// TestPagesSitBehindTheListenersChecks: who must not ask the API must not ask for a page, nor send its form.
func TestPagesSitBehindTheListenersChecks(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	for name, tt := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"a page of another site":   {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"another origin":           {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
		"a name that is rebound":   {func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest},
		"a destination's own call": {func(r *http.Request) { r.Header.Set(guard.Outgoing, "1") }, http.StatusForbidden},
	} {
		form := url.Values{"action": {"act_1"}, "until": {"2026-11-23T09:00:00Z"}, "reason": {"mine"}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/console/dlq/replay", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		tt.change(r)
		if s := send(t, h, r); s.status != tt.status || len(f.replayed) > 0 {
			t.Errorf("%s: %d, replayed %v", name, s.status, f.replayed)
		}
	}
}

const (
	benign  = "benign"
	hostile = "</title></textarea></script><script>alert(1)</script><img src=x onerror=alert(2)>\" onmouseover=\"alert(3)' style='x {{.}} javascript:alert(4)\x01\x1b[2J\x7f\u0085\u202e\u2066\u200b\u2028\ufeff\xff\r\n--><svg/onload=alert(5)><style>*{}</style><a href=//evil.example>"
)

// TestHostileTextStaysText: with markup, script and characters that hide or turn text in every text that a page shows, it has the elements and
// the attributes that it has with plain words, all links lead to this listener, and nothing hides. (NUL is in no text: Postgres takes none.)
func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	plain, wild := filled(benign).handler(t, nil), filled(hostile).handler(t, nil)
	for _, path := range screens {
		if strings.HasPrefix(path, "/console/inbox") {
			path += "&type=act_1&status=act_1"
		}
		with := func(word string) string {
			word = strings.ToValidUTF8(word, "\ufffd") // ids and groups are
			return strings.NewReplacer("act_1", url.QueryEscape(word), "g1", url.QueryEscape(word)).Replace(path)
		}
		want, s := get(t, plain, with(benign)), get(t, wild, with(hostile))
		if s.status != want.status || s.status != http.StatusOK && s.status != http.StatusNotFound {
			t.Errorf("%s: %d and %d", path, want.status, s.status)
		}
		if diff := cmp.Diff(skeleton(want), skeleton(s)); diff != "" {
			t.Errorf("%s: what a sender has written is markup (-plain +hostile):\n%s", path, diff)
		}
		if path != "/console/nothing" && path != "/console/schemas/com.github.issues" && !strings.Contains(text(s.root), "<script>alert(1)</script>") {
			t.Errorf("%s does not show the text", path)
		}
		harmless(t, path, s)
	}
}

// skeleton is a page without its texts and the values of its attributes.
func skeleton(s *screen) (list []string) {
	for _, n := range s.all("") {
		names := []string{n.Data}
		for _, a := range n.Attr {
			names = append(names, a.Key)
		}
		list = append(list, strings.Join(names, " "))
	}
	return list
}

// harmless fails the test if a page has script or style of its own, a link that leads away, or a character that hides or turns text.
func harmless(t *testing.T, path string, s *screen) {
	t.Helper()
	for _, n := range s.all("") {
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				t.Errorf("%s: <%s> has %s", path, n.Data, a.Key)
			}
			if (a.Key == "href" || a.Key == "src" || a.Key == "action") && !strings.HasPrefix(a.Val, "/console/") && !strings.HasPrefix(a.Val, "/v1/") && a.Val != "#main" && a.Val != "data:," {
				t.Errorf("%s: <%s %s=%q> leads away", path, n.Data, a.Key, a.Val)
			}
		}
		if n.Data == "style" || n.Data == "script" && (n.FirstChild != nil || attr(n, "src") == "") {
			t.Errorf("%s: inline %s", path, n.Data)
		}
	}
	for n := range s.root.Descendants() {
		if n.Type == html.CommentNode {
			t.Errorf("%s: a comment %q", path, n.Data)
		}
	}
	for _, r := range s.source {
		if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			t.Errorf("%s: %U is not made visible", path, r)
			break
		}
	}
}

// TestPagesAreWellMade: each has the headers that keep others' script out, and what keyboards and screen readers need.
func TestPagesAreWellMade(t *testing.T) {
	t.Parallel()
	h := newFake().handler(t, nil)
	for _, path := range screens {
		s := get(t, h, path)
		if got := s.header.Get("Strict-Transport-Security"); got != "" {
			t.Errorf("%s, without TLS: %q", path, got)
		}
		if got := s.header.Get("Content-Security-Policy"); got != policy {
			t.Errorf("%s: policy %q", path, got)
		}
		if s.header.Get("Cache-Control") != "no-store" || s.header.Get("X-Content-Type-Options") != "nosniff" || s.header.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: headers %v", path, s.header)
		}
		if len(s.all("main")) != 1 || len(s.all("nav")) < 1 || len(s.all("h1")) != 1 || attr(s.all("html")[0], "lang") != "en" || s.link("Skip to content") != "#main" {
			t.Errorf("%s: no main, nav, h1, lang or skip link", path)
		}
		ids := map[string]bool{}
		for _, n := range s.all("") {
			if id := attr(n, "id"); id != "" && ids[id] {
				t.Errorf("%s: two elements are %s", path, id)
			} else if id != "" {
				ids[id] = true
			}
			if n.Data == "th" && attr(n, "scope") == "" {
				t.Errorf("%s: a th without scope: %s", path, text(n))
			}
			if (n.Data == "input" || n.Data == "select") && attr(n, "type") != "hidden" && n.Parent.Data != "label" {
				t.Errorf("%s: %s has no label", path, attr(n, "name"))
			}
		}
		for _, n := range s.all("") {
			if by := attr(n, "aria-labelledby"); by != "" && !ids[by] {
				t.Errorf("%s: labelled by %s, which is not there", path, by)
			}
		}
	}
	css := get(t, h, "/console/static/console.css")
	if css.status != http.StatusOK || !strings.HasPrefix(css.header.Get("Content-Type"), "text/css") {
		t.Errorf("the stylesheet: %d %s", css.status, css.header.Get("Content-Type"))
	}
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
)

// TestQuarantineRedrive: several are redriven in the order in which they came, whatever cannot be understood is told of.
func TestQuarantineRedrive(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		var req api.QuarantineRedrive
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.By == "" || req.Reason != "mended" && !req.DryRun {
			t.Errorf("%+v, %v", req, err)
		}
		if strings.Contains(r.URL.Path, "/7/") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"status":400,"detail":"it still cannot be understood","kind":%q}`, schemas.Invalid)
			return
		}
		json.NewEncoder(w).Encode(api.QuarantineRedriven{EventID: "e", State: api.StateDone, To: &api.PlaceItem{Topic: "events.acme.orders", Partition: 2, Offset: 9}})
	}))
	defer server.Close()
	run := func(args ...string) (code int, out, errs string) {
		var stdout, stderr bytes.Buffer
		asked = nil
		code = Main(t.Context(), append([]string{"quarantine", "redrive", "--url", server.URL}, args...), Options{Stdout: &stdout, Stderr: &stderr})
		return code, stdout.String(), stderr.String()
	}
	const topic = "quarantine.acme.orders/0@"
	code, out, errs := run(topic+"10", topic+"7", topic+"9", "--reason", "mended")
	if want := []string{"/v1/quarantine/acme/orders/0/7/redrive", "/v1/quarantine/acme/orders/0/9/redrive", "/v1/quarantine/acme/orders/0/10/redrive"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
	if code != exitFailed || strings.Count(out, "events.acme.orders/2@9") != 2 || !strings.Contains(errs, topic+"7: it still cannot be understood") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := run(topic + "9"); code != exitUsage || len(asked) != 0 {
		t.Errorf("without a reason: %d, %s", code, errs)
	}
	if code, _, _ := run(topic+"9", "--dry-run"); code != exitOK {
		t.Errorf("dry run: %d", code)
	}
	if code, _, errs := run(topic+"7", "--dry-run"); code != exitFailed || !strings.Contains(errs, "still cannot be understood") {
		t.Errorf("the only one: %d, %s", code, errs)
	}
	for _, id := range []string{"events.acme.orders/0@1", "quarantine.acme.orders/x@1"} {
		if code, _, errs := run(id, "--reason", "mended"); code != exitUsage || !strings.Contains(errs, "quarantine list -o id") || len(asked) != 0 {
			t.Errorf("%s: %d, %s, asked %q", id, code, errs, asked)
		}
	}
}

// TestDeliveryNamesItsEvent: what was redriven is found by its place, on whichever page of the quarantine it stands, where one subscription
// has the event. Everything else is refused with what to do. Subscriptions that do not read the source are not asked, nor pages on which the
// delivery cannot be.
func TestDeliveryNamesItsEvent(t *testing.T) {
	t.Parallel()
	item := func(offset int64, event string) api.QuarantineItem {
		return api.QuarantineItem{Team: "acme", Source: "orders", Topic: "quarantine.acme.orders", Offset: offset, Redriven: &api.QuarantineMark{EventID: event}}
	}
	waiting := item(5, "")
	waiting.Redriven = nil
	have := map[string]bool{"/v1/inbox/acme/fulfil/orders/one": true, "/v1/inbox/acme/fulfil/orders/both": true, "/v1/inbox/pay/bill/%2Facme%2Forders/both": true,
		"/v1/inbox/pay/bill/%2Facme%2Forders/shared": true}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := api.Page[api.QuarantineItem]{Items: []api.QuarantineItem{item(9, "one"), item(8, "both")}, Next: "c"}
		if r.URL.Query().Get("cursor") == "c" {
			page = api.Page[api.QuarantineItem]{Items: []api.QuarantineItem{item(7, "shared"), item(6, "nobody's"), waiting, item(4, ""), item(1, "")}, Next: "d"}
		}
		switch at := r.URL.EscapedPath(); {
		case r.URL.Query().Get("cursor") == "d", strings.Contains(at, "/other/"):
			t.Errorf("asked for %s", r.URL)
			w.WriteHeader(http.StatusTeapot)
		case at == "/v1/quarantine" && r.URL.Query().Get("source") == "orders":
			json.NewEncoder(w).Encode(page)
		case at == "/v1/subscriptions":
			json.NewEncoder(w).Encode(api.Page[api.SubscriptionItem]{Items: []api.SubscriptionItem{
				{Team: "acme", Subscription: "fulfil", Sources: []string{"github", "orders"}}, {Team: "acme", Subscription: "other", Sources: []string{"github", "pay/orders"}},
				{Team: "pay", Subscription: "bill", Sources: []string{"acme/orders"}}, {Team: "pay", Subscription: "other", Sources: []string{"orders"}}}})
		case have[at]:
			n, _ := names.ParseEvent(strings.TrimPrefix(at, "/v1/inbox/"))
			json.NewEncoder(w).Encode(api.InboxDetail{InboxItem: api.InboxItem{Team: n.Team, Subscription: n.Subscription, Source: n.Source, EventID: n.ID}})
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"status":404,"detail":"no such event","kind":%q}`, schemas.NotFound)
		}
	}))
	defer server.Close()
	run := func(args ...string) (code int, said string) {
		var out bytes.Buffer
		code = Main(t.Context(), append(args, "--url", server.URL), Options{Stdout: &out, Stderr: &out})
		return code, out.String()
	}
	for offset, want := range map[int]struct {
		code int
		said string
	}{
		9: {exitOK, "acme/fulfil/orders/one\n"},
		8: {exitUsage, "2 subscriptions have its event; give the id of one: acme/fulfil/orders/both, pay/bill/%2Facme%2Forders/both"},
		7: {exitOK, "pay/bill/%2Facme%2Forders/shared\n"},
		6: {exitNotFound, "it was redriven as event nobody's, which no subscription of the asked process has: none has decided it yet, or "},
		5: {exitUsage, "is a delivery in quarantine, and no event"},
		4: {exitUsage, "is a delivery in quarantine, and no event"}, // discarded
		3: {exitNotFound, "the quarantine has no such delivery"},
	} {
		if code, said := run("inbox", "get", fmt.Sprintf("quarantine.acme.orders/0@%d", offset), "-o", "id"); code != want.code || !strings.Contains(said, want.said) {
			t.Errorf("offset %d: exit code %d, %s", offset, code, said)
		}
	}
	for _, args := range [][]string{{"inbox", "raw"}, {"inbox", "redrive", "--reason", "x"}, {"dlq", "get"}, {"dlq", "replay", "--reason", "x"}} {
		code, said := run(append(args, "quarantine.acme.orders/0@5")...)
		if code != exitUsage || !strings.Contains(said, "quarantine.acme.orders/0@5 is a delivery ") || !strings.Contains(said, "`forebay quarantine ") {
			t.Errorf("forebay %s: exit code %d: %s", strings.Join(args, " "), code, said)
		}
	}
	for _, id := range []string{"acme/fulfil/orders/one", "act_1"} {
		if code, said := run("quarantine", "raw", id); code != exitUsage || !strings.Contains(said, "`forebay inbox raw "+id+"`") {
			t.Errorf("exit code %d, %s", code, said)
		}
	}
}

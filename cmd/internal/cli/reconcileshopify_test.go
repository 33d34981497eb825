package cli

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// fakeShop is a shop's Admin API: pages of two that overlap by one, in no order, behind a bucket that leaks.
type fakeShop struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	orders  []string // as they are listed
	limited int      // requests that are answered with a limit first
}

func newFakeShop(t *testing.T) *fakeShop {
	f := &fakeShop{t: t}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Header.Get("X-Shopify-Access-Token") != reconcileToken || r.Header.Get("Authorization") != "" {
		f.t.Errorf("%s: %v", r.URL, r.Header)
	}
	if f.limited > 0 {
		f.limited--
		w.Header().Set("Retry-After", "0.1")
		w.Header().Set("X-Shopify-Shop-Api-Call-Limit", "40/40")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	q := r.URL.Query()
	switch {
	case r.Method != http.MethodGet || r.URL.Path == "/admin/api/2026-07/products.json":
		fmt.Fprint(w, `{"products":[]}`)
		return
	case r.URL.Path != "/admin/api/2026-07/orders.json":
		f.t.Errorf("%s %s", r.Method, r.URL)
	case q.Has("page_info") == q.Has("updated_at_min"), !q.Has("page_info") && q.Get("status") != "any": // Shopify refuses a cursor beside filters
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	from, _ := strconv.Atoi(q.Get("page_info"))
	if from+2 < len(f.orders) {
		w.Header().Set("Link", fmt.Sprintf(`<https://other.example/admin/api/2026-07/orders.json?limit=2&page_info=%d>; rel="next"`, from+1))
	}
	fmt.Fprintf(w, `{"orders":[%s]}`, strings.Join(f.orders[from:min(from+2, len(f.orders))], ","))
}

// newOrderTopic is the topics of the source hooks; put puts an event there, and aside a delivery into quarantine.
func newOrderTopic(t *testing.T) (brokers string, put func(*schemas.Event), aside func(*ingest.Delivery), before func(topic string, e *schemas.Event)) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "events.acme.hooks", "quarantine.acme.hooks", "events.acme.hooks-before", "events.acmes.hooks"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	keeps, err := producer.New(producer.Config{Brokers: cluster.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keeps.Close(context.Background()) })
	before = func(topic string, e *schemas.Event) {
		if err := client.ProduceSync(t.Context(), record.Encode(topic, e)).FirstErr(); err != nil {
			t.Error(err)
		}
	}
	put = func(e *schemas.Event) { before("events.acme.hooks", e) }
	return cluster.ListenAddrs()[0], put, func(d *ingest.Delivery) {
		if err := keeps.Quarantine(t.Context(), time.Time{}, "quarantine.acme.hooks", d); err != nil {
			t.Error(err)
		}
	}, before
}

// TestReconcileShopify: orders of which no event of their version came are made ones, the oldest first, whatever the list is like; what
// came, also as another topic or a newer version or into quarantine, what Shopify may still repeat and what is too old is left.
func TestReconcileShopify(t *testing.T) {
	t.Parallel()
	const hook = "--hook acme.myshopify.com/2026-07/orders/updated,products/update"
	now := time.Now()
	order := func(id int64, ago time.Duration) string {
		return fmt.Sprintf(`{"id":%d,"admin_graphql_api_id":"gid://shopify/Order/%d","order_number":%d,"updated_at":%q}`, id, id, id, now.Add(-ago).Format(time.RFC3339))
	}
	intake, shop := newReconciledIntake(t, "shopify"), newFakeShop(t)
	brokers, put, aside, before := newOrderTopic(t)
	intake.brokers, intake.log = brokers, put
	arrived := func(topic, body string) {
		t.Helper()
		e, err := intake.source.Event(&verify.Request{Header: http.Header{"X-Shopify-Topic": {topic}, "X-Shopify-Shop-Domain": {"acme.myshopify.com"}, "X-Shopify-Event-Id": {"e1"}}, Body: []byte(body)}, now)
		if err != nil {
			t.Fatal(err)
		}
		intake.log(e)
	}
	const large = 820982911946154508 // above 2^53
	arrived("orders/updated", strings.Replace(order(2, 6*time.Hour), `"id"`, `"name":"written otherwise","id"`, 1))
	arrived("orders/paid", order(3, 7*time.Hour))
	arrived("orders/updated", order(4, 5*time.Hour))
	arrived("orders/updated", order(5, 9*time.Hour)) // an older version than the shop's
	intake.log = func(e *schemas.Event) { before("events.acme.hooks-before", e) }
	arrived("orders/updated", order(10, 5*time.Hour)) // by the topic that the source had before
	intake.log = func(e *schemas.Event) { before("events.acmes.hooks", e) }
	arrived("orders/updated", order(large, 5*time.Hour)) // to another team
	intake.log = put
	kept := ingest.Delivery{Team: "acme", Source: "hooks", Kind: ingest.KindUnusable, Reason: "schema", Method: "POST", Received: now,
		Headers: []schemas.Header{{Name: "x-shopify-topic", Value: "orders/updated"}, {Name: "x-shopify-shop-domain", Value: "acme.myshopify.com"}}}
	forged, older, same := kept, kept, kept
	forged.Kind, forged.Body = ingest.KindRefused, []byte(order(5, 8*time.Hour))
	older.Body, same.Body = []byte(order(5, 10*time.Hour)), []byte(order(9, 5*time.Hour))
	refused := kept // before the secret was mended: it waits for its redrive
	signed := &verify.Request{Method: "POST", Header: http.Header{"X-Shopify-Topic": {"orders/updated"}, "X-Shopify-Shop-Domain": {"acme.myshopify.com"}}, Body: []byte(order(11, 5*time.Hour))}
	if err := intake.source.Sign(signed, now); err != nil {
		t.Fatal(err)
	}
	refused.Kind, refused.Reason, refused.Body, refused.Headers = ingest.KindRefused, "mismatch", signed.Body, nil
	for name := range signed.Header {
		refused.Headers = append(refused.Headers, schemas.Header{Name: strings.ToLower(name), Value: signed.Header.Get(name)})
	}
	aside(&refused)
	aside(&forged)
	aside(&older)
	aside(&same)
	shop.orders = []string{order(1, time.Hour), order(large, 5*time.Hour), order(2, 6*time.Hour), order(3, 7*time.Hour), order(5, 8*time.Hour), order(4, 6*time.Hour), order(6, 30*time.Hour), order(9, 5*time.Hour), order(10, 5*time.Hour), order(11, 5*time.Hour)}
	shop.limited = 3
	key := func(n int64) string {
		return string(schemas.NewEntityKey("acme.myshopify.com", fmt.Sprintf("gid://shopify/Order/%d", n)))
	}
	code, items, errs := intake.run(t, "shopify", shop.URL, hook+" --dry-run")
	if len(items) != 2 || code != exitOK || len(intake.events) > 0 || !strings.Contains(errs, "1 that changed within 4h10m") || strings.Count(errs, "answered 429") != 3 {
		t.Fatalf("exit %d, %+v\n%s", code, items, errs)
	}
	if items[0].ID != key(5) || items[1].ID != key(large) {
		t.Errorf("%q, %q", items[0].ID, items[1].ID)
	}
	intake.status = http.StatusServiceUnavailable
	if code, items, errs = intake.run(t, "shopify", shop.URL, hook); code != exitFailed || len(items) != 2 || items[0].Result != "refused" || items[1].Result != "left" {
		t.Fatalf("exit %d, %+v\n%s", code, items, errs)
	}
	intake.status = 0
	var got []string
	intake.log = func(e *schemas.Event) {
		put(e)
		got = append(got, fmt.Sprintf("%s %s %s %s", e.Type, e.Entity, e.Payload, e.Data))
	}
	if code, items, errs = intake.run(t, "shopify", shop.URL, hook); code != exitOK || len(items) != 2 || items[0].Result != "event" {
		t.Fatalf("exit %d, %+v\n%s", code, items, errs)
	}
	want := []string{"com.shopify.orders.updated " + key(5) + " snapshot " + order(5, 8*time.Hour), "com.shopify.orders.updated " + key(large) + " snapshot " + order(large, 5*time.Hour)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	shop.orders = slices.Insert(shop.orders, 3, order(7, 10*time.Hour)) // it is shown late
	if code, items, errs = intake.run(t, "shopify", shop.URL, hook); code != exitOK || len(items) != 1 || len(got) != 3 {
		t.Fatalf("exit %d, %+v\n%s", code, items, errs)
	}
	if code, items, errs = intake.run(t, "shopify", shop.URL, hook); code != exitOK || len(items) != 0 {
		t.Fatalf("exit %d, %+v\n%s", code, items, errs)
	}
	shop.orders = append(shop.orders, order(8, 11*time.Hour)) // for the process that asks again and again, with the intake's own way to the brokers
	cfg, err := config.Load(config.Options{Path: "forebay.yaml", Roles: []config.Role{config.RoleIntake}, Run: true, Data: fmt.Appendf(nil,
		"version: 1\nkafka: {brokers: [%q]}\nlisten: {intake: %q}\nteams: {acme: {sources: {hooks: {preset: shopify, secrets: [%q], reconcile: {every: 10m, token: %q, hook: acme.myshopify.com/2026-07/orders/updated, api_url: %q}}}}}\n",
		intake.brokers, intake.Listener.Addr(), reconcileSecret, reconcileToken, shop.URL)})
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	every := newReconciler(t.Context(), &env{log: slog.New(slog.NewTextHandler(&lines, nil))}, "forebay.yaml", nil)
	for range 2 {
		every.ask(cfg, names.Name{Team: "acme", Name: "hooks"}, cfg.Teams["acme"].Sources["hooks"].Reconcile)
	}
	if len(got) != 4 || strings.Count(lines.String(), "had again\" source=acme/hooks missed=1") != 1 || strings.Count(lines.String(), "msg=") != 1 {
		t.Errorf("%d events\n%s", len(got), lines.String())
	}
	for _, args := range []string{"", "--hook=acme.myshopify.com/2026-07/orders/paid", "--hook=evil.example/2026-07/orders/updated", "--hook=a.myshopify.com.evil.example/2026-07/orders/updated", hook + " --since 4h"} {
		if code, _, errs := intake.run(t, "shopify", shop.URL, args); code != exitUsage {
			t.Errorf("%q: exit %d\n%s", args, code, errs)
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	ends, err := adm.ListEndOffsets(t.Context(), "quarantine.acme.hooks")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteRecords(t.Context(), ends.Offsets()); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := intake.run(t, "shopify", shop.URL, hook+" --since 2400h"); code != exitFailed || !strings.Contains(errs, "does not keep what came since") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

// TestReconcileShopifyLarge: a large order keeps back no other; one that is larger than the source takes is refused, alone.
func TestReconcileShopifyLarge(t *testing.T) {
	t.Parallel()
	intake, shop := newReconciledIntake(t, "shopify"), newFakeShop(t)
	intake.brokers, _, _, _ = newOrderTopic(t)
	for id, size := range []int{0, 600 << 10, 0, 6 << 20} {
		shop.orders = append(shop.orders, fmt.Sprintf(`{"id":%d,"admin_graphql_api_id":"gid://shopify/Order/%d","updated_at":%q,"note":%q}`,
			id, id, time.Now().Add(-time.Duration(5+id)*time.Hour).Format(time.RFC3339), strings.Repeat("x", size)))
	}
	code, items, errs := intake.run(t, "shopify", shop.URL, "--hook acme.myshopify.com/2026-07/orders/updated")
	if code != exitFailed || len(items) != 4 || len(intake.events) != 3 || items[0].Result != delivery.Refused || !strings.HasPrefix(items[0].Answer, "413, ") {
		t.Errorf("exit %d, %q, %d events\n%s", code, results(items), len(intake.events), errs)
	}
}

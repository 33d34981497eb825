package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// TestGaps: what waits is shown by entity, with what is missing and what follows, and an event of it is redriven once.
func TestGaps(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.items = f.items[:1]
	h := f.handler(t, nil)
	s := get(t, h, "/console/gaps?team=acme&entity=o-1&limit=500")
	if diff := cmp.Diff(api.InboxFilter{Team: "acme", Entity: "o-1", Decision: gate.Buffered, Limit: gapRows}, f.filters[0]); diff != "" {
		t.Error(diff)
	}
	if f.ofEntity.Entity != "o-1" || f.ofEntity.Since.Before(time.Now()) {
		t.Errorf("it asks for the events of the entity, which are not shown: %+v", f.ofEntity)
	}
	s.says("h2", "o-1 of orders, acme.fulfil")
	s.says("li", "at 2 (sequence), missing 3..4")
	s.says("tr", "5", "buffered gap", "until it comes, or an operator", "skip", "e-5")
	get(t, h, s.link("o-1")).says("h1", "Entity")
	if older := get(t, h, s.link("Next page")); f.filter.Cursor != "cursor==" || older.status != http.StatusOK {
		t.Errorf("the next page is of cursor %q", f.filter.Cursor)
	}
	get(t, h, s.link("show these")).says("p", "Other events wait for what is missing")
	get(t, h, "/console/gaps?waits=parked")
	if asked := f.filters[len(f.filters)-2].Decision; asked != gate.Parked {
		t.Errorf("asked for %s", asked)
	}
	f.othersErr = schemas.Errorf(schemas.Unavailable, "", "it takes too long")
	if s := get(t, h, "/console/gaps"); s.status != http.StatusOK || len(s.all("table")) != 1 {
		t.Errorf("what waits otherwise is not known: %d, %d tables", s.status, len(s.all("table")))
	}
	f.othersErr = nil
	if s := get(t, h, "/console/gaps?waits=dead"); s.status != http.StatusBadRequest {
		t.Errorf("no such wait: %d", s.status)
	}

	s = get(t, h, s.link("Redrive…"))
	s.says("p", "One event, release : everything that waits on its version line runs, across the gap. Nothing was done yet.")
	form := values(s)
	if s := post(t, h, "/console/event/redrive", form); s.status != http.StatusBadRequest || len(f.redrives) > 0 || len(s.all("form")) != 1 {
		t.Errorf("without a reason: %d, %d forms", s.status, len(s.all("form")))
	}
	form.Set("reason", "the filler will not come")
	post(t, h, "/console/event/redrive", form).says("p", "release done: released")
	if s := post(t, h, "/console/event/redrive", form); s.status != http.StatusConflict {
		t.Errorf("sent twice: %d", s.status)
	}
	if diff := cmp.Diff([]api.RedriveRequest{{Reason: "the filler will not come", By: "console"}}, f.redrives); diff != "" {
		t.Error(diff)
	}
}

// TestFirstMissing: an entity whose first version did not come has its gap drawn, though there is no version behind which it would be.
func TestFirstMissing(t *testing.T) {
	t.Parallel()
	waits := order("3", gate.Buffered, gate.ReasonGap, "buffered")
	d := &api.EntityDetail{Track: []api.InboxItem{waits}, Waiting: []api.WaitItem{{Clock: waits.VersionClock, Decision: "buffered"}}}
	drawn := tracks(d)
	if len(drawn) != 1 || drawn[0].Missing != 1 || len(drawn[0].Lanes) != 2 || drawn[0].Lanes[1].Text != "first missing" {
		t.Errorf("%+v", drawn)
	}
	d.Waiting[0].Decision = "held"
	if drawn = tracks(d); drawn[0].Missing != 0 || (entityPage{EntityDetail: d}).NoFirst() {
		t.Errorf("a held event waits for an operator: %+v", drawn)
	}
	held := gapEntity{Rows: []gapRow{{Then: "operator"}}}
	behind := gapEntity{Rows: []gapRow{{Then: "skip"}}}
	if held.NoFirst() || !behind.NoFirst() {
		t.Error("the page of gaps does not tell a held event from one that waits for the first")
	}
}

func TestRedriveOfAnEvent(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, "/console/event/redrive?id=acme/fulfil/orders/e-1")
	s.says("p", "it waits for nothing")
	if s.status != http.StatusConflict || len(s.all("form")) != 0 {
		t.Errorf("what is refused: %d, %d forms", s.status, len(s.all("form")))
	}
	f.detail.InboxItem = order("2", gate.Parked, gate.ReasonEqualHeld, "parked")
	s = get(t, h, eventURL)
	get(t, h, s.link("Redrive this event…")).says("h1", "Redrive an event")
	s = get(t, h, s.link("Discard this event…"))
	s.says("button", "Discard")
	form := values(s)
	form.Set("reason", "a test")
	form.Set("by", "ada")
	post(t, h, "/console/event/redrive", form)
	if diff := cmp.Diff([]api.RedriveRequest{{Reason: "a test", By: "ada", Discard: true}}, f.redrives); diff != "" {
		t.Error(diff)
	}
}

// What was refused and kept is shown as that, is found behind any number of others, and may be discarded.
func TestRefusedDelivery(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.kept[0].Kind, f.kept[0].Reason = "refused", "mismatch"
	h := f.handler(t, nil)
	s := get(t, h, "/console/quarantine?kind=refused")
	s.says("tr", "acme/orders", "refused", "mismatch")
	s = get(t, h, s.link("1@7 of orders"))
	s.says("dl", "refused", "mismatch")
	s.says("button", "Make it an event")
	s.says("button", "Discard")
	get(t, h, "/console/quarantine?kind=unusable").says("p", "There is none.")
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, "/console/quarantine?team=acme&waiting=true")
	s.says("tr", "acme/orders", "unusable", "no_entity", "/order/id is not there", "12")
	s = get(t, h, s.link("1@7 of orders"))
	s.says("p", "it is one event: e-77 , type order.changed, entity o-7. Nothing was done yet.")
	s.says("pre", `{"order": 1}`)
	if raw := s.link("Download, byte for byte"); raw != "/console/quarantine/acme/orders/1/7/raw" {
		t.Errorf("the body is downloaded from %s", raw)
	}
	s.says("button", "Discard")
	s.says("p", "it becomes no event, and attention lists it no more")
	form := values(s)
	form.Del("discard") // of the other form
	if s := post(t, h, deliveryURL, form); s.status != http.StatusBadRequest || len(f.mended) > 0 {
		t.Errorf("without a reason: %d", s.status)
	}
	form.Set("reason", "the mapping is mended")
	s = post(t, h, deliveryURL, form)
	s.says("p", "done: it is event e-77 at events.acme.orders/1@41")
	if len(s.all("form")) != 0 {
		t.Error("what was done is asked for again")
	}
	s = post(t, h, deliveryURL, form)
	s.says("p", "No event is made of it: redrive: it was redriven by console")
	if s.status != http.StatusConflict || len(f.mended) != 1 {
		t.Errorf("sent twice: %d, done %d times", s.status, len(f.mended))
	}
	r, err := http.NewRequestWithContext(api.As(t.Context(), &access.Who{Role: "viewer", Sees: true}), http.MethodGet, "http://127.0.0.1"+deliveryURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := send(t, pagesOf(t, f.config()), r); s.status != http.StatusOK || len(s.all("form")) != 0 || strings.Contains(text(s.root), "As an event") {
		t.Errorf("a viewer is shown what they may not ask for: %d", s.status)
	}
	for _, wrong := range []string{"/console/quarantine?waiting=no", "/console/quarantine/acme/orders/x/7"} {
		if s := get(t, h, wrong); s.status != http.StatusBadRequest {
			t.Errorf("%s: %d", wrong, s.status)
		}
	}
}

package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.subs[0].Partitions = []api.PartitionItem{{Topic: "events.acme.orders", Partition: 1, State: "running"}}
	h := f.handler(t, nil)
	get(t, h, "/console/subscriptions?team=pay").says("p", "This process runs no subscription of pay")
	s := get(t, h, "/console/subscriptions?team=acme")
	s.says("tr", "acme.fulfil", "orders", "ready", "2 running", "30 records, 90s")
	s = get(t, h, s.link("acme.fulfil"))
	s.says("tr", "events.acme.orders/1", "running", "host-1/17, this process", "40", "0..70", "30")
	s.says("tr", "events.acme.orders/2", "unread", "nobody", "not known", "nobody reads it")
	s.says("tr", "dead_letter", "acme.fulfil orders o-1", "invalid")
	s.says("p", "Nobody has asked for one.")
	s.says("p", "1 of 2 partitions stand still, which no size changes: `forebay subscriptions get acme.fulfil` says why.")
	if s := get(t, h, "/console/subscriptions/acme/none"); s.status != http.StatusNotFound {
		t.Errorf("no such subscription: %d", s.status)
	}
	f.lagErr = schemas.Errorf(schemas.Unavailable, "ask the brokers", "no answer")
	s = get(t, h, subscriptionURL)
	s.says("section", "Partitions", "This part cannot be had: ask the brokers: no answer")
	s.says("h2", "Pause")
}

func TestPauseOfASubscription(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, subscriptionURL)
	s.says("p", "Nothing is decided and nothing attempted for it any more, in all processes, until it is resumed: 30 records are not decided, 1 events wait.")
	form := values(s)
	s = post(t, h, subscriptionURL+"/pause", form)
	if s.status != http.StatusBadRequest || f.subs[0].Paused != nil {
		t.Errorf("without a reason: %d", s.status)
	}
	form.Set("reason", "a bad release")
	form.Set("by", "ada")
	if s := post(t, h, subscriptionURL+"/pause", form); s.status != http.StatusSeeOther || s.header.Get("Location") != subscriptionURL {
		t.Errorf("paused: %d %s", s.status, s.header.Get("Location"))
	}
	if s := post(t, h, subscriptionURL+"/pause", form); s.status != http.StatusConflict {
		t.Errorf("sent twice: %d", s.status)
	}
	s = get(t, h, subscriptionURL)
	s.says("div", "State", "paused", "by ada: a bad release")
	s.says("button", "Resume acme.fulfil")
	form = values(s)
	form.Set("reason", "mended")
	post(t, h, subscriptionURL+"/resume", form)
	if diff := cmp.Diff(api.PauseRequest{Reason: "mended", By: "console"}, f.resumed); diff != "" {
		t.Error(diff)
	}
}

func TestSeek(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, get(t, h, subscriptionURL).link("Move its position…"))
	if len(s.all("form")) != 1 {
		t.Error("something can be asked for before it was planned")
	}
	s = get(t, h, subscriptionURL+"/seek?to=-1h&partition=1")
	s.says("p", "1 of 2 partitions are moved to 20", "20 are passed over, and are not decided any more", "Nothing was done yet.")
	s.says("tr", "events.acme.orders/1", "planned", "40", "60")
	form := values(s)
	if to := form.Get("to"); !strings.HasSuffix(to, "Z") || form.Get("after") != "0" {
		t.Errorf("the form is for %q after %q: an hour ago is another time later", to, form.Get("after"))
	}
	if s := post(t, h, subscriptionURL+"/seek", form); s.status != http.StatusBadRequest || len(f.sought) > 0 || len(s.all("form")) != 2 {
		t.Errorf("without a reason: %d, %d forms", s.status, len(s.all("form")))
	}
	form.Set("reason", "the shop sends them again")
	if s := post(t, h, subscriptionURL+"/seek", form); s.status != http.StatusSeeOther || s.header.Get("Location") != subscriptionURL {
		t.Errorf("asked: %d %s", s.status, s.header.Get("Location"))
	}
	s = post(t, h, subscriptionURL+"/seek", form)
	s.says("p", "since this was planned, console has asked for a move to 40 (the shop sends them again)")
	if s.status != http.StatusConflict || len(f.sought) != 1 || f.sought[0].To != form.Get("to") || *f.sought[0].Partition != 1 {
		t.Errorf("sent twice: %d, sought %+v", s.status, f.sought)
	}
	get(t, h, subscriptionURL).says("tr", "moved", "console", "the shop sends them again")

	form = values(get(t, h, subscriptionURL+"/seek?to=end"))
	to, err := time.Parse(time.RFC3339, form.Get("to"))
	if err != nil || to.After(time.Now()) || time.Since(to) > time.Minute {
		t.Errorf("the form is for %q: the end is elsewhere later", form.Get("to"))
	}
	form.Set("reason", "all of it was sent twice")
	f.planned[0].To, f.planned[0].Skipped = 65, new(int64(25))
	s = post(t, h, subscriptionURL+"/seek", form)
	s.says("p", "nothing was asked", "it would lead elsewhere")
	s.says("p", "25 are passed over")
	if again := values(s); s.status != http.StatusConflict || len(f.sought) != 1 || again.Get("reason") != form.Get("reason") {
		t.Errorf("more would be passed over than was shown: %d, sought %+v", s.status, f.sought)
	} else if s := post(t, h, subscriptionURL+"/seek", again); s.status != http.StatusSeeOther || len(f.sought) != 2 {
		t.Errorf("sent as it is shown now: %d", s.status)
	}
	for _, wrong := range []string{"to=nowhere", "to=end&partition=x", "two=end"} {
		if s := get(t, h, subscriptionURL+"/seek?"+wrong); s.status != http.StatusBadRequest {
			t.Errorf("%s: %d", wrong, s.status)
		}
	}
}

func TestAcceptOfAStop(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.subs[0].Partitions = []api.PartitionItem{{Topic: "events.acme.orders", Partition: 2, State: "stopped", Stopped: &f.stopped.Stopped}}
	h := f.handler(t, nil)
	s := get(t, h, subscriptionURL)
	s.says("tr", "events.acme.orders/2", "truncated: the log begins at 90", "forebay subscriptions accept acme.fulfil")
	s = get(t, h, s.link("Accept it…"))
	s.says("p", "Accepted, the partition goes on at 90, and what is between is not decided any more . Nothing was done yet.")
	s.says("div", "Records", "50")
	form := values(s)
	if s := post(t, h, subscriptionURL+"/accept", form); s.status != http.StatusBadRequest || len(s.all("form")) != 1 {
		t.Errorf("without a reason: %d", s.status)
	}
	form.Set("reason", "the provider sends them again")
	for _, want := range []int{http.StatusSeeOther, http.StatusNotFound} {
		if s := post(t, h, subscriptionURL+"/accept", form); s.status != want {
			t.Errorf("accepted: %d, want %d", s.status, want)
		}
	}
	if diff := cmp.Diff(&api.AcceptRequest{Stop: 7, Reason: "the provider sends them again", By: "console"}, f.accepted); diff != "" {
		t.Error(diff)
	}
	for _, wrong := range []string{"", "?stop=0", "?stop=x"} { // all stops are never meant
		if s := get(t, h, subscriptionURL+"/accept"+wrong); s.status != http.StatusBadRequest {
			t.Errorf("%q: %d", wrong, s.status)
		}
	}
	form.Del("stop")
	if s := post(t, h, subscriptionURL+"/accept", form); s.status != http.StatusBadRequest {
		t.Errorf("a form of no stop: %d", s.status)
	}
}

// TestOwnerOfAPartition: the process is named that has it, or had it last.
func TestOwnerOfAPartition(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		owner, state string
		own          bool
		want         string
	}{
		{"host-1/17", "running", true, "host-1/17, this process"}, {"host-2/4", "running", false, "host-2/4"}, {"host-2/4", "unread", false, "nobody; the last was host-2/4"},
		{"", "unread", false, "nobody"}, {"", "claiming", false, "nobody"}, {"", "claiming", true, "this process"},
		{"dead-host/17", "claiming", true, "this process, claiming; the last was dead-host/17"}, {"host-2/4", "claiming", false, "host-2/4"},
	} {
		if got := (partitionRow{LagItem: api.LagItem{Owner: tt.owner, State: tt.state}, Own: tt.own}).OwnerText(); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

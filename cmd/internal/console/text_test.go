package console

import (
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/stream/gate"
)

// TestEventName: a name is one that the CLI takes, too; that of a record that was not taken as an event is its place.
func TestEventName(t *testing.T) {
	t.Parallel()
	for want, i := range map[string]api.InboxItem{
		"acme/fulfil/orders/e-5":               order("5", gate.Applied, gate.ReasonNext, "done"),
		"acme/fulfil/events.acme.orders/1@40":  order("5", gate.Conflict, gate.ReasonBodyDiffers, "conflict"),
		"acme/fulfil/events.acme.orders/0@-41": {Team: "acme", Subscription: "fulfil", Topic: "events.acme.orders", Offset: -41},
		"acme/fulfil/%2Fshop%2Forders/../a b?": {Team: "acme", Subscription: "fulfil", Source: "/shop/orders", EventID: "../a b?"},
	} {
		n := api.EventName(&i)
		if got := n.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if again, err := names.ParseEvent(n.String()); err != nil || again != n {
			t.Errorf("%s is read as %+v, %v", want, again, err)
		}
	}
}

func TestVersionText(t *testing.T) {
	t.Parallel()
	for _, tt := range [][4]string{ // clock, kind, as it sorts, as it is read
		{"", "sequence", "00000000000000000042", "42"},
		{"", "sequence", "e000002:00000000000000000042+00003", "e2:42+3"},
		{"", "monotonic", "=abc", "abc"},
		{"", "timestamp", "2026-07-01T09:02:03.000000000Z", "2026-07-01T09:02:03Z"},
		{"", "none", "", ""},
		{"", "sequence", "what no version is", "what no version is"},
	} {
		if got := versionText(tt[0], tt[1], tt[2]); got != tt[3] {
			t.Errorf("%s %q: %q, want %q", tt[1], tt[2], got, tt[3])
		}
	}
}

func TestWhen(t *testing.T) {
	t.Parallel()
	var none *time.Time
	if when(none) != nil || when(time.Time{}) != nil {
		t.Error("no time is one")
	}
	if got := when(time.Now().Add(-50 * time.Hour)); got.Ago != "2d ago" {
		t.Errorf("%+v", got)
	}
	if got := when(new(time.Now().Add(30 * time.Hour))); got.Ago != "in 29h" {
		t.Errorf("%+v", got)
	}
}
